//! Hooks: their order, their vetoes, their failures.

#[cfg(test)]
mod approvals;
#[cfg(test)]
mod order;
#[cfg(test)]
mod questions;
#[cfg(test)]
#[path = "../tools/room.rs"]
mod room;
#[cfg(test)]
mod tools;
#[cfg(test)]
mod vetoes;
