//! A turn of an agent with the dialect that was found.

use looptree::compat::SeedSetters as _;
use looptree::event::Ended;
use looptree::model::ToolChoice;
use looptree::providers::OpenAiChatProvider;
use looptree::retry::RetryConfig;
use looptree::{AgentEvent, BasicAgent, Effects, Message, ModelConfig, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Report, Target};

#[derive(Deserialize, JsonSchema)]
struct City {
    /// The name of a city.
    city: String,
}

pub(super) async fn agent(target: &Target, report: &mut Report) {
    let key = target.key.as_ref().map_or("", looptree::model::Secret::expose);
    let model = ModelConfig::local(&target.base_url, &report.model, key)
        .with_dialect(report.dialect.clone())
        .with_images(report.images.unwrap_or(false))
        .with_limits(8_192, 512);
    let weather = tool_fn("weather", "Tells the weather in a city.", |asked: City, _| async move {
        Ok(format!("21 degrees in {}", asked.city))
    })
    .with_effects(Effects::ReadOnly);
    let agent = BasicAgent::new(model)
        .with_provider(OpenAiChatProvider::new())
        .with_retry_config(RetryConfig::none())
        .with_tool_choice(ToolChoice::Auto)
        .with_tool(weather);
    let events =
        match agent.prompt("What is the weather in Rome? Call the tool, then say it in one sentence.") {
            Ok(events) => tokio::time::timeout(target.patience, events.collect()).await.unwrap_or_default(),
            Err(error) => {
                report.found("an agent", error.to_string());
                return;
            }
        };
    let ran = events.iter().any(|e| matches!(e, AgentEvent::ToolExecutionEnd(end) if !end.is_error));
    let last = agent.messages().last().and_then(|m| m.as_llm().map(Message::text)).unwrap_or_default();
    let (works, said) = match events.last() {
        Some(AgentEvent::AgentEnd(end)) => match &end.ended {
            Ended::Completed if ran => (true, format!("called the tool and said: {}", one_line(&last))),
            Ended::Completed => (false, format!("called no tool and said: {}", one_line(&last))),
            Ended::Error { message, .. } => (false, format!("failed: {}", one_line(message))),
            other => (false, format!("ended otherwise: {other:?}")),
        },
        _ => (false, format!("did not end within {} s", target.patience.as_secs())),
    };
    report.works = Some(works);
    report.found("an agent", said);
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(120).collect()
}
