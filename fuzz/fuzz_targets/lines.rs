//! A JSON value a line, cut anywhere.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| agent_providers::fuzzing::lines(data));
