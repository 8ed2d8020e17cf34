//! A model that the catalogue does not know is called without an invented limit, and the run says once what is unknown.

use std::io::Write;
use std::sync::{Arc, Mutex};

use agent_core::event::{UnknownFact, UnknownModel};
use agent_core::{AgentEvent, BasicAgent, Budget, BudgetLimits, ModelConfig, ThinkingLevel};
use agent_providers::ProviderRegistry;
use serde_json::Value;

use crate::eight::{ANTHROPIC, AZURE, BEDROCK, CHAT, GEMINI, OLLAMA, RESPONSES, Said, VERTEX, Vendor};
use crate::support::{Asked, Server};

/// A protocol, an id that its vendor may invent, and the only limit that its requests may have.
const INVENTED: &[(Vendor, &str, Option<u64>)] = &[
    (ANTHROPIC, "claude-sonnet-9", Some(128_000)),
    (ANTHROPIC, "claude-haiku-4-99", Some(64_000)),
    (ANTHROPIC, "claude-zephyr-1", Some(128_000)),
    (CHAT, "gpt-9.2-sol", None),
    (CHAT, "o9-mini", None),
    (RESPONSES, "gpt-9.2-sol", None),
    (AZURE, "our-deployment", None),
    (GEMINI, "gemini-9-ultra", None),
    (GEMINI, "gemma-9-27b-it", None),
    (VERTEX, "gemini-9-ultra", None),
    (BEDROCK, "global.anthropic.claude-sonnet-9-v1:0", None),
    (BEDROCK, "us.amazon.nova-9-pro-v1:0", None),
    (BEDROCK, "meta.llama9-70b-instruct-v1:0", None),
    (OLLAMA, "unheard-of:7b", None),
];

/// Returns the values of all members that limit a reply or state a window.
fn limits(body: &Value) -> Vec<u64> {
    let pointers = [
        "/max_tokens",
        "/max_completion_tokens",
        "/max_output_tokens",
        "/generationConfig/maxOutputTokens",
        "/inferenceConfig/maxTokens",
        "/options/num_predict",
        "/options/num_ctx",
    ];
    pointers.iter().filter_map(|at| body.pointer(at)?.as_u64()).collect()
}

fn agent(model: ModelConfig) -> BasicAgent {
    use agent_core::compat::SeedSetters as _;
    BasicAgent::new(model).with_provider_override(Arc::new(ProviderRegistry::default()))
}

fn unknown(events: &[AgentEvent]) -> Vec<&UnknownModel> {
    let mut found = Vec::new();
    for event in events {
        if let AgentEvent::ModelUnknown(unknown) = event {
            found.push(&**unknown);
        }
    }
    found
}

/// The lines that `tracing` writes.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Prompts an agent twice in two runs and returns the events of each, the requests and the warnings.
async fn prompted(
    vendor: Vendor,
    id: &'static str,
    change: impl Fn(BasicAgent) -> BasicAgent,
) -> (Vec<Vec<AgentEvent>>, Vec<Asked>, String) {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let vendor = Vendor { model: id, ..vendor };
    let answers = (0..2).map(|number| vendor.answer(&Said { number, ..Said::text("Hello.") })).collect();
    let server = Server::start(answers).await;
    let agent = change(agent(vendor.at(&server.url())));
    let mut runs = Vec::new();
    for _ in 0..2 {
        runs.push(agent.prompt("Hi.").unwrap().collect().await);
    }
    let warnings = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let warnings = warnings
        .lines()
        .filter(|line| line.contains("the model ") && line.contains("is unknown:"))
        .collect::<Vec<_>>()
        .join("\n");
    (runs, server.asked(), warnings)
}

#[tokio::test]
async fn an_invented_model_of_any_provider_gets_no_invented_limit_and_one_warning() {
    for (vendor, id, required) in INVENTED {
        let what = format!("{}/{id}", vendor.name);
        let (runs, asked, warnings) = prompted(*vendor, id, |agent| agent).await;
        assert_eq!(asked.len(), 2, "{what}");
        for request in &asked {
            assert_eq!(limits(&request.json()), required.iter().copied().collect::<Vec<_>>(), "{what}");
        }
        for events in &runs {
            let [found] = unknown(events)[..] else { panic!("{what}: one event in each run") };
            assert_eq!(found.model, *id);
            use UnknownFact::{ContextWindow, MaxTokens, Prices};
            assert_eq!(found.unknown, [ContextWindow, MaxTokens, Prices], "{what}");
            assert_eq!(found.assumed_output, None, "{what}: there is no budget");
        }
        assert_eq!(warnings.lines().count(), 2, "{what}: {warnings}");
        assert!(warnings.contains("WARN") && warnings.contains(*id), "{what}: {warnings}");
    }
}

