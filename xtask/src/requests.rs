//! `cargo xtask requests`: what the providers send. A varied run goes through the real providers to a server on
//! loopback; every body that arrives there is written to a file and checked against the rules of the vendors' APIs.
//!
//! `docs/conformance.md` explains the purpose of the files.

mod answers;
mod files;
mod laws;
mod past;
mod runs;
mod scene;
mod tools;

use std::path::{Path, PathBuf};

use agent_core::{
    ApiProtocol, AssistantMessage, CancellationToken, History, ModelConfig, StopReason, StreamProvider as _,
};
use agent_providers::ProviderRegistry;
use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use crate::server::{Received, Server};
use crate::workspace::Workspace;
use answers::Answer;
use scene::Scene;

/// Where the files go unless the command line says otherwise.
const DEFAULT_DIRECTORY: &str = "target/requests";

/// The list of all files, with what each of them is.
const INDEX: &str = "index.json";

/// The folders, and the protocols that they hold.
const PROTOCOLS: &[(&str, ApiProtocol)] = &[
    ("anthropic", ApiProtocol::AnthropicMessages),
    ("anthropic-vertex", ApiProtocol::AnthropicVertex),
    ("openai-chat", ApiProtocol::OpenAiCompletions),
    ("ollama", ApiProtocol::OllamaChat),
    ("gemini", ApiProtocol::GoogleGenerativeAi),
    ("vertex", ApiProtocol::GoogleVertex),
    ("openai-responses", ApiProtocol::OpenAiResponses),
    ("azure-responses", ApiProtocol::AzureOpenAiResponses),
    ("bedrock", ApiProtocol::BedrockConverseStream),
];

/// What the command line asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    directory: Option<PathBuf>,
    protocol: Option<String>,
}

/// A body that arrived.
#[derive(Debug)]
struct Body {
    api: ApiProtocol,
    vendor: String,
    model: String,
    what: String,
    path: String,
    bytes: Vec<u8>,
    json: Value,
    /// The ids of calls that this model wrote earlier in the conversation.
    own_ids: Vec<String>,
}

/// Writes the files; `false` when a body breaks a rule.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<bool> {
    let options = options(arguments)?;
    // A path on the command line is meant from where the person stands.
    let directory = options.directory.unwrap_or_else(|| workspace.root.join(DEFAULT_DIRECTORY));
    let bodies = gather(options.protocol.as_deref())?;
    write(&directory, &bodies)?;
    let mut good = true;
    for body in &bodies {
        for broken in laws::broken(body) {
            good = false;
            say!("{}: {broken}", body.name());
        }
    }
    for (name, api) in PROTOCOLS {
        let count = bodies.iter().filter(|b| b.api == *api).count();
        if count > 0 {
            say!("{name}: {count} bodies in {}", directory.join(name).display());
        }
    }
    Ok(good)
}

fn options(arguments: &[String]) -> anyhow::Result<Options> {
    let mut options = Options::default();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--protocol" => options.protocol = Some(words.next().context("--protocol needs a name")?.clone()),
            flag if flag.starts_with('-') => bail!("`cargo xtask requests` does not know `{flag}`"),
            directory if options.directory.is_none() => options.directory = Some(PathBuf::from(directory)),
            more => bail!("`cargo xtask requests` takes one folder, but got `{more}` too"),
        }
    }
    if let Some(wanted) = options.protocol.as_deref().filter(|w| PROTOCOLS.iter().all(|(n, _)| n != w)) {
        let names: Vec<&str> = PROTOCOLS.iter().map(|(n, _)| *n).collect();
        bail!("`{wanted}` is no protocol with a provider here; there are {}", names.join(", "));
    }
    Ok(options)
}

/// Every body of the varied run, or those of one protocol.
fn gather(only: Option<&str>) -> anyhow::Result<Vec<Body>> {
    let wanted = |name: &str| only.is_none_or(|o| o == name);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start tokio")?;
    runtime.block_on(async {
        let server = Server::start().await?;
        let mut bodies = Vec::new();
        for (start, (name, api)) in PROTOCOLS.iter().enumerate().filter(|(_, (name, _))| wanted(name)) {
            for scene in scene::all(*api)? {
                let what = scene.what.clone();
                bodies.push(play(&server, scene).await.with_context(|| format!("{name}: {what}"))?);
            }
            bodies.extend(runs::with_tools(&server, *api).await.with_context(|| format!("{name}: a run"))?);
            // Bodies for the other protocols count only if those protocols are selected.
            let relay = runs::relay(&server, start).await.with_context(|| format!("{name}: a relay"))?;
            bodies.extend(relay.into_iter().filter(|b| only.is_none() || b.api == *api));
        }
        Ok(bodies)
    })
}

