//! Tools: their arguments, their results, their order.

#[cfg(test)]
mod arguments;
#[cfg(test)]
mod habits;
#[cfg(test)]
mod order;
#[cfg(test)]
mod outcomes;
#[cfg(test)]
mod room;
