//! AWS event-stream frames, cut anywhere.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| agent_providers::fuzzing::frames(data));