/// The test above can fail: known models have limits and no warning.
#[tokio::test]
async fn a_known_model_has_its_limit_and_no_warning() {
    for vendor in [ANTHROPIC, CHAT, GEMINI, BEDROCK, OLLAMA] {
        let (runs, asked, warnings) = prompted(vendor, vendor.model, |agent| agent).await;
        assert!(!limits(&asked[0].json()).is_empty(), "{}", vendor.name);
        assert!(runs.iter().all(|events| unknown(events).is_empty()), "{}", vendor.name);
        assert_eq!(warnings, "", "{}", vendor.name);
    }
}

#[tokio::test]
async fn what_the_caller_sets_is_sent_and_is_not_unknown() {
    let change = |mut agent: BasicAgent| {
        let model = (*agent.handle().config().model).clone().with_limits(200_000, 77);
        agent.set_model(model);
        agent
    };
    let (runs, asked, warnings) = prompted(CHAT, "gpt-9.2-sol", change).await;
    assert_eq!(limits(&asked[0].json()), [77]);
    assert!(unknown(&runs[0]).is_empty() && warnings.is_empty(), "{warnings}");
}

/// A budget that limits tokens reserves an assumed answer, and says so. One that limits money refuses and names what is
/// unknown.
#[tokio::test]
async fn a_budget_says_what_it_does_not_know() {
    let tokens = |limit| {
        move |agent: BasicAgent| agent.with_budget(Budget::new(BudgetLimits::none().with_tokens(limit)))
    };
    let (runs, asked, warnings) = prompted(CHAT, "gpt-9.2-sol", tokens(1_000_000)).await;
    assert_eq!(limits(&asked[0].json()), Vec::<u64>::new(), "the assumption is not sent");
    assert_eq!(unknown(&runs[0])[0].assumed_output, Some(128_000));
    assert!(warnings.contains("the budget assumes answers of at most 128000 tokens"), "{warnings}");

    let (_, asked, _) = prompted(CHAT, "gpt-9.2-sol", tokens(20_000)).await;
    let [sent] = limits(&asked[0].json())[..] else { panic!("what is left of the budget limits the reply") };
    assert!(sent < 20_000, "{sent}");

    let vendor = Vendor { model: "gpt-9.2-sol", ..CHAT };
    let money = BudgetLimits::none().with_money("1.00".parse().unwrap());
    let agent = agent(vendor.at("http://localhost:1")).with_budget(Budget::new(money));
    let refused = match agent.prompt("Hi.") {
        Err(error) => error.to_string(),
        Ok(mut events) => format!("{:?}", events.end().await),
    };
    assert!(refused.contains("the prices of openai/gpt-9.2-sol are not known"), "{refused}");
}

/// Thinking with a budget needs no known limit.
#[tokio::test]
async fn a_thinking_budget_does_not_need_a_limit() {
    for (vendor, id, pointer) in [
        (GEMINI, "tuned-model", "/generationConfig/thinkingConfig/thinkingBudget"),
        (
            BEDROCK,
            "global.anthropic.claude-sonnet-9-v1:0",
            "/additionalModelRequestFields/thinking/budget_tokens",
        ),
        (ANTHROPIC, "claude-sonnet-9", "/thinking/budget_tokens"),
    ] {
        let vendor = Vendor { model: id, ..vendor };
        let mut model = vendor.at("http://localhost:1");
        model.thinking = agent_core::ThinkingForm::Budget;
        let mut request = agent_core::ModelRequest::new(model, agent_core::History::default());
        request.options.thinking_level = ThinkingLevel::High;
        let body = agent_core::StreamProvider::body(&ProviderRegistry::default(), &request).unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body.pointer(pointer), Some(&Value::from(8_192)), "{id}: {body}");
    }
}
