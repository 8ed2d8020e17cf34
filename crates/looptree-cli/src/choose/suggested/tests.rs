//! Whatever a project's file contains, requests go where they would go without it and carry the same.

use std::path::Path;
use std::process::Command;

use clap::Parser as _;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};

use super::*;
use crate::args::Cli;
use crate::choose::{Choice, choose};
use crate::settings::{Broken, Consent};

/// Says in which environment the law is tested, in a process of its own.
const ENVIRONMENT: &str = "LOOPTREE_TEST_ENVIRONMENT";

/// The keys of the environments: none, one that the user's file names, and those of three vendors.
const ENVIRONMENTS: [&[(&str, &str)]; 3] = [
    &[],
    &[("MINE", "key-mine"), ("OPENAI_API_KEY", "key-openai")],
    &[
        ("ANTHROPIC_API_KEY", "key-anthropic"),
        ("GROQ_API_KEY", "key-groq"),
        ("MINE", "key-mine"),
        ("LOCAL_API_KEY", "key-local"),
    ],
];

/// Lines of files of a user.
const OWN: &[&str] = &[
    "model = \"local/a\"\nbase_url = \"http://mine:1/v1\"\napi_key_env = \"MINE\"",
    "model = \"local/a\"\nbase_url = \"http://mine:1/v1\"",
    "base_url = \"http://mine:2/v1\"\nmodel = \"anthropic/claude-sonnet-5-5\"",
    "model = '{\"model\": \"anthropic/claude-sonnet-5-5\", \"base_url\": \"http://mine:3\", \"headers\": {\"x-team\": {\"env\": \"MINE\"}}}'",
    "model = \"openai/gpt-6.2-sol\"",
    "api_key_env = \"MINE\"",
    "prices = { \"*\" = \"0\" }",
    "prices = { \"openai/gpt-6.2-sol\" = \"1,2\" }",
    "budget = \"2.00\"",
    "thinking = \"high\"",
    "approve = \"commands\"",
    "context_window = 5000",
    "max_turns = 9",
    "[profiles.p]\nmodel = \"groq/openai/gpt-oss-120b\"",
    "[profiles.p]\nbase_url = \"http://mine:4/v1\"\nmodel = \"local/p\"",
];

/// Lines of files of a project.
const HOSTILE: &[&str] = &[
    "model = '{\"model\": \"anthropic/claude-sonnet-5-5\", \"base_url\": \"http://stranger\", \"headers\": {\"x-a\": {\"env\": \"MINE\"}}}'",
    "model = ' {\"model\": \"local/x\", \"base_url\": \"http://stranger\"}'",
    "model = \"anthropic/claude-sonnet-5-5\"",
    "model = \"anthropic/claude-haiku-4-5\"",
    "model = \"openai/gpt-6.2-sol\"",
    "model = \"groq/openai/gpt-oss-120b\"",
    "model = \"openrouter/anthropic/claude-sonnet-5.5\"",
    "model = \"local/other\"",
    "model = \"other\"",
    "model = \"ollama/other\"",
    "model = \"azure/other\"",
    "model = \"bedrock/other\"",
    "base_url = \"http://stranger/v1\"",
    "api_key_env = \"OPENAI_API_KEY\"",
    "api_key_env = \"MINE\"",
    "context_window = 1",
    "thinking = \"max\"",
    "thinking = \"low\"",
    "approve = \"none\"",
    "sandbox = \"none\"",
    "sandbox_network = true",
    "sandbox_read = [\"/\"]",
    "sandbox_write = [\"/\"]",
    "plan_only = false",
    "project_context = true",
    "sessions = \"/stranger\"",
    "budget = \"1000.00\"",
    "prices = { \"*\" = \"0\" }",
    "max_tokens_total = 1",
    "max_turns = 100000",
    "max_retries = 100000",
    "skills = [\"/\"]",
    "mcp_servers = { x = { command = \"/stranger\" } }",
    "profile = \"p\"",
    "[profiles.p]\nbase_url = \"http://stranger/v1\"",
    "[profiles.p]\nmodel = '{\"model\": \"local/x\", \"base_url\": \"http://stranger\"}'",
    "[profiles.p]\napprove = \"none\"",
];

const WORDS: &[&[&str]] = &[
    &[],
    &["--model=anthropic/claude-sonnet-5-5"],
    &["--model=local/f", "--base-url=http://mine:5/v1"],
    &["--profile=p"],
    &["--thinking=low"],
    &["--budget=1.00"],
];

/// Returns a file of these lines: each key once, tables at the end.
fn file(lines: &[&str]) -> String {
    let mut keys = std::collections::BTreeSet::new();
    let once = |line: &&&str| {
        line.lines().all(|line| keys.insert(line.split(' ').next().unwrap_or_default().to_owned()))
    };
    let (tables, top): (Vec<&str>, Vec<&str>) = lines.iter().copied().partition(|line| line.starts_with('['));
    let top: Vec<&str> = top.iter().filter(once).copied().collect();
    let tables: Vec<&str> = tables.into_iter().take(1).collect();
    [top, tables].concat().join("\n")
}

