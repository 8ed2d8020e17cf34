use super::*;
use crate::workspace::Workspace;

fn workflow(name: &str) -> (String, serde_json::Value) {
    let root = Workspace::find().unwrap().root;
    let text = std::fs::read_to_string(root.join(".github/workflows").join(name)).unwrap();
    let parsed = yaml_serde::from_str(&text).unwrap();
    (text, parsed)
}

#[test]
fn a_missing_key_is_an_error_that_names_the_variable() {
    for provider in PROVIDERS {
        let error = call(&[provider.name.to_owned()], |_| None).unwrap_err().to_string();
        let first = provider.needs[0].variable;
        assert!(
            error.starts_with(&format!("{first} is not set, so {} was not checked", provider.name)),
            "{error}"
        );
        let error = call(&[provider.name.to_owned()], |_| Some(" ".to_owned())).unwrap_err().to_string();
        assert!(error.contains("is not set"), "an empty value is none: {error}");
    }
}

#[test]
fn the_program_gets_the_model_its_protocol_and_what_the_provider_needs() {
    let call = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        call(&words, |name| Some(format!("value-of-{name}"))).unwrap()
    };
    let (arguments, environment) = call(&["anthropic"]);
    assert!(
        arguments.join(" ").ends_with("-- anthropic/claude-haiku-5-5 --protocol anthropic_messages"),
        "{arguments:?}"
    );
    assert!(environment.is_empty());
    let (arguments, environment) = call(&["ollama", "ollama/small"]);
    assert!(arguments.join(" ").ends_with("-- ollama/small --protocol ollama_chat"), "{arguments:?}");
    assert_eq!(environment, [("LIVE_BASE_URL", "http://value-of-OLLAMA_HOST".to_owned())]);
}

#[test]
fn an_unknown_provider_is_an_error_that_lists_the_others() {
    let error = call(&["nobody".to_owned()], |_| None).unwrap_err().to_string();
    assert!(error.contains("the providers are anthropic, openai-chat"), "{error}");
}

#[cfg(feature = "agents")]
#[test]
fn each_provider_has_a_model_of_its_protocol() {
    for provider in PROVIDERS {
        let model = agent_providers::catalogue::named(provider.model).unwrap();
        assert_eq!(model.api.as_str(), provider.protocol, "{}", provider.name);
    }
}

/// REQ-178. The tests run for every change, without a key; the live checks are another workflow, which runs every provider and
/// is never green without a call.
#[test]
fn ci_runs_for_every_change_and_the_live_checks_are_a_workflow_of_their_own() {
    let (text, ci) = workflow("ci.yml");
    assert!(ci["on"].get("push").is_some() && ci["on"].get("pull_request").is_some(), "{text}");
    assert!(text.contains("cargo xtask ci") && !text.contains("secrets"), "CI has no key");

    let (text, live) = workflow("live.yml");
    assert!(live["on"].get("push").is_none() && live["on"].get("pull_request").is_none(), "{text}");
    let checked = live["jobs"]["provider"]["strategy"]["matrix"]["provider"].as_array().unwrap();
    let mut checked: Vec<&str> = checked.iter().map(|name| name.as_str().unwrap()).collect();
    // It has a job of its own, with a server.
    checked.push("ollama");
    let expected: Vec<&str> = PROVIDERS.iter().map(|provider| provider.name).collect();
    assert_eq!(checked, expected);
    assert!(text.contains("cargo xtask live ollama"), "{text}");
    for needed in PROVIDERS.iter().flat_map(|provider| provider.needs) {
        assert!(text.contains(needed.variable), "live.yml does not set {}", needed.variable);
    }
    for escape in ["exit 0", "|| true", "continue-on-error"] {
        assert!(!text.contains(escape), "`{escape}` lets a job be green without a check");
    }
}
