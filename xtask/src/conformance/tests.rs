mod compare_tests;
mod cut_tests;
mod frame_tests;
mod rule_tests;

use super::*;

#[test]
fn the_command_line_names_a_folder_a_protocol_and_the_form() {
    let read = |words: &[&str]| options(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
    assert_eq!(read(&[]).unwrap(), Options::default());
    let all = read(&["some/set", "--protocol", "ollama", "--json"]).unwrap();
    assert_eq!(
        all,
        Options {
            directory: Some(PathBuf::from("some/set")),
            protocol: Some("ollama".to_owned()),
            json: true
        }
    );
    assert!(read(&["a", "b"]).is_err());
    assert!(read(&["--protocol"]).is_err());
    assert!(read(&["--protcol", "x"]).is_err());
}

#[test]
fn a_folder_without_a_manifest_is_an_error_that_names_it() {
    let error = judge(std::path::Path::new("no/such/folder"), None).unwrap_err();
    assert!(format!("{error:#}").contains("no/such/folder"), "{error:#}");
}

fn own_set() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(OWN_SET)
}

/// The answers that vendors document, whole and cut at hostile places, through the registry over HTTP.
#[test]
fn the_projects_own_set_passes_and_every_built_in_protocol_has_cases() {
    let report = judge(&own_set(), None).unwrap();
    assert!(report.passed(), "{report}");
    let names: Vec<&str> = report.protocols.iter().map(|p| p.name.as_str()).collect();
    for (name, _) in play::PROTOCOLS.iter().filter(|(_, api)| play::has_provider(*api)) {
        assert!(names.contains(name), "{name} has no case of its own");
    }
}

/// The larger set beside a checkout of the developers, of the protocols that are built in.
#[test]
fn the_set_beside_the_project_passes() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/fixtures");
    if !folder.join(manifest::NAME).is_file() {
        eprintln!("skipped: {} is not here", folder.display());
        return;
    }
    let names = play::PROTOCOLS.iter().filter(|(_, api)| play::has_provider(*api)).map(|(name, _)| *name);
    for name in names.chain([frames::FOLDER]) {
        let report = judge(&folder, Some(name)).unwrap();
        assert!(report.passed(), "{report}");
    }
}

/// A set of one case, in a folder that is gone at the end.
fn set_of_one(expected: &serde_json::Value, protocol: &str) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let body = "{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"Hi\"},\"done\":true,\
                \"done_reason\":\"stop\",\"prompt_eval_count\":3,\"eval_count\":1}\n";
    let case = serde_json::json!({"case": "one", "protocol": protocol, "file": "one.ndjson", "status": 200,
        "headers": {"content-type": "application/x-ndjson"}});
    let manifest = serde_json::json!({ "cases": [case] });
    let of_protocol = folder.path().join(protocol);
    std::fs::create_dir(&of_protocol).unwrap();
    std::fs::write(folder.path().join(manifest::NAME), manifest.to_string()).unwrap();
    std::fs::write(of_protocol.join("one.ndjson"), body).unwrap();
    std::fs::write(of_protocol.join("one.expected.json"), expected.to_string()).unwrap();
    judge(folder.path(), None).unwrap()
}

fn hi() -> serde_json::Value {
    serde_json::json!({"text": "Hi", "stop_reason": "stop", "complete": true, "usage": {"input": 3, "output": 1}})
}

#[test]
fn a_case_that_differs_fails_and_says_where() {
    assert!(set_of_one(&hi(), "ollama").passed());
    let mut other = hi();
    other["text"] = "Ho".into();
    let report = set_of_one(&other, "ollama");
    assert!(!report.passed());
    let text = report.to_string();
    assert!(text.contains("ollama/one (whole)") && text.contains("text from character 1"), "{text}");
    let json = report.to_json();
    assert_eq!(json["passed"], false);
    assert_eq!(json["protocols"][0]["failures"][0]["case"], "one");
}

#[test]
fn a_protocol_without_a_provider_counts_as_failed_and_is_named() {
    let report = set_of_one(&hi(), "of-another-year");
    assert!(!report.passed());
    let text = report.to_string();
    assert!(text.contains("of-another-year: no provider is built in for it"), "{text}");
    assert_eq!(report.to_json()["protocols"][0]["failed"], 1);
}
