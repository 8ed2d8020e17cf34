//! `cargo xtask live PROVIDER [MODEL]`: checks a real provider with a key of the environment.
//!
//! `examples/live` has the checks. A missing key is an error and never a success, so a green job has called the provider.

use anyhow::{Context as _, bail};

use crate::cargo;
use crate::workspace::Workspace;

/// A provider that is checked.
struct Provider {
    name: &'static str,
    /// A model that is cheap and calls tools.
    model: &'static str,
    protocol: &'static str,
    needs: &'static [Needed],
}

/// An environment variable that has to be set.
struct Needed {
    variable: &'static str,
    /// What it holds.
    what: &'static str,
    /// The variable of the program, if it is not the provider's usual one.
    becomes: Option<&'static str>,
}

const fn usual(variable: &'static str) -> Needed {
    Needed { variable, what: "the API key", becomes: None }
}

const fn needed(variable: &'static str, what: &'static str, becomes: &'static str) -> Needed {
    Needed { variable, what, becomes: Some(becomes) }
}

const PROVIDERS: &[Provider] = &[
    Provider {
        name: "anthropic",
        model: "anthropic/claude-haiku-5-5",
        protocol: "anthropic_messages",
        needs: &[usual("ANTHROPIC_API_KEY")],
    },
    Provider {
        name: "openai-chat",
        model: "openai/gpt-5.4-mini",
        protocol: "openai_completions",
        needs: &[usual("OPENAI_API_KEY")],
    },
    Provider {
        name: "openai-responses",
        model: "openai_responses/gpt-5.4-mini",
        protocol: "openai_responses",
        needs: &[usual("OPENAI_API_KEY")],
    },
    Provider {
        name: "azure",
        model: "azure/gpt-5.4-mini",
        protocol: "azure_openai_responses",
        needs: &[
            usual("AZURE_OPENAI_API_KEY"),
            needed("AZURE_OPENAI_ENDPOINT", "the address of the resource", "LIVE_BASE_URL"),
        ],
    },
    Provider {
        name: "google",
        model: "google/gemini-3.5-flash-lite",
        protocol: "google_generative_ai",
        needs: &[usual("GEMINI_API_KEY")],
    },
    Provider {
        name: "vertex",
        model: "google_vertex/gemini-3.5-flash-lite",
        protocol: "google_vertex",
        needs: &[
            needed("VERTEX_SERVICE_ACCOUNT", "the JSON of a service account", "LIVE_KEY"),
            needed("GOOGLE_CLOUD_PROJECT", "the project", "LIVE_PROJECT"),
        ],
    },
    Provider {
        name: "bedrock",
        model: "bedrock/us.anthropic.claude-haiku-5-5",
        protocol: "bedrock_converse_stream",
        needs: &[usual("AWS_BEARER_TOKEN_BEDROCK"), needed("AWS_REGION", "the region", "LIVE_REGION")],
    },
    Provider {
        name: "ollama",
        model: "ollama/qwen3",
        protocol: "ollama_chat",
        needs: &[needed("OLLAMA_HOST", "the address of the server", "LIVE_BASE_URL")],
    },
];

/// Runs the checks of one provider; `false` when one failed.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<bool> {
    let (arguments, environment) = call(arguments, |name| std::env::var(name).ok())?;
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // The values are secrets, so the command line is shown without them.
    cargo::say(&arguments, &[]);
    let mut command = cargo::command(&workspace.root);
    let status = command.args(&arguments).envs(environment).status().context("cannot start cargo")?;
    Ok(status.success())
}

/// Variables of a child process, with their values.
type Variables = Vec<(&'static str, String)>;

/// The arguments of cargo and the environment of the program.
fn call(
    arguments: &[String],
    variable: impl Fn(&str) -> Option<String>,
) -> anyhow::Result<(Vec<String>, Variables)> {
    let names = || PROVIDERS.iter().map(|provider| provider.name).collect::<Vec<_>>().join(", ");
    let (name, model) = match arguments {
        [name] => (name, None),
        [name, model] => (name, Some(model.as_str())),
        _ => bail!("`cargo xtask live PROVIDER [MODEL]`; the providers are {}", names()),
    };
    let provider = PROVIDERS
        .iter()
        .find(|provider| provider.name == *name)
        .with_context(|| format!("there is no provider `{name}`; the providers are {}", names()))?;
    let mut environment = Vec::new();
    for needed in provider.needs {
        let value = variable(needed.variable).filter(|value| !value.trim().is_empty());
        let value = value.with_context(|| {
            format!("{} is not set, so {name} was not checked; it holds {}", needed.variable, needed.what)
        })?;
        if let Some(becomes) = needed.becomes {
            // The variable of Ollama may have no scheme.
            let is_bare = becomes == "LIVE_BASE_URL" && !value.contains("://");
            environment.push((becomes, if is_bare { format!("http://{value}") } else { value }));
        }
    }
    let model = model.unwrap_or(provider.model);
    let words = "run --quiet --locked -p looptree-examples --features all-providers --example live --";
    let words = words.split(' ').chain([model, "--protocol", provider.protocol]);
    Ok((words.map(str::to_owned).collect(), environment))
}

#[cfg(test)]
mod tests;
