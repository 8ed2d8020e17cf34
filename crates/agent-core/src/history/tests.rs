//! Laws of the history.
