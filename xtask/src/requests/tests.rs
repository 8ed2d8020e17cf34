mod coverage;
mod law_tests;

use std::collections::BTreeSet;

use super::*;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|w| (*w).to_owned()).collect()
}

/// Runs the command with a folder of its own, and reads its list.
fn written(folder: &Path, protocol: &str) -> Vec<Value> {
    let place = folder.to_str().unwrap();
    let good = run(&Workspace::find().unwrap(), &words(&[place, "--protocol", protocol])).unwrap();
    assert!(good, "a body breaks a law; the output says which");
    let index: Value = serde_json::from_slice(&std::fs::read(folder.join(INDEX)).unwrap()).unwrap();
    index["requests"].as_array().unwrap().clone()
}

/// Every file of a folder, by name.
fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[track_caller]
fn check_command(protocol: &str, path: &str, at_least: usize) {
    check_command_by(protocol, at_least, |body, request, file| {
        assert_eq!(body["model"], request["model"], "{file}");
        assert_eq!(request["path"], path, "{file}");
    });
}

#[track_caller]
fn check_command_by(protocol: &str, at_least: usize, good: impl Fn(&Value, &Value, &str)) {
    let folder = tempfile::tempdir().unwrap();
    let index = written(folder.path(), protocol);
    assert!(index.len() >= at_least, "{} bodies", index.len());
    assert_eq!(
        BTreeSet::from_iter(files(folder.path())),
        BTreeSet::from([protocol.to_owned(), INDEX.to_owned()]),
        "one protocol was asked for"
    );
    let listed: Vec<&str> = index.iter().map(|r| r["file"].as_str().unwrap()).collect();
    let there: Vec<String> =
        files(&folder.path().join(protocol)).iter().map(|f| format!("{protocol}/{f}")).collect();
    assert_eq!(listed, there);
    for request in &index {
        let file = request["file"].as_str().unwrap();
        let body: Value = serde_json::from_slice(&std::fs::read(folder.path().join(file)).unwrap()).unwrap();
        good(&body, request, file);
        assert_eq!(request["protocol"], protocol, "{file}");
    }
}

#[test]
fn anthropics_bodies_are_written_and_keep_the_laws() {
    check_command("anthropic", "/v1/messages", 100);
}

#[test]
fn the_bodies_of_claude_on_vertex_are_written_and_keep_the_laws() {
    check_command_by("anthropic-vertex", 100, |body, request, file| {
        assert_eq!(body["anthropic_version"], "vertex-2023-10-16", "{file}");
        assert!(body.get("model").is_none(), "{file}: the path names the model");
        let path = request["path"].as_str().unwrap();
        assert!(path.contains("/publishers/anthropic/models/"), "{file}: {path}");
    });
}

#[test]
fn the_bodies_of_chat_completions_and_its_dialects_are_written_and_keep_the_laws() {
    check_command("openai-chat", "/chat/completions", 150);
}

#[test]
fn bedrocks_bodies_are_written_and_keep_the_laws() {
    // The law about the path is checked with the others.
    check_command_by("bedrock", 100, |body, _, file| {
        assert!(body.get("model").is_none(), "{file}: the path names the model");
    });
}

#[test]
fn ollamas_bodies_are_written_and_keep_the_laws() {
    check_command("ollama", "/api/chat", 60);
}

#[test]
fn both_kinds_of_bodies_for_gemini_are_written_and_keep_the_laws() {
    for (protocol, start) in [
        ("gemini", "/v1beta/models/"),
        ("vertex", "/v1/projects/loopback-project/locations/europe-west4/publishers/google/models/"),
    ] {
        check_command_by(protocol, 100, |_, request, file| {
            let model = request["model"].as_str().unwrap();
            assert_eq!(request["path"], format!("{start}{model}:streamGenerateContent?alt=sse"), "{file}");
        });
    }
}

#[test]
fn the_bodies_of_responses_are_written_and_keep_the_laws() {
    check_command("openai-responses", "/responses", 60);
}

#[test]
fn azures_bodies_are_written_and_keep_the_laws() {
    check_command("azure-responses", "/responses", 60);
}

/// What a provider sends depends on the request alone, so two runs of the command can be compared.
#[test]
fn a_second_run_writes_the_same_bytes_and_takes_only_its_own_old_files_away() {
    let folder = tempfile::tempdir().unwrap();
    let of_protocol = folder.path().join("ollama");
    let first = written(folder.path(), "ollama");
    let read = || -> Vec<(String, Vec<u8>)> {
        let bytes = |name: &String| std::fs::read(of_protocol.join(name)).unwrap();
        files(&of_protocol).into_iter().map(|name| (name.clone(), bytes(&name))).collect()
    };
    let before = read();
    std::fs::write(of_protocol.join("999-old.json"), "{}").unwrap();
    std::fs::write(of_protocol.join("mine.json"), "{}").unwrap();
    assert_eq!(written(folder.path(), "ollama"), first);
    let mut after = read();
    after.retain(|(name, _)| name != "mine.json");
    assert_eq!(after.len(), before.len());
    assert!(after == before, "the second run wrote other bytes");
    assert!(of_protocol.join("mine.json").is_file());
}

#[test]
fn the_command_line_names_a_folder_and_a_protocol() {
    assert_eq!(options(&[]).unwrap(), Options::default());
    let both = options(&words(&["some/folder", "--protocol", "ollama"])).unwrap();
    let expected =
        Options { directory: Some(PathBuf::from("some/folder")), protocol: Some("ollama".to_owned()) };
    assert_eq!(both, expected);
    for wrong in [&["a", "b"][..], &["--protocol"], &["--protcol", "x"], &["--protocol", "smoke-signals"]] {
        assert!(options(&words(wrong)).is_err(), "{wrong:?}");
    }
    let error = options(&words(&["--protocol", "smoke-signals"])).unwrap_err().to_string();
    assert!(error.contains("anthropic, anthropic-vertex, openai-chat, ollama"), "{error}");
}

#[test]
fn every_protocol_that_is_built_in_has_its_bodies_written() {
    let registry = ProviderRegistry::default();
    let written: Vec<ApiProtocol> = PROTOCOLS.iter().map(|(_, api)| *api).collect();
    for api in registry.protocols() {
        assert!(written.contains(&api), "{api} is missing");
    }
}
