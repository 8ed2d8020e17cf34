//! Two drivers of the same run or group: the built-in one, and the blocking one of `docs/guides/own-driver.md`.
#![cfg(feature = "testing")]

#[cfg(test)]
mod cases;
#[cfg(test)]
#[expect(unreachable_pub, reason = "the page shows this file as a user would write it")]
mod driver;
#[cfg(test)]
#[expect(unreachable_pub, reason = "the page shows this file as a user would write it")]
mod group_driver;
#[cfg(test)]
mod groups;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod world;
