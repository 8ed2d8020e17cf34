//! Child loops of tool calls, with a delegation of the program's own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

#[path = "support/delegating.rs"]
mod delegating;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_core::drive::Telemetry;
use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::trace::TraceContext;
use agent_core::{
    AgentLoopConfig, Answer, BasicAgent, Budget, BudgetLimits, Message, ModelConfig, RunEnd, ToolContext,
    Usage,
};
use delegating::Helper;
use serde_json::json;

fn usage() -> Usage {
    Usage::new(100, 10, 0, 0)
}

fn helper(tool: ScriptedTool) -> Helper {
    let model = ScriptedProvider::new([
        ScriptedReply::call("k", "work", json!({})).using(usage()),
        ScriptedReply::text("helped").using(usage()),
    ]);
    Helper { model, tool }
}

fn caller(helper: Helper) -> BasicAgent {
    let model = ScriptedProvider::new([
        ScriptedReply::call("c", "helper", json!({})).using(usage()),
        ScriptedReply::text("all done").using(usage()),
    ]);
    BasicAgent::new(ModelConfig::default()).with_provider(model).with_tool(helper)
}

/// REQ-148. The question of a child is answered at its caller, and the child continues with the answer.
#[tokio::test]
async fn a_child_continues_with_the_answer_that_its_caller_got() {
    for (answer, result) in [(Answer::Allow, "worked"), (Answer::deny("not today"), "not today")] {
        let agent = caller(helper(ScriptedTool::saying("work", "worked").asking("Work now?")));
        let end = agent.prompt("go").unwrap().end().await;
        let RunEnd::Suspended(questions) = end else { panic!("{end:?}") };
        assert_eq!(questions.len(), 1);
        assert_eq!(questions[0].id.as_str(), "c/k");
        let end = agent.answer("c/k", answer).unwrap().end().await;
        assert!(matches!(end, RunEnd::Completed(_)), "{end:?}");
        let texts: Vec<String> = agent.history().llm_messages().map(Message::text).collect();
        assert!(texts[2].contains(result) && texts[2].ends_with("helped"), "{texts:?}");
        assert_eq!(texts[3], "all done");
    }
}

/// REQ-148. What a child spends is charged to the account of its caller once, also across a question.
#[tokio::test]
async fn the_spending_of_a_child_is_charged_to_its_caller_once() {
    let helper = helper(ScriptedTool::saying("work", "worked").asking("Work now?"));
    let budget = Budget::new(BudgetLimits::none());
    let agent = caller(helper).with_budget(budget.clone());
    let end = agent.prompt("go").unwrap().end().await;
    assert!(matches!(end, RunEnd::Suspended(_)), "{end:?}");
    assert_eq!(budget.spent().model_calls, 2, "one of the caller, one of the child");
    let end = agent.answer("c/k", Answer::Allow).unwrap().end().await;
    assert!(matches!(end, RunEnd::Completed(_)), "{end:?}");
    let spent = budget.spent();
    assert_eq!((spent.model_calls, spent.tool_calls, spent.tokens), (4, 2, 4 * 110));
}

/// The limits of the caller are those of a child that has none. A limit of its own stays, whether it is lower or higher.
#[tokio::test]
async fn a_child_keeps_its_own_limits_and_inherits_the_others() {
    let seconds = |seconds: Option<u64>| seconds.map(Duration::from_secs);
    for (above, own, expected) in [
        ((Some(5), Some(2)), (None, None), (Some(5), Some(2))),
        ((Some(5), Some(2)), (Some(60), Some(8)), (Some(60), Some(8))),
        ((Some(5), Some(2)), (Some(1), Some(1)), (Some(1), Some(1))),
        ((Some(5), None), (None, Some(8)), (Some(5), Some(8))),
        ((None, None), (Some(1), None), (Some(1), None)),
        ((None, None), (None, None), (None, None)),
    ] {
        let seen = Arc::new(Mutex::new(None));
        let noted = Arc::clone(&seen);
        let tool = ScriptedTool::new("helper", move |_, ctx: ToolContext| {
            let model = Arc::new(ScriptedProvider::texts(["done"]));
            let mut child = AgentLoopConfig::new(model, ModelConfig::default(), ctx.environment.clone());
            (child.policy.tool_timeout, child.policy.max_concurrent_tools) = (seconds(own.0), own.1);
            child.inherit(&ctx);
            *noted.lock().unwrap() = Some((child.policy.tool_timeout, child.policy.max_concurrent_tools));
            async { Ok("done".into()) }
        });
        let model = ScriptedProvider::new([
            ScriptedReply::call("c", "helper", json!({})),
            ScriptedReply::text("all done"),
        ]);
        let agent = BasicAgent::new(ModelConfig::default()).with_provider(model).with_tool(tool).configure(
            |config| {
                (config.policy.tool_timeout, config.policy.max_concurrent_tools) =
                    (seconds(above.0), above.1);
            },
        );
        let end = agent.prompt("go").unwrap().end().await;
        assert!(matches!(end, RunEnd::Completed(_)), "{end:?}");
        assert_eq!(*seen.lock().unwrap(), Some((seconds(expected.0), expected.1)), "{above:?} {own:?}");
    }
}

/// A tracing system that knows one span.
#[derive(Debug)]
struct OneSpan;

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

impl Telemetry for OneSpan {
    fn context(&self, _: &tracing::Span) -> Option<TraceContext> {
        TraceContext::new(TRACE)
    }
}

/// The requests of a child belong to the trace of its caller.
#[tokio::test]
async fn a_child_is_connected_to_the_tracing_system_of_its_caller() {
    let helper = helper(ScriptedTool::saying("work", "worked"));
    let agent =
        caller(helper.clone()).configure(|config| config.services.telemetry = Some(Arc::new(OneSpan)));
    let end = agent.prompt("go").unwrap().end().await;
    assert!(matches!(end, RunEnd::Completed(_)), "{end:?}");
    let requests = helper.model.requests();
    assert_eq!(requests.len(), 2);
    for request in requests {
        assert_eq!(request.trace.unwrap().traceparent(), TRACE);
    }
}
