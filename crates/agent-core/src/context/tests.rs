//! Counting and compaction.

mod cascade;
mod laws;
mod levels;
mod sample;
mod strategy;
mod tokens;
mod tracker;
