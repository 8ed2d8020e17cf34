use super::seeds::{lines_of_frames, mode, words_of};
use super::{Options, SECONDS, TARGETS, executions, options};
use crate::workspace::Workspace;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn every_target_is_run_for_a_minute_unless_the_command_line_says_otherwise() {
    let all = Options { seconds: SECONDS, targets: TARGETS.to_vec() };
    assert_eq!(options(&[]).unwrap(), all);
    let chosen = Options { seconds: 5, targets: vec!["sse", "google"] };
    assert_eq!(options(&words("--seconds 5 sse google")).unwrap(), chosen);
    for line in ["nothing", "--seconds", "--seconds soon", "--seconds 0", "--fast"] {
        assert!(options(&words(line)).is_err(), "{line}");
    }
}

#[test]
fn the_targets_are_those_of_the_fuzz_workspace() {
    let folder = Workspace::find().unwrap().root.join("fuzz");
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    for target in TARGETS {
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{target}.rs\"")), "{target}");
        assert!(folder.join(format!("fuzz_targets/{target}.rs")).is_file(), "{target}");
    }
    assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
}

#[test]
fn a_recording_is_read_as_a_stream_a_body_or_an_error_and_what_is_expected_is_no_recording() {
    assert_eq!(mode("text.sse"), Some(0));
    assert_eq!(mode("cut.ndjson"), Some(0));
    assert_eq!(mode("json-body.json"), Some(1));
    assert_eq!(mode("err429-rate-limit.json"), Some(2));
    assert_eq!(mode("error-in-stream.sse"), Some(0));
    assert_eq!(mode("text.expected.json"), None);
}

#[test]
fn the_words_of_a_recording_are_its_names_and_short_values() {
    assert_eq!(words_of(r#"{"type":"text_delta","text":"Hello, world"}"#), ["type", "text_delta", "text"]);
}

#[test]
fn the_number_of_executions_is_what_libfuzzer_says_at_its_end() {
    assert_eq!(executions("#5 DONE\nstat::number_of_executed_units: 1234\nstat::peak: 3\n"), Some(1234));
    assert_eq!(executions("#5 DONE\n"), None);
}

#[test]
fn frames_become_a_line_each_and_what_is_no_frame_ends_them() {
    // The empty message of the AWS test vectors, twice, and the beginning of a third one.
    let empty = [0, 0, 0, 0x10, 0, 0, 0, 0, 0x05, 0xc2, 0x48, 0xeb, 0x7d, 0x98, 0xc8, 0xff];
    let stream = [&empty[..], &empty[..], &empty[..7]].concat();
    assert_eq!(lines_of_frames(&stream), b"|\n|\n");
    assert_eq!(lines_of_frames(b"{}"), b"");
}
