//! Answers of Chat Completions.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| agent_providers::fuzzing::openai_chat(data));
