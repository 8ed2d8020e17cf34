//! Sessions on a real Restate server, which each test starts for itself. Without a server they say so and pass.
#![expect(
    clippy::disallowed_methods,
    reason = "the tests start servers and workers, measure real time, and say what they measured"
)]
#![expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "figures for people")]

#[cfg(test)]
mod approvals;
#[cfg(test)]
mod bench;
#[cfg(test)]
mod branches;
#[cfg(test)]
mod kills;
#[cfg(test)]
mod load;
#[cfg(test)]
mod same_run;
#[cfg(test)]
mod server;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod upgrade;
#[cfg(test)]
mod worker;
#[cfg(test)]
#[path = "../../../looptree/tests/own_driver/world.rs"]
mod world;
