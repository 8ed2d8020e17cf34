//! Models as data.