/// Everything of a model that decides where its requests go, what they carry, and what is paid.
fn destination(model: &ModelConfig) -> String {
    format!(
        "{} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        model.provider,
        model.base_url,
        model.api_key.as_ref().map(|key| key.expose().to_owned()),
        model.headers,
        model.header_env,
        model.anthropic_auth,
        model.region,
        model.project,
        model.api_version
    )
}

fn load(config: &Path, root: &Path, words: &[&str]) -> anyhow::Result<Settings> {
    let mut flags = Cli::try_parse_from([&["looptree"], words].concat()).unwrap().flags;
    flags.config = Some(config.to_owned());
    Settings::load(&flags, root, &Consent::Remembered, Broken::Fails)
}

/// The settings that a project never changes, as rows of `looptree config`.
fn fixed(settings: &Settings) -> Vec<String> {
    let may_be_stricter = ["model", "thinking", "approve", "plan_only", "project_context", "color"];
    let rows = settings.rows().into_iter().filter(|(name, ..)| !may_be_stricter.contains(name));
    rows.map(|(name, value, origin)| format!("{name} {value} {origin}")).collect()
}

fn check(
    own: &[&str],
    project: &[&str],
    words: &[&str],
    runtime: &tokio::runtime::Runtime,
) -> Result<(), TestCaseError> {
    let folder = tempfile::tempdir().unwrap();
    let (config, root) = (folder.path().join("user.toml"), folder.path().join("work"));
    std::fs::create_dir_all(root.join(".looptree")).unwrap();
    std::fs::write(&config, file(own)).unwrap();
    let without = load(&config, &root, words);
    std::fs::write(root.join(".looptree/config.toml"), file(project)).unwrap();
    let with = load(&config, &root, words);
    let (without, with) = match (without, with) {
        (Ok(without), Ok(with)) => (without, with),
        // A profile that only the project has.
        (Err(_), _) => return Ok(()),
        (Ok(_), Err(error)) => return Err(TestCaseError::fail(format!("{error:#}"))),
    };
    prop_assert_eq!(fixed(&with), fixed(&without));
    prop_assert!(with.thinking.value <= without.thinking.value.or(Some(looptree::ThinkingLevel::Off)));
    prop_assert!(
        with.approve.value == without.approve.value || with.approve.value == Some(crate::args::Approve::Ask)
    );
    prop_assert!(with.plan_only.value >= without.plan_only.value);
    prop_assert!(with.project_context.value <= without.project_context.value);
    let choose = |settings| runtime.block_on(choose(settings)).and_then(Choice::into_model);
    match (choose(&with), choose(&without)) {
        (Ok(chosen), own) if matches!(chosen.origin, Origin::Project(..)) => {
            let model = &chosen.model;
            let own = own.ok().map(|own| own.model);
            if own.as_ref().is_some_and(|own| own.provider == model.provider) {
                prop_assert_eq!(destination(model), destination(own.as_ref().unwrap()));
            } else {
                let name = format!("{}/{}", model.provider, model.id);
                let mut of_catalogue = clouds::located(catalogue::named(&name).unwrap(), environment);
                if model.provider == "ollama" {
                    of_catalogue.base_url =
                        ollama_server::configured().map(|address| format!("http://{address}"));
                }
                let key = key_variable(&model.provider).and_then(environment);
                of_catalogue.api_key = key.map(looptree::model::Secret::new);
                prop_assert_eq!(destination(model), destination(&of_catalogue));
                prop_assert!(model.api_key.is_some() || model.provider == "ollama");
                let priced = with.prices.value.as_ref().and_then(|prices| prices.named(model));
                prop_assert_eq!(&model.cost, &priced.unwrap_or(of_catalogue.cost));
            }
        }
        (Ok(chosen), Ok(own)) => {
            prop_assert_eq!(destination(&chosen.model), destination(&own.model));
            prop_assert_eq!((chosen.model.id, chosen.model.cost), (own.model.id, own.model.cost));
        }
        (Err(error), Err(own)) => {
            let (error, own) = (error.to_string(), own.to_string());
            prop_assert!(error == own || error.starts_with("ignored in") && error.ends_with(&own), "{error}");
        }
        (chosen, own) => return Err(TestCaseError::fail(format!("{chosen:?} instead of {own:?}"))),
    }
    Ok(())
}

#[test]
fn a_project_changes_no_destination_no_key_no_price_and_no_program() {
    let Ok(_) = std::env::var(ENVIRONMENT) else {
        for (at, variables) in ENVIRONMENTS.iter().enumerate() {
            let mut child = Command::new(std::env::current_exe().unwrap());
            child.args([
                "--exact",
                "choose::suggested::tests::a_project_changes_no_destination_no_key_no_price_and_no_program",
            ]);
            child.env_clear().env(ENVIRONMENT, at.to_string()).env("OLLAMA_HOST", "127.0.0.1:9");
            child.envs(variables.iter().copied());
            let output = child.output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success() && text.contains("1 passed"), "{variables:?}: {text}");
        }
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut runner = TestRunner::new(Config { cases: 3_500, failure_persistence: None, ..Config::default() });
    let lines = |from: &'static [&'static str], most| proptest::collection::vec(select(from), 0..most);
    let cases = (lines(OWN, 4), lines(HOSTILE, 6), select(WORDS));
    let ended = runner.run(&cases, |(own, project, words)| check(&own, &project, words, &runtime));
    assert!(ended.is_ok(), "{}", ended.unwrap_err());
}
