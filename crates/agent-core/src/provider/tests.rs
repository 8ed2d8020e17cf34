//! Errors, phrases and the fold.

mod classify;
mod fold;
mod overflow;
mod stream;
