//! The store on Postgres: what every store promises, by the tests of the other stores, and what this one promises beyond.
//!
//! One server of this machine is started for the whole program, and every test has a schema of its own. Where no server can be
//! had, one line says so.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "the children are this test itself, and times are printed")]
#![allow(clippy::print_stdout, reason = "figures for whoever runs it")]
#![allow(
    clippy::duplicate_mod,
    reason = "each file of tests includes the scene, also where it is a program of its own"
)]

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
#[path = "../processes.rs"]
mod processes;
#[path = "../search.rs"]
mod search;
#[path = "../told.rs"]
mod told;
#[path = "../travel.rs"]
mod travel;
#[path = "../waiting.rs"]
mod waiting;

mod damage;
mod hostile;
mod leases;
mod many;
mod outages;
mod tls;

#[path = "../harm/mod.rs"]
mod harm;
#[path = "../scene/mod.rs"]
mod scene;

use agent_core::BasicAgent;
use agent_core::ModelConfig;
use agent_core::testing::{ScriptedProvider, ScriptedReply};
use scene::postgres::Address;

/// The schema of a test, if there is a server.
fn address(test: &str) -> Option<Address> {
    if !scene::postgres::is_there() {
        return None;
    }
    Some(Address::new(scene::postgres::url().as_ref().unwrap(), test))
}

/// An agent that answers each prompt.
fn answering(id: &str) -> BasicAgent {
    BasicAgent::new(ModelConfig::default())
        .with_session_id(id)
        .with_provider(ScriptedProvider::responding(|_| ScriptedReply::text("Done.")))
}