/// Sends one request through the registry.
async fn play(server: &Server, scene: Scene) -> anyhow::Result<Body> {
    let mut request = scene.request;
    let base = server.prepare(Answer::text("Yes.").response(request.model.api, 0));
    let model = ModelConfig::clone(&request.model).with_base_url(&base);
    request.model = model.clone().into();
    ProviderRegistry::default()
        .stream(&request, &mut |_| {}, &CancellationToken::new())
        .await
        .context("the request was refused before it was sent, or its answer was not understood")?;
    let mut body = collect(server, &model, &base, &scene.what, 1)?.pop().context("nothing arrived")?;
    body.own_ids = own_ids(&request.history, &model);
    Ok(body)
}

/// The ids of the calls that this model wrote, oldest first, as far as its API sends ids. Those that the library made are not
/// among them.
fn own_ids(history: &History, model: &ModelConfig) -> Vec<String> {
    let whole =
        |reply: &&AssistantMessage| !matches!(reply.stop_reason, StopReason::Error | StopReason::Aborted);
    let replies = history.units().filter_map(|unit| unit.reply()).filter(whole).filter(|r| r.is_by(model));
    let ids =
        replies.flat_map(agent_core::AssistantMessage::tool_calls).map(|call| call.id.as_str().to_owned());
    let is_made = |id: &String| id.starts_with("google-fc-") || id.starts_with("vertex-fc-");
    ids.filter(|id| model.api != ApiProtocol::OllamaChat && !is_made(id)).collect()
}

/// What arrived under an address, which must be as much as was to be sent.
fn collect(
    server: &Server,
    model: &ModelConfig,
    base: &str,
    what: &str,
    count: usize,
) -> anyhow::Result<Vec<Body>> {
    let received = server.received(base);
    ensure!(received.len() == count, "{what}: {} requests arrived in place of {count}", received.len());
    let body = |Received { path, body: bytes }: Received| {
        let json = serde_json::from_slice(&bytes)
            .with_context(|| format!("{what}: the body is no JSON: {}", String::from_utf8_lossy(&bytes)))?;
        let (vendor, id) = (model.provider.clone(), model.id.clone());
        Ok(Body {
            api: model.api,
            vendor,
            model: id,
            what: what.to_owned(),
            path,
            bytes,
            json,
            own_ids: Vec::new(),
        })
    };
    received.into_iter().map(body).collect()
}

/// Puts every body into a file as it arrived, and a list of them beside the folders. What an earlier call has left there
/// is taken away.
fn write(directory: &Path, bodies: &[Body]) -> anyhow::Result<()> {
    let mut index = Vec::new();
    for (name, api) in PROTOCOLS {
        let mut of_protocol = bodies.iter().filter(|b| b.api == *api).peekable();
        if of_protocol.peek().is_none() {
            continue;
        }
        let folder = directory.join(name);
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        remove_old(&folder)?;
        for (n, body) in of_protocol.enumerate() {
            let file = format!("{:03}-{}.json", n + 1, body.name());
            let path = folder.join(&file);
            std::fs::write(&path, &body.bytes).with_context(|| format!("cannot write {}", path.display()))?;
            index.push(json!({"protocol": name, "file": format!("{name}/{file}"), "vendor": body.vendor,
                "model": body.model, "what": body.what, "path": body.path}));
        }
    }
    let path = directory.join(INDEX);
    let text = serde_json::to_string_pretty(&json!({ "requests": index }))?;
    std::fs::write(&path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
}

/// Takes the files of an earlier call away, and nothing else.
fn remove_old(folder: &Path) -> anyhow::Result<()> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let ours = name.get(..4).is_some_and(|head| {
            head.ends_with('-') && head.bytes().take(3).all(|b| b.is_ascii_digit()) && name.ends_with(".json")
        });
        if ours {
            std::fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

impl Body {
    /// What it is, as a file's name without number and ending.
    fn name(&self) -> String {
        format!("{}-{}", self.vendor, self.what)
    }
}

#[cfg(test)]
mod tests;
