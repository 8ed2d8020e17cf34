//! Model providers for Looptree.

#[cfg(feature = "http-protocols")]
mod handoff;
#[cfg(feature = "http-protocols")]
mod protocol;
