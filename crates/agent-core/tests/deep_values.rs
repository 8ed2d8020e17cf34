//! Attack 20: a value that is nested deeply does not overflow the stack, wherever it comes from.
//!
//! The tests run on threads with the usual stack of a worker, 2 MiB. Each test keeps its deep value alive for ever, because
//! dropping it would overflow the stack of the test itself.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails loudly")]

use agent_core::hooks::Hooks;
use agent_core::run::ToolChange;
use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool, assert_well_formed};
use agent_core::{
    AgentEvent, AgentMessage, BasicAgent, CancellationToken, Completion, Content, Ended, EventSink,
    ExtensionMessage, History, HistoryError, MAX_ARGUMENT_VALUES, MAX_VALUE_DEPTH, Message, ModelConfig,
    ModelRequest, ProviderError, ReplyLog, StopReason, StreamEvent, StreamProvider, ToolArguments,
    ToolResult,
};
use serde_json::{Value, json};

const DEPTHS: [usize; 4] = [MAX_VALUE_DEPTH + 1, 127, 1_000, 1_000_000];

/// A value of this many levels, lists and objects in turn.
fn deep(levels: usize) -> Value {
    let mut value = json!("the end");
    for level in 0..levels {
        value = if level % 2 == 0 {
            Value::Array(vec![value])
        } else {
            Value::Object(serde_json::Map::from_iter([("k".to_owned(), value)]))
        };
    }
    value
}

/// A provider that answers with an opaque block.
struct Opaque(&'static Value);

#[async_trait::async_trait]
impl StreamProvider for Opaque {
    fn provider_id(&self) -> &str {
        "opaque"
    }

    async fn stream(
        &self,
        _: &ModelRequest,
        sink: &mut EventSink<'_>,
        _: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        sink(StreamEvent::Start { response_id: None, model: None });
        sink(StreamEvent::TextDelta { index: 0, delta: "before" });
        sink(StreamEvent::Opaque { index: 1, kind: "deep", data: self.0 });
        sink(StreamEvent::TextDelta { index: 2, delta: "after" });
        Ok(Completion::new(StopReason::Stop))
    }
}

fn leaked(levels: usize) -> &'static Value {
    Box::leak(Box::new(deep(levels)))
}

fn is_readable(events: &[AgentEvent], agent: &BasicAgent) {
    assert_well_formed(events);
    for event in events {
        let text = serde_json::to_string(event).unwrap();
        drop(serde_json::from_str::<Value>(&text).unwrap());
    }
    let text = serde_json::to_string(&agent.snapshot()).unwrap();
    drop(serde_json::from_str::<agent_core::AgentSnapshot>(&text).unwrap());
}

/// Attack 20.
#[tokio::test]
async fn a_deep_opaque_block_of_a_provider_is_a_typed_error() {
    for levels in DEPTHS {
        let agent = BasicAgent::new(ModelConfig::default()).with_provider(Opaque(leaked(levels)));
        let events = agent.prompt("Hi").unwrap().collect().await;
        let Some(AgentEvent::AgentEnd(end)) = events.last() else { panic!("no end") };
        assert!(matches!(&end.ended, Ended::Error { .. }), "{levels}: {:?}", end.ended);
        assert!(format!("{:?}", end.ended).contains("nested deeper than 64 levels"), "{:?}", end.ended);
        is_readable(&events, &agent);
    }
}

#[tokio::test]
async fn a_block_of_the_greatest_allowed_depth_is_accepted_and_read_back() {
    let agent = BasicAgent::new(ModelConfig::default()).with_provider(Opaque(leaked(MAX_VALUE_DEPTH)));
    let events = agent.prompt("Hi").unwrap().collect().await;
    assert!(
        matches!(agent.messages().last().unwrap().as_llm(), Some(Message::Assistant(m)) if m.content.len() == 3)
    );
    is_readable(&events, &agent);
}

/// The value of a provider is measured before it is copied, also without an agent.
#[test]
fn a_log_without_an_agent_is_limited_too() {
    let mut log = ReplyLog::new();
    log.push(&StreamEvent::Opaque { index: 0, kind: "deep", data: leaked(1_000_000) });
    assert!(log.exceeded().is_some() && log.content().is_empty());
    // Opaque blocks count as bytes of the reply.
    let large = json!(["x".repeat(40 << 20)]);
    let mut log = ReplyLog::new();
    log.push(&StreamEvent::Opaque { index: 0, kind: "large", data: &large });
    assert!(log.exceeded().is_none());
    log.push(&StreamEvent::Opaque { index: 1, kind: "large", data: &large });
    assert!(log.exceeded().is_some());
}

