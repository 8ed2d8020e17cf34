//! The handle.
