//! Runs of an agent: what a later request holds comes from what the decoder made of the earlier answers.

use agent_core::compat::SeedSetters as _;
use agent_core::{
    AgentError, ApiProtocol, BasicAgent, Content, ImageContent, ModelConfig, RetryConfig, ThinkingLevel,
};
use agent_providers::ProviderRegistry;
use anyhow::Context as _;

use super::answers::{Answer, own_id};
use super::scene::{
    azure, chat, claude, gemini, gpt, gpt_responses, llama, on_bedrock, vertex, vertex_claude,
};
use super::tools::{self, PIXEL};
use super::{Body, collect, own_ids};
use crate::server::Server;

/// Calls of every kind at once: whole, with a picture as result, of nothing; with thinking and text before.
const CALLS: Answer = Answer {
    thinking: "I plan, draw and look at the clock. 計画",
    text: "Three things at once.",
    calls: &[
        (
            "toolu_one",
            "plan_trip",
            r#"{"from":{"town":"Köln"},"stops":[{"place":{"town":"東京","country":"JP"},"nights":3}],"means":"ship"}"#,
        ),
        ("toolu_two", "draw-chart", r#"{"series":[{"name":"a","points":[[0,1]]}]}"#),
        ("toolu_three", "clock", "{}"),
    ],
    cut: false,
};

/// Calls that fail, each in its way, and one that gives nothing.
const WRONG_CALLS: Answer = Answer {
    thinking: "",
    text: "",
    calls: &[
        ("call|of another/kind:1", "plan_trip", r#"{"from":{"town":"Köln"},"stops":[],"budget":-1}"#),
        ("call|of another/kind:2", "plan_trip", r#"{"stops":"none"}"#),
        ("call|of another/kind:3", "no such tool", "{}"),
        ("call|of another/kind:4", "note", "{}"),
    ],
    cut: false,
};

const CUT: Answer = Answer { thinking: "I was about to", text: "Half of", calls: &[], cut: true };

const THOUGHT: Answer =
    Answer { thinking: "All is there. ✓", text: "Done: 3 nights.", calls: &[], cut: false };

/// The models that a run of a protocol asks, one after the other.
fn models(api: ApiProtocol) -> Vec<ModelConfig> {
    match api {
        ApiProtocol::AnthropicMessages => vec![claude("claude-sonnet-4-5"), claude("claude-opus-5")],
        ApiProtocol::AnthropicVertex => {
            vec![vertex_claude("claude-sonnet-4-5"), vertex_claude("claude-opus-5")]
        }
        ApiProtocol::BedrockConverseStream => vec![
            on_bedrock("eu.anthropic.claude-sonnet-4-5-20250929-v1:0"),
            on_bedrock("us.amazon.nova-2-lite-v1:0"),
            on_bedrock("us.deepseek.r1-v1:0"),
        ],
        ApiProtocol::OllamaChat => vec![llama("qwen3-vl"), llama("gpt-oss:20b")],
        ApiProtocol::GoogleGenerativeAi => vec![gemini("gemini-2.5-flash"), gemini("gemini-3.5-flash")],
        ApiProtocol::GoogleVertex => vec![vertex("gemini-3.1-pro-preview"), vertex("gemini-2.5-pro")],
        ApiProtocol::OpenAiResponses => vec![gpt_responses("gpt-5.5"), gpt_responses("gpt-5.4")],
        ApiProtocol::AzureOpenAiResponses => vec![azure("gpt-5.5"), azure("gpt-4.1")],
        _ => vec![
            chat("deepseek", "deepseek-flash"),
            gpt("gpt-5.5"),
            chat("mistral", "devstral-2512"),
            chat("groq", "openai/gpt-oss-120b"),
        ],
    }
}

/// One conversation: tools that work and fail, a reply that breaks off, and then every other model of the protocol.
pub(super) async fn with_tools(server: &Server, api: ApiProtocol) -> anyhow::Result<Vec<Body>> {
    let mut bodies = Vec::new();
    let mut models = models(api).into_iter();
    let first = models.next().context("a run needs a model")?;
    let (first, base) = at(server, first, 0, &[CALLS, WRONG_CALLS, THOUGHT, CUT, THOUGHT]);
    let mut agent = agent(first.clone());
    let picture = ImageContent::Base64 { data: PIXEL.to_owned(), mime_type: "image/png".to_owned() };
    agent.chat(("Plan a trip to the town on this picture.", vec![picture])).await?;
    match agent.chat("Is that all?").await {
        Err(AgentError::Busy) | Ok(_) => anyhow::bail!("a reply that broke off was taken for a whole one"),
        Err(_) => {}
    }
    agent.chat("Is that all? 🤔").await?;
    let sent = collect(server, &first, &base, "run", 5)?;
    bodies.extend(with_own_ids(sent, &[CALLS, WRONG_CALLS]));
    for (leg, model) in (1..).zip(models) {
        let (model, base) = at(server, model, leg, &[CALLS, THOUGHT]);
        agent.switch_provider(model.clone())?;
        agent.chat("Check it again.").await?;
        bodies.extend(collect(server, &model, &base, "run-handed-over", 2)?);
    }
    Ok(bodies)
}

/// One conversation that goes from protocol to protocol and comes back to the first, with pictures, calls and thinking
/// everywhere, and on each leg a reply that breaks off.
pub(super) async fn relay(server: &Server, start: usize) -> anyhow::Result<Vec<Body>> {
    let ring = [
        claude("claude-sonnet-4-5"),
        vertex_claude("claude-opus-4-8"),
        chat("deepseek", "deepseek-flash"),
        llama("qwen3-vl"),
        gemini("gemini-3.5-flash"),
        vertex("gemini-2.5-pro"),
        gpt_responses("gpt-5.5"),
        azure("gpt-5.4"),
        on_bedrock("global.anthropic.claude-opus-4-8"),
    ];
    let legs = ring.iter().cycle().skip(start).take(ring.len() + 1);
    let mut bodies = Vec::new();
    let mut relay: Option<BasicAgent> = None;
    let mut from = "nobody".to_owned();
    for (leg, model) in legs.enumerate() {
        let (model, base) = at(server, model.clone(), leg, &[CALLS, WRONG_CALLS, THOUGHT, CUT]);
        let agent = relay.get_or_insert_with(|| agent(model.clone()));
        agent.switch_provider(model.clone())?;
        let before = own_ids(&agent.history(), &model).len();
        let picture = Content::image(PIXEL, "image/png");
        let said = vec![Content::text("Go on."), Content::text(""), picture];
        agent.chat(vec![agent_core::Message::user_content(said)]).await?;
        anyhow::ensure!(
            agent.chat("And then?").await.is_err(),
            "a reply that broke off was taken for a whole one"
        );
        let after = own_ids(&agent.history(), &model);
        let mut sent = collect(server, &model, &base, &format!("relay-from-{from}"), 4)?;
        // The first request comes before the calls of this leg, the second behind the first of them.
        for (body, count) in sent.iter_mut().zip([0, CALLS.calls.len(), usize::MAX, usize::MAX]) {
            let count = before.saturating_add(count).min(after.len());
            body.own_ids = after.iter().take(count).cloned().collect();
        }
        bodies.extend(sent);
        from.clone_from(&model.provider);
    }
    Ok(bodies)
}

/// The bodies of a conversation, of which each has the calls of the answers before it.
fn with_own_ids(bodies: Vec<Body>, answers: &[Answer]) -> Vec<Body> {
    let before = |n: usize| answers.get(..n).unwrap_or(answers);
    bodies.into_iter().enumerate().map(|(n, body)| owning(body, before(n))).collect()
}

/// A body of a conversation in which its model gave these answers. Ollama's API has no ids, and a server of Gemini's
/// protocol gives none of this form.
fn owning(mut body: Body, answers: &[Answer]) -> Body {
    let google = matches!(body.api, ApiProtocol::GoogleGenerativeAi | ApiProtocol::GoogleVertex);
    let has_ids = body.api != ApiProtocol::OllamaChat;
    let ids = answers.iter().flat_map(|answer| answer.calls).map(|(id, ..)| own_id(body.api, id));
    body.own_ids = ids.filter(|id| has_ids && !(google && id.contains('|'))).collect();
    body
}

fn agent(model: ModelConfig) -> BasicAgent {
    BasicAgent::new(model)
        .with_provider(ProviderRegistry::default())
        .with_system_prompt("You plan trips. Answer in the user's language.")
        .with_tools(tools::tools())
        .with_thinking(ThinkingLevel::Medium)
        .with_retry_config(RetryConfig::none())
        // So that two calls of this command write the same bytes.
        .with_session_id("varied-run")
}

/// The most answers that wait at one address.
const MOST_ANSWERS: usize = 10;

/// The model at an address where these answers wait. `leg` counts the addresses of a conversation.
fn at(server: &Server, model: ModelConfig, leg: usize, answers: &[Answer]) -> (ModelConfig, String) {
    let number = |n: usize| leg * MOST_ANSWERS + n;
    let responses = answers.iter().enumerate().map(|(n, a)| a.response(model.api, number(n)));
    let base = server.prepare_all(responses.collect());
    (model.with_base_url(&base), base)
}
