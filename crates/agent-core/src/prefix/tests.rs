//! Places in JSON, and two bodies compared.

mod bytes;
mod json;
