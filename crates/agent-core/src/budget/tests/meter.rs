use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::budget::{Budget, BudgetLimit, BudgetLimits, BudgetRefusal};
use crate::history::History;
use crate::message::StopReason;
use crate::model::ModelConfig;
use crate::provider::{
    Completion, ErrorContext, ErrorKind, EventSink, ModelRequest, ProviderError, StreamEvent, StreamProvider,
};
use crate::testing::ManualEnvironment;
use crate::tool::ToolSearchForm;

/// Has an answer of its own to every question, and replies with a text but reports no usage.
struct Peculiar;

#[async_trait]
impl StreamProvider for Peculiar {
    fn provider_id(&self) -> &str {
        "peculiar"
    }

    async fn stream(
        &self,
        _: &ModelRequest,
        sink: &mut EventSink<'_>,
        _: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        sink(StreamEvent::Start { response_id: None, model: None });
        sink(StreamEvent::TextDelta { index: 0, delta: "twelve bytes" });
        Ok(Completion::new(StopReason::Stop))
    }

    fn provider_id_for(&self, model: &ModelConfig) -> String {
        format!("peculiar for {}", model.id)
    }

    fn tool_search(&self, _: &ModelConfig) -> ToolSearchForm {
        ToolSearchForm::Vendor
    }

    fn complete_model(&self, model: &ModelConfig) -> Option<ModelConfig> {
        let mut complete = model.clone();
        complete.context_window = Some(4_321);
        Some(complete)
    }

    fn check(&self, _: &ModelConfig) -> Result<(), ProviderError> {
        Err(ProviderError::new(ErrorKind::Auth, ErrorContext::new("no key")))
    }

    fn body(&self, _: &ModelRequest) -> Option<Vec<u8>> {
        Some(b"body".to_vec())
    }

    fn cache_lifetime(&self, _: &ModelRequest) -> Option<Duration> {
        Some(Duration::from_secs(17))
    }
}

fn model() -> ModelConfig {
    let mut model = ModelConfig::default();
    model.id = "m".into();
    model
}

#[test]
fn a_wrapped_provider_answers_as_the_one_inside() {
    let meter =
        Budget::new(BudgetLimits::none()).meter(Arc::new(Peculiar), Arc::new(ManualEnvironment::at(0)));
    let (model, request) = (model(), ModelRequest::new(model(), History::new()));
    for wrapped in [&Arc::new(Peculiar) as &dyn StreamProvider, &meter] {
        assert_eq!(wrapped.provider_id(), "peculiar");
        assert_eq!(wrapped.provider_id_for(&model), "peculiar for m");
        assert_eq!(wrapped.tool_search(&model), ToolSearchForm::Vendor);
        assert_eq!(wrapped.complete_model(&model).and_then(|model| model.context_window), Some(4_321));
        assert_eq!(wrapped.check(&model).map_err(|error| error.kind()), Err(ErrorKind::Auth));
        assert_eq!(wrapped.body(&request).as_deref(), Some(&b"body"[..]));
        assert_eq!(wrapped.cache_lifetime(&request), Some(Duration::from_secs(17)));
    }
}

#[tokio::test]
async fn without_reported_usage_the_prompt_and_the_text_are_estimated() {
    let budget = Budget::new(BudgetLimits::none().with_tokens(100_000));
    let meter = budget.meter(Arc::new(Peculiar), Arc::new(ManualEnvironment::at(0)));
    let mut request = ModelRequest::new(model(), History::new());
    request.system_prompt = "four".repeat(1_000).into();
    let sink = &mut |_: StreamEvent<'_>| {};
    meter.stream(&request, sink, &CancellationToken::new()).await.unwrap();
    let spent = budget.spent();
    // A token is about four bytes: 1,000 of the prompt, and 3 of the reply.
    assert!((1_003..1_100).contains(&spent.tokens), "{spent:?}");
    assert_eq!(spent.model_calls, 1);
}

#[test]
fn a_refusal_names_the_next_call_only_if_it_is_the_reason() {
    let text =
        |spent, asked| BudgetRefusal::new(BudgetLimit::Tokens, 10, spent).with_asked(asked).to_string();
    assert!(text(4, 7).ends_with(", and the next call may cost 7"), "{}", text(4, 7));
    for (spent, asked) in [(4, 0), (10, 7), (11, 7)] {
        assert!(text(spent, asked).ends_with("is spent"), "{}", text(spent, asked));
    }
}
