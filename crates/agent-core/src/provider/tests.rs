//! Errors, phrases and the fold.
