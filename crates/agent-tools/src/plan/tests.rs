use std::sync::Arc;

use agent_core::context::{
    CompactionContext, CompactionError, CompactionOutcome, CompactionStrategy, ContextConfig,
};
use agent_core::history::{MessageRef, Splice};
use agent_core::testing::{ScriptedProvider, ScriptedReply};
use agent_core::{AgentTool as _, BasicAgent, ModelConfig, SystemEnvironment};

use super::*;

fn steps(states: &[&str]) -> Value {
    states
        .iter()
        .enumerate()
        .map(|(n, state)| json!({"step": format!("step {n}"), "status": state}))
        .collect()
}

async fn set(arguments: Value) -> Result<ToolResult, ToolError> {
    let tool = PlanTool::new();
    let arguments = agent_core::AgentTool::prepare_arguments(&tool, arguments);
    tool.execute(arguments, ToolContext::detached("plan", Arc::new(SystemEnvironment))).await
}

#[tokio::test]
async fn a_plan_is_accepted_or_refused_as_a_whole() {
    let result = set(json!({"plan": steps(&["completed", "in_progress", "pending"]), "explanation": "new"}))
        .await
        .unwrap();
    assert_eq!(result.to_text(), "Plan updated: 1 of 3 steps completed");
    let plan = Plan::of_details(&result.details).unwrap();
    assert_eq!(plan.to_string(), "- [x] step 0\n- [~] step 1\n- [ ] step 2");
    assert_eq!(plan.explanation.as_deref(), Some("new"));
    for (arguments, expect) in [
        (
            json!({"steps": steps(&["in_progress", "in_progress"])}),
            "2 steps are in_progress; at most one can be",
        ),
        (json!({"steps": [{"step": " ", "status": "pending"}]}), "step 1 is empty, too long"),
        (json!({"steps": [{"step": "a\nb", "status": "pending"}]}), "has several lines"),
        (json!({"steps": [{"step": "x".repeat(301), "status": "pending"}]}), "too long"),
        (json!({"steps": steps(&["pending"; 51])}), "too many steps (max 50)"),
        (json!({"steps": steps(&["done"])}), "done"),
    ] {
        let error = set(arguments).await.unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    }
}

/// An agent that has set two plans, and the plans that its events show.
async fn planned() -> (History, Vec<Plan>) {
    let call = |id: &str, states: &[&str]| ScriptedReply::call(id, "plan", json!({ "steps": steps(states) }));
    let model = ScriptedProvider::new([
        call("a", &["in_progress", "pending"]),
        call("b", &["completed", "in_progress"]),
        call("c", &["in_progress", "in_progress"]),
        ScriptedReply::text("done"),
    ]);
    let agent = BasicAgent::new(ModelConfig::default()).with_provider(model).with_tool(PlanTool::new());
    let events = agent.prompt("go").unwrap().collect().await;
    (agent.history(), events.iter().filter_map(Plan::of_event).collect())
}

#[tokio::test]
async fn events_and_the_history_show_the_plan() {
    let (history, shown) = planned().await;
    assert_eq!(shown.len(), 2, "a plan that was refused is not shown");
    assert_eq!(latest(&history).as_ref(), shown.last());
    assert_eq!(latest(&History::new()), None);
}

/// Removes all messages but the last, in one of the two forms.
struct LastOnly {
    splices: bool,
}

#[async_trait::async_trait]
impl CompactionStrategy for LastOnly {
    async fn compact(
        &self,
        history: &History,
        _: &ContextConfig,
        _: &CompactionContext,
    ) -> Result<CompactionOutcome, CompactionError> {
        let last = history.len() - 1;
        Ok(if self.splices {
            CompactionOutcome::splices(vec![Splice { from: 0, to: last, messages: Vec::new() }])
        } else {
            let kept: Vec<MessageRef> =
                history.entries().skip(last).map(|entry| entry.shared().clone()).collect();
            CompactionOutcome::messages(kept)
        })
    }
}

#[tokio::test]
async fn a_plan_outlasts_the_compaction_of_its_call_any_number_of_times() {
    for splices in [true, false] {
        let (mut history, shown) = planned().await;
        for _ in 0..3 {
            let strategy = RetainPlan::new(LastOnly { splices });
            let outcome = strategy
                .compact(&history, &ContextConfig::default(), &CompactionContext::new(1000))
                .await
                .unwrap();
            history = match outcome.change {
                agent_core::context::CompactionChange::Splices(splices) => history.spliced(&splices).unwrap(),
                agent_core::context::CompactionChange::Messages(messages) => history.rebuilt(messages).0,
                other => panic!("{other:?}"),
            };
            assert_eq!(latest(&history).unwrap().steps, shown[1].steps);
            assert!(history.len() <= 2, "the plan is in the conversation once");
        }
    }
}