/// A tool that returns, and reports on its way, what is too deep.
#[tokio::test]
async fn deep_results_and_updates_of_a_tool_are_replaced_by_a_note() {
    for levels in DEPTHS {
        let tool = ScriptedTool::new("work", move |_, ctx| async move {
            ctx.on_update(ToolResult::text("half").with_details(deep(levels)));
            let block = Content::opaque("deep", deep(levels));
            Ok(ToolResult::content(vec![Content::text("done"), block]).with_details(deep(levels)))
        });
        let model = ScriptedProvider::new([ScriptedReply::call("c", "work", json!({})), "Done.".into()]);
        let agent = BasicAgent::new(ModelConfig::default()).with_provider(model).with_tool(tool);
        let events = agent.prompt("Hi").unwrap().collect().await;
        is_readable(&events, &agent);
        let messages = agent.messages();
        let result = messages.iter().find_map(|message| match message.as_llm() {
            Some(Message::ToolResult(result)) => Some(result),
            _ => None,
        });
        let result = result.unwrap();
        assert!(!result.is_error && result.details.as_str().unwrap().contains("omitted"), "{result:?}");
        assert_eq!(result.content[0], Content::text("done"));
        assert!(matches!(&result.content[1], Content::Text(text) if text.text.contains("omitted")));
    }
}

/// A hook that replaces the details of a result.
#[tokio::test]
async fn deep_changes_of_a_hook_are_replaced_by_a_note() {
    let tool = ScriptedTool::new("work", |_, _| async { Ok(ToolResult::text("done")) });
    let hooks = Hooks::new().after_tool(|_| async {
        let mut change = ToolChange::none();
        change.details = Some(deep(1_000_000));
        change
    });
    let model = ScriptedProvider::new([ScriptedReply::call("c", "work", json!({})), "Done.".into()]);
    let agent =
        BasicAgent::new(ModelConfig::default()).with_provider(model).with_tool(tool).with_hooks(hooks);
    let events = agent.prompt("Hi").unwrap().collect().await;
    is_readable(&events, &agent);
}

/// The arguments that a model sends: a session with deeper ones could not be read.
#[tokio::test]
async fn deep_arguments_are_an_error_result_and_the_conversation_is_readable() {
    for levels in [MAX_VALUE_DEPTH + 1, 100, 126, 1_000, 1_000_000] {
        let text = format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
        let arguments = ToolArguments::from_text(text.as_str());
        assert!(arguments.value().is_err(), "{levels}");
        let tool = ScriptedTool::new("work", |_, _| async { panic!("it was executed") });
        let call = ScriptedReply::new().and_call("c", "work", arguments.clone());
        let model = ScriptedProvider::new([call, "Done.".into()]);
        let agent = BasicAgent::new(ModelConfig::default()).with_provider(model).with_tool(tool);
        let events = agent.prompt("Hi").unwrap().collect().await;
        is_readable(&events, &agent);
        assert!(format!("{:?}", agent.messages()).contains("not valid JSON"), "{levels}");
    }
    assert!(ToolArguments::from(deep(1_000_000)).value().is_err());
    assert!(ToolArguments::from(deep(MAX_VALUE_DEPTH)).value().is_ok());
}

/// Notes of the program.
#[test]
fn deep_extension_messages_are_refused() {
    for levels in DEPTHS {
        let note = AgentMessage::Extension(ExtensionMessage::new("note", deep(levels)));
        // A note that is refused is dropped, which recurses, so this test keeps a second owner.
        let note = agent_core::MessageRef::new(note);
        std::mem::forget(note.clone());
        let mut history = History::new();
        let error = history.push_entry(agent_core::Entry::from(note)).unwrap_err();
        assert!(matches!(error, HistoryError::TooDeep), "{error:?}");
    }
}

/// Arguments with millions of values are neither parsed nor executed, and no text is taken for values.
#[tokio::test]
async fn arguments_with_too_many_values_are_an_error() {
    let many = |item: &str, count: usize| format!("{{\"a\":[{}]}}", vec![item; count].join(","));
    let refused = [
        many("1", 2 * MAX_ARGUMENT_VALUES),
        many("[]", MAX_ARGUMENT_VALUES),
        many("{\"b\":\"\\\"\"}", MAX_ARGUMENT_VALUES),
        "[".repeat(3 * MAX_ARGUMENT_VALUES),
    ];
    for text in refused {
        let tool = ScriptedTool::saying("take", "taken");
        let provider = ScriptedProvider::new([
            ScriptedReply::call("c", "take", ToolArguments::from_text(text)),
            "done".into(),
        ]);
        let agent = BasicAgent::new(ModelConfig::default()).with_provider(provider).with_tool(tool.clone());
        let events = agent.prompt("go").unwrap().collect().await;
        is_readable(&events, &agent);
        assert_eq!(tool.calls().len(), 0);
        let results: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                AgentEvent::MessageEnd { message, .. } => message.as_llm(),
                _ => None,
            })
            .filter_map(|message| message.as_tool_result().map(|_| message.text()))
            .collect();
        assert_eq!(results.len(), 1);
        assert!(results[0].contains("more than 250000 values") && results[0].len() < 10_000, "{results:?}");
    }
    let text = many("1,", 0).replace("[]", &Value::from("1,[{\\\"".repeat(500_000)).to_string());
    assert!(ToolArguments::from_text(text).value().is_ok());
    assert!(ToolArguments::from_text(many("1", MAX_ARGUMENT_VALUES - 3)).value().is_ok());
}
