//! Sessions on a real Restate server, which each test starts for itself. Without a server they say so and pass.

#[cfg(test)]
mod approvals;
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
#[expect(dead_code, reason = "the tests of the own driver use the rest")]
mod world;
