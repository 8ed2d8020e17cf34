//! The store on Postgres: what every store promises, by the tests of the other stores, and what this one promises beyond.
//!
//! One server of this machine is started for the whole program, and every test has a schema of its own. Where no server can be
//! had, one line says so.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "../both_stores.rs"]
mod both_stores;
#[path = "../crash.rs"]
mod crash;
#[path = "../deferred.rs"]
mod deferred;
#[path = "../groups.rs"]
mod groups;
#[path = "../journal_laws.rs"]
mod journal_laws;
#[path = "../lists.rs"]
mod lists;
#[path = "../search.rs"]
mod search;
#[path = "../travel.rs"]
mod travel;
#[path = "../waiting.rs"]
mod waiting;
#[path = "../writers.rs"]
mod writers;
