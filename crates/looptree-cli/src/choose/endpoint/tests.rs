use super::*;
use crate::args::{Cli, Flags};
use crate::settings::{Broken, Consent};
use clap::Parser as _;

fn flags(words: &[&str]) -> Flags {
    Cli::try_parse_from([&["looptree"], words].concat()).unwrap().flags
}

/// The settings of a user's file and of the command line.
fn settings(file: &str, words: &[&str]) -> Settings {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    std::fs::write(&path, file).unwrap();
    let mut flags = flags(words);
    flags.config = Some(path);
    Settings::load(&flags, folder.path(), &Consent::Remembered, Broken::Fails).unwrap()
}

#[test]
fn an_address_and_a_variable_apply_only_to_the_model_and_the_address_that_they_are_set_for() {
    const LOCAL: &str = "model = \"local/a\"\nbase_url = \"http://mine\"\napi_key_env = \"MINE\"\n";
    // The file, the command line, the provider, the address and the variable that apply, and what is named as unused.
    type Row<'a> = (&'a str, &'a [&'a str], &'a str, Option<&'a str>, Option<&'a str>, &'a [&'a str]);
    let rows: [Row<'_>; 12] = [
        (LOCAL, &[], "local", Some("http://mine"), Some("MINE"), &[]),
        (LOCAL, &["--model=local/b"], "local", Some("http://mine"), Some("MINE"), &[]),
        (LOCAL, &["--model=anthropic/b"], "anthropic", None, None, &["base_url", "api_key_env"]),
        // The variable was set for the address of the file.
        (LOCAL, &["--base-url=http://other"], "local", Some("http://other"), None, &["api_key_env"]),
        (
            LOCAL,
            &["--base-url=http://other", "--api-key-env=OTHER"],
            "local",
            Some("http://other"),
            Some("OTHER"),
            &[],
        ),
        (LOCAL, &["--api-key-env=OTHER"], "local", Some("http://mine"), Some("OTHER"), &[]),
        ("base_url = \"http://mine\"\n", &["--model=local/b"], "local", Some("http://mine"), None, &[]),
        // The file does not say that the key of Anthropic is for its address.
        ("base_url = \"http://mine\"\n", &["--model=anthropic/b"], "anthropic", None, None, &["base_url"]),
        (
            "model = \"openai/a\"\napi_key_env = \"MINE\"\n",
            &["--model=openai/b"],
            "openai",
            None,
            Some("MINE"),
            &[],
        ),
        (
            "model = \"openai/a\"\napi_key_env = \"MINE\"\n",
            &["--model=groq/b"],
            "groq",
            None,
            None,
            &["api_key_env"],
        ),
        ("model = \"openai/a\"\n", &["--base-url=http://other"], "openai", Some("http://other"), None, &[]),
        (
            "model = \"local/a\"\nbase_url = \"http://mine\"\n[profiles.p]\nmodel = \"openai/b\"\n",
            &["--profile=p"],
            "openai",
            None,
            None,
            &["base_url"],
        ),
    ];
    for (file, words, provider, url, variable, unused) in rows {
        let settings = settings(file, words);
        let named = last(settings.layers(), |layer| layer.model.as_deref()).map(|(at, ..)| at);
        let found = Endpoint::find(&settings, named, provider);
        let text = |set: &Option<Set<String>>| set.as_ref().map(|set| set.value.clone());
        assert_eq!(text(&found.base_url).as_deref(), url, "{file} {words:?}");
        assert_eq!(text(&found.key_variable).as_deref(), variable, "{file} {words:?}");
        assert_eq!(found.notes.len(), unused.len(), "{file} {words:?}: {:?}", found.notes);
        for (note, key) in found.notes.iter().zip(unused) {
            assert!(note.starts_with(key), "{file} {words:?}: {note}");
        }
    }
}
