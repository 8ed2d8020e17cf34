//! Shapes of messages on disk.
