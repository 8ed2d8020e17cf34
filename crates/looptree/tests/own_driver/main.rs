//! Two drivers of the same run: the built-in one, and the blocking one of `docs/guides/own-driver.md`.
#![cfg(feature = "testing")]

#[cfg(test)]
mod cases;
#[cfg(test)]
#[expect(unreachable_pub, reason = "the page shows this file as a user would write it")]
mod driver;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod world;
