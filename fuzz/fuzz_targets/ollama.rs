//! Answers of Ollama.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| agent_providers::fuzzing::ollama(data));
