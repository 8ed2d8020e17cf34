//! Hooks: their order, their vetoes, their failures.

mod order;
mod questions;
#[path = "../tools/room.rs"]
mod room;
mod tools;
mod vetoes;
