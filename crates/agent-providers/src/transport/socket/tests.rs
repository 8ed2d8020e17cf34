//! Lanes and their connection.
