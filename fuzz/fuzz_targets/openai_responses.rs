//! Answers of OpenAI Responses.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| agent_providers::fuzzing::openai_responses(data));
