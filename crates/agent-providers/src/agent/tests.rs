//! What an agent knows of its model.

use agent_core::compat::SeedVerbs as _;
use std::sync::Arc;

use agent_core::compat::SeedSetters as _;
use agent_core::testing::{ScriptedProvider, ScriptedReply};
use agent_core::{
    CancellationToken, Completion, CostConfig, EventSink, ModelConfig, ModelRequest, ProviderError, Route,
    StreamProvider, ThinkingForm, ThinkingLevel,
};

use super::agent;
use crate::catalogue;

fn fill(model: ModelConfig) -> ModelConfig {
    catalogue::complete(&model).unwrap_or(model)
}

/// D13: abilities and prices come from the catalogue.
#[test]
fn a_known_model_is_filled_in() {
    let plain = ModelConfig::anthropic("claude-sonnet-4-6", "Claude Sonnet", "k");
    assert_eq!(plain.cost, CostConfig::default());
    let model = agent(plain).model();
    assert!(model.cost.output > 0, "{:?}", model.cost);
}

#[test]
fn a_known_model_is_filled_in_by_whatever_protocol_it_is_asked() {
    let plain = fill(ModelConfig::openai_responses("gpt-4.1", "GPT-4.1", "k"));
    assert_eq!(plain.thinking, ThinkingForm::None);
    let thinks = fill(ModelConfig::openai_responses("gpt-5.5", "GPT-5.5", "k"));
    assert_eq!(thinks.thinking, ThinkingForm::Effort);
    assert!(thinks.thinking_levels.contains(&ThinkingLevel::XHigh) && thinks.max_tokens == Some(128_000));
}

#[test]
fn what_the_caller_set_stays() {
    let own = ModelConfig::anthropic("claude-sonnet-4-6", "Claude Sonnet", "k")
        .with_limits(50_000, 1_000)
        .with_cost(CostConfig::per_million(1, 2, 3, 4));
    let model = fill(own.clone());
    assert_eq!((model.context_window, model.max_tokens), (Some(50_000), Some(1_000)));
    assert_eq!(model.cost, own.cost);
}

#[test]
fn an_unknown_model_stays_as_it_is() {
    let own = ModelConfig::local("http://localhost:1/v1", "mine", "k");
    assert_eq!(fill(own.clone()), own);
}

/// The limits are set to the defaults of the constructor by a method, so they are explicit.
#[test]
fn a_value_that_the_caller_set_to_the_default_stays() {
    let own = ModelConfig::anthropic("claude-sonnet-4-6", "Claude Sonnet", "k").with_limits(200_000, 8_192);
    let model = fill(own);
    assert_eq!((model.context_window, model.max_tokens), (Some(200_000), Some(8_192)));
    assert!(model.cost.output > 0);
}

fn sonnet() -> ModelConfig {
    ModelConfig::anthropic("claude-sonnet-4-6", "Claude Sonnet", "k")
}

fn is_known(model: &ModelConfig) {
    assert_eq!((model.context_window, model.max_tokens), (Some(1_000_000), Some(128_000)));
    assert!(model.cost.output > 0, "{:?}", model.cost);
}

/// A3: a model that is switched away and back.
#[cfg(all(feature = "anthropic", feature = "ollama"))]
#[test]
fn the_facts_are_added_wherever_a_model_is_set() {
    let mut agent = agent(ModelConfig::default());
    agent.set_model(sonnet());
    is_known(&agent.model());
    agent.set_model(ModelConfig::ollama("qwen3"));
    agent.switch_provider(sonnet()).unwrap();
    is_known(&agent.model());
    let agent = agent.configure(|config| config.routes = vec![Route::new(sonnet())]);
    is_known(&agent.handle().config().routes[0].model);
    let provider: Arc<dyn StreamProvider> = Arc::new(crate::AnthropicProvider::new());
    let route = Route::new(sonnet()).with_provider(provider);
    let agent =
        agent_core::BasicAgent::new(ModelConfig::default()).configure(|config| config.routes = vec![route]);
    is_known(&agent.handle().config().routes[0].model);
}

/// A provider that answers from a script and knows models as the built-in ones do.
struct Knowing(ScriptedProvider);

#[async_trait::async_trait]
impl StreamProvider for Knowing {
    fn provider_id(&self) -> &str {
        "knowing"
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        sink: &mut EventSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        self.0.stream(request, sink, cancel).await
    }

    fn complete_model(&self, model: &ModelConfig) -> Option<ModelConfig> {
        catalogue::complete(model)
    }
}

/// A3: also in a loop without an agent, in a fallback route, in a judge's configuration and in a driver of one's own.
#[tokio::test]
async fn every_loop_calls_a_model_with_its_facts() {
    use agent_core::drive::Performer;
    use agent_core::{AgentContext, AgentLoopConfig, ErrorKind, Tools, agent_loop};
    let script = ScriptedProvider::new([
        ScriptedReply::new().failing(ErrorKind::Quota, "no credit"),
        ScriptedReply::text("Hello."),
    ]);
    let provider = Arc::new(Knowing(script.clone()));
    let mut config = AgentLoopConfig::system(provider, sonnet());
    config.routes = vec![Route::new(sonnet())];
    let (tx, _rx) = agent_core::event_channel();
    let mut context = AgentContext::default();
    agent_loop(vec!["Hi".into()], &mut context, &config, tx, CancellationToken::new()).await.unwrap();
    assert_eq!(script.requests().len(), 2);
    for request in script.requests() {
        is_known(&request.model);
    }
    let performer = Performer::new(config, Tools::default(), "");
    is_known(&performer.config.model);
    let setup = performer.setup("a".into(), "s".into(), "s.x.1".into());
    assert_eq!((setup.context_window, setup.config.max_tokens), (Some(1_000_000), Some(128_000)));
    assert_eq!(
        (setup.routes[0].context_window, setup.routes[0].max_tokens),
        (Some(1_000_000), Some(128_000))
    );
}
