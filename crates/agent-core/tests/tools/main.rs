//! Tools: their arguments, their results, their order.

mod arguments;
mod order;
mod outcomes;
mod room;
