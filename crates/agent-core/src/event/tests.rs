//! Shapes of events.
