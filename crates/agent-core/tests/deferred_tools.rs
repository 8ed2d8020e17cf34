//! Tools whose definitions a model receives after it has searched for them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

#[path = "support/runs.rs"]
mod runs;

use std::sync::Arc;

use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{
    AgentError, AgentEvent, AgentTool, Answer, BasicAgent, CacheBreakCause, DeferTools, ModelConfig,
    ModelRequest, OwnedStreamEvent, Splice, StopReason, TOOL_SEARCH, ToolLoading, ToolSearchForm, Tools,
    Usage,
};
use proptest::prelude::*;
use serde_json::json;

use runs::run;

const NAMES: [&str; 6] =
    ["refund_order", "send_mail", "list_invoices", "open_ticket", "read_calendar", "translate_text"];

/// One tool that is always loaded, and six deferred ones.
fn tools() -> Tools {
    let deferred: Vec<Arc<dyn AgentTool>> =
        NAMES.iter().map(|name| Arc::new(ScriptedTool::saying(*name, format!("{name} done"))) as _).collect();
    Tools::default().with(ScriptedTool::saying("look", "x")).with_all(Tools::from(deferred).deferred())
}

fn with(model: &ScriptedProvider, tools: Tools) -> BasicAgent {
    BasicAgent::new(ModelConfig::default()).with_provider(model.clone()).with_shared_tools(tools)
}

fn search(id: &str, query: &str) -> ScriptedReply {
    ScriptedReply::call(id, TOOL_SEARCH, json!({ "query": query, "limit": 1 }))
}

fn call(id: &str, tool: &str) -> ScriptedReply {
    ScriptedReply::call(id, tool, json!({}))
}

/// The names in the list of a request, and those of the deferred definitions in parentheses.
fn names(request: &ModelRequest) -> Vec<String> {
    let shown = |tool: &agent_core::ToolDefinition| match tool.loading {
        ToolLoading::Deferred => format!("({})", tool.name),
        _ => tool.name.clone(),
    };
    request.tools.definitions().iter().map(shown).collect()
}

/// The list has the search, and what it finds comes at the end of the next list.
#[tokio::test]
async fn a_found_tool_is_appended_and_called() {
    let model = ScriptedProvider::new([
        search("a", "give the money of an order back: refund"),
        call("b", "refund_order"),
        search("c", "tickets"),
        "Done.".into(),
        "Again.".into(),
    ])
    .exhaustive();
    let agent = with(&model, tools());
    let events = run(&agent, "Refund order 7").await;
    run(&agent, "And now?").await;
    let lists: Vec<_> = model.requests().iter().map(names).collect();
    assert_eq!(lists[0], ["look", "tool_search"]);
    assert_eq!(lists[1], ["look", "tool_search", "refund_order"]);
    assert_eq!(lists[2], lists[1]);
    assert_eq!(lists[3], ["look", "tool_search", "refund_order", "open_ticket"]);
    assert_eq!(lists[4], lists[3], "a later run knows the tools");
    let called = agent.messages().iter().any(|m| m.text().contains("refund_order done"));
    assert!(called, "the tool was called");
    // The encoded form of an unchanged list is shared.
    assert!(agent_core::ToolDefinitions::same(&model.requests()[3].tools, &model.requests()[4].tools));
    drop(events);
}

#[tokio::test]
async fn a_call_of_a_tool_that_was_not_found_runs_and_loads_it() {
    let model = ScriptedProvider::new([call("a", "send_mail"), "Sent.".into()]).exhaustive();
    let agent = with(&model, tools());
    run(&agent, "Send it").await;
    assert!(agent.messages().iter().any(|m| m.text().contains("send_mail done")));
    assert_eq!(names(&model.requests()[1]), ["look", "tool_search", "send_mail"]);
    let wrong = ScriptedProvider::new([call("a", "send_fax"), "Hm.".into()]).exhaustive();
    let agent = with(&wrong, tools());
    run(&agent, "Send it").await;
    assert!(agent.messages().iter().any(|m| m.text().contains("Tool send_fax not found")));
    assert_eq!(names(&wrong.requests()[1]), ["look", "tool_search"]);
}

#[tokio::test]
async fn the_policy_decides_whether_marked_tools_are_deferred() {
    for (policy, count) in [
        (DeferTools::Marked, 2),
        (DeferTools::Above { tokens: 10 }, 2),
        (DeferTools::Above { tokens: 10_000 }, 7),
        (DeferTools::Never, 7),
    ] {
        let model = ScriptedProvider::texts(["Yes."]);
        let agent = with(&model, tools()).configure(|c| c.policy.defer_tools = policy);
        run(&agent, "?").await;
        assert_eq!(model.requests()[0].tools.definitions().len(), count, "{policy:?}");
    }
    let model = ScriptedProvider::texts(["Yes."]);
    let all: Vec<_> = tools().into_iter().collect();
    run(&with(&model, Tools::from(all).deferred_except(["look", "send_mail"])), "?").await;
    assert_eq!(names(&model.requests()[0]), ["look", "tool_search"], "the marks of before remain");
}

#[tokio::test]
async fn a_tool_with_the_name_of_the_search_is_a_second_one_of_that_name() {
    let own = || ScriptedTool::saying(TOOL_SEARCH, "x");
    let model = ScriptedProvider::texts(["Yes."]);
    let refused = with(&model, tools().with(own())).chat("?").await;
    assert!(
        matches!(&refused, Err(AgentError::DuplicateTool { name }) if name.as_str() == TOOL_SEARCH),
        "{refused:?}"
    );
    let alone = with(&model, Tools::default().with(own()));
    assert_eq!(alone.chat("?").await.unwrap(), "Yes.", "without deferred tools the name is free");
}

/// A reply in which the vendor's search has found a tool.
fn found_by_vendor(name: &str) -> ScriptedReply {
    let data = json!({"type": "tool_search_tool_result", "tool_use_id": "s1", "content": {
        "type": "tool_search_tool_search_result",
        "tool_references": [{"type": "tool_reference", "tool_name": name}],
    }});
    let kind = "tool_search_tool_result".to_owned();
    ScriptedReply::new()
        .and_event(OwnedStreamEvent::Opaque { index: 0, kind, data })
        .and_event(OwnedStreamEvent::BlockEnd { index: 0 })
        .and_event(OwnedStreamEvent::ToolCallStart {
            index: 1,
            id: format!("call-{name}"),
            name: name.to_owned(),
        })
        .and_event(OwnedStreamEvent::ToolCallDelta { index: 1, delta: "{}".to_owned() })
        .and_event(OwnedStreamEvent::BlockEnd { index: 1 })
        .stopping(StopReason::ToolUse)
}

#[tokio::test]
async fn a_vendor_that_searches_receives_all_definitions_and_an_unchanged_list() {
    let model = ScriptedProvider::new([found_by_vendor("open_ticket"), "Open.".into()]).exhaustive();
    let model = model.with_tool_search(ToolSearchForm::Vendor);
    let agent = with(&model, tools());
    run(&agent, "Open one").await;
    let requests = model.requests();
    assert_eq!(names(&requests[0])[..3], ["look", "tool_search", "(refund_order)"]);
    assert_eq!(names(&requests[0]).len(), 8);
    assert!(agent_core::ToolDefinitions::same(&requests[0].tools, &requests[1].tools));
    let shown = requests[0].tools.definitions().iter().filter(|t| t.loading == ToolLoading::Always);
    let shown: agent_core::ToolDefinitions = shown.cloned().collect();
    assert_eq!(requests[0].tools.tokens(), shown.tokens(), "what the model does not see costs nothing");
}

/// In both directions: a model finds what another model has found, by whatever way.
#[tokio::test]
async fn found_tools_remain_loaded_when_another_model_continues() {
    let ways = [ToolSearchForm::Listed, ToolSearchForm::FromResults, ToolSearchForm::Vendor];
    for (first, second) in ways.iter().flat_map(|a| ways.map(|b| (*a, b))) {
        let found = if first == ToolSearchForm::Vendor {
            found_by_vendor("open_ticket")
        } else {
            search("a", "tickets")
        };
        let model = ScriptedProvider::new([found, "Yes.".into(), "Yes.".into()]).exhaustive();
        let agent = with(&model.clone().with_tool_search(first), tools());
        run(&agent, "Open one").await;
        let _ = model.clone().with_tool_search(second);
        run(&agent, "Another one").await;
        let last = model.requests().pop().unwrap();
        assert_eq!(last.tools.search(), second);
        // A vendor that loads tools from the conversation sees the same search there as before.
        let is_listed = match second {
            ToolSearchForm::Listed => true,
            ToolSearchForm::FromResults => first == ToolSearchForm::Vendor,
            _ => first != ToolSearchForm::Vendor,
        };
        assert_eq!(names(&last).contains(&"open_ticket".to_owned()), is_listed, "{first:?} then {second:?}");
    }
}

/// The process ends while the found tool waits for an approval, and another one continues.
#[tokio::test]
async fn a_restored_run_has_the_same_tools() {
    let set = || {
        let asking = ScriptedTool::saying("refund_order", "refunded").asking("Refund it?");
        Tools::default()
            .with(ScriptedTool::saying("look", "x"))
            .with_all(Tools::default().with(asking).deferred())
    };
    let model = ScriptedProvider::new([search("a", "refund"), call("b", "refund_order"), "Done.".into()]);
    let agent = with(&model, set());
    run(&agent, "Refund").await;
    let stored = serde_json::to_string(&agent.snapshot()).unwrap();
    drop(agent);
    let other = with(&model, set()).restore(serde_json::from_str(&stored).unwrap()).unwrap();
    let question = other.questions().remove(0);
    let end = other.answer(question.id.clone(), Answer::Allow).unwrap().end().await;
    assert!(matches!(end, agent_core::RunEnd::Completed(_)), "{end:?}");
    let lists: Vec<_> = model.requests().iter().map(names).collect();
    assert_eq!(lists[2], ["look", "tool_search", "refund_order"]);
    assert!(other.messages().iter().any(|m| m.text() == "refunded"));
}

/// A compaction removes searches. What the rest of the conversation calls is still loaded, and the rest is found again.
#[tokio::test]
async fn after_a_compaction_called_tools_are_loaded_and_others_are_found_again() {
    let model = ScriptedProvider::new([
        search("a", "tickets"),
        search("b", "refund"),
        call("c", "refund_order"),
        "Done.".into(),
        search("d", "tickets"),
        "Found.".into(),
    ])
    .exhaustive();
    let agent = with(&model, tools());
    run(&agent, "Go").await;
    let mut snapshot = agent.snapshot();
    // The two searches: the messages 1 to 4.
    let shorter = Splice { from: 1, to: 5, messages: Vec::new() };
    snapshot.history = snapshot.history.spliced(&[shorter]).unwrap();
    let agent = with(&model, tools()).restore(snapshot).unwrap();
    run(&agent, "On").await;
    let lists: Vec<_> = model.requests().iter().map(names).collect();
    assert_eq!(lists[3], ["look", "tool_search", "open_ticket", "refund_order"]);
    assert_eq!(lists[4], ["look", "tool_search", "refund_order"]);
    assert_eq!(lists[5], ["look", "tool_search", "refund_order", "open_ticket"]);
}

#[tokio::test]
async fn a_longer_list_is_an_intended_break_and_a_vendors_search_breaks_nothing() {
    let used = || Usage::new(100, 20, 0, 0);
    let script = |first: ScriptedReply| vec![first.using(used()), ScriptedReply::text("Yes.").using(used())];
    let long = "a long question that was sent before and that nobody likes to pay for again and again";
    for (way, first, is_broken) in [
        (ToolSearchForm::Listed, search("a", "tickets"), true),
        (ToolSearchForm::FromResults, search("a", "tickets"), false),
        (ToolSearchForm::Vendor, found_by_vendor("open_ticket"), false),
    ] {
        let model = ScriptedProvider::new(script(first)).exhaustive().with_tool_search(way);
        let events = run(&with(&model, tools()), long).await;
        let found = events.iter().find_map(|e| match e {
            AgentEvent::CacheBroken(found) => Some(found),
            _ => None,
        });
        assert_eq!(found.is_some(), is_broken, "{way:?}");
        if let Some(found) = found {
            let added = vec!["open_ticket".to_owned()];
            let cause = CacheBreakCause::Tools { added, removed: vec![], changed: vec![], reordered: false };
            assert_eq!((&found.cause, found.intended), (&cause, true));
        }
    }
}

/// A server adds a tool between two runs, which a vendor that searches does not show to the model.
#[tokio::test]
async fn new_deferred_tools_break_no_prefix_of_a_vendor_that_searches() {
    let long = "a long question that was sent before and that nobody likes to pay for again and again";
    for (is_deferred, breaks) in [(true, 0), (false, 1)] {
        let reply = || ScriptedReply::text("Yes.").using(Usage::new(100, 20, 0, 0));
        let model = ScriptedProvider::new([reply(), reply()]).with_tool_search(ToolSearchForm::Vendor);
        let mut agent = with(&model, tools());
        run(&agent, long).await;
        let new = Tools::default().with(ScriptedTool::saying("new_tool", "x"));
        let more = tools().with_all(if is_deferred { new.deferred() } else { new });
        agent.set_tools(more.into_iter().collect());
        let events = run(&agent, "And now?").await;
        let found = events.iter().filter(|e| matches!(e, AgentEvent::CacheBroken(_))).count();
        assert_eq!(found, breaks);
    }
}

#[derive(Debug, Clone)]
enum Act {
    Search(&'static str),
    Call(&'static str),
    Vendor(&'static str),
    Prompt,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let name = || prop::sample::select(&NAMES[..]);
    prop::collection::vec(
        prop_oneof![
            name().prop_map(Act::Search),
            name().prop_map(Act::Call),
            name().prop_map(Act::Vendor),
            Just(Act::Call("look")),
            Just(Act::Call("unknown")),
            Just(Act::Prompt),
        ],
        1..12,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The loaded tools are a function of the conversation: an agent that has only its stored form sends the same
    /// list. Lists only grow at their end and have no name twice.
    #[test]
    fn lists_depend_on_the_conversation_and_only_grow(acts in acts(), way in 0..3usize) {
        let way = [ToolSearchForm::Listed, ToolSearchForm::FromResults, ToolSearchForm::Vendor][way];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let replies = acts.iter().enumerate().map(|(at, act)| match act {
                Act::Search(name) => search(&format!("c{at}"), &name.replace('_', " ")),
                Act::Call(name) => call(&format!("c{at}"), name),
                Act::Vendor(name) => found_by_vendor(name),
                Act::Prompt => "Done.".into(),
            });
            let model = ScriptedProvider::new(replies).with_tool_search(way);
            let agent = with(&model, tools());
            let mut runs = 0;
            while model.remaining() > 0 && runs < 20 {
                runs += 1;
                run(&agent, "On").await;
                let stored = serde_json::to_string(&agent.snapshot()).unwrap();
                let probe = ScriptedProvider::texts(["x"]).with_tool_search(way);
                let other = with(&probe, tools()).restore(serde_json::from_str(&stored).unwrap()).unwrap();
                run(&other, "Probe").await;
                let again = ScriptedProvider::texts(["x"]).with_tool_search(way);
                let same = agent.with_same_settings().with_provider(again.clone());
                let same = same.restore(agent.snapshot()).unwrap();
                run(&same, "Probe").await;
                assert_eq!(names(&probe.requests()[0]), names(&again.requests()[0]));
            }
            let mut last: Vec<String> = Vec::new();
            for request in model.requests() {
                let list = names(&request);
                let mut once: Vec<_> = list.iter().map(|n| n.trim_matches(['(', ')'])).collect();
                once.sort_unstable();
                once.dedup();
                assert_eq!(once.len(), list.len(), "{list:?}");
                let shown: Vec<String> = list.into_iter().filter(|n| !n.starts_with('(')).collect();
                assert!(shown.starts_with(&last), "{last:?} then {shown:?}");
                last = shown;
            }
        });
    }
}

/// The mark changes when the model receives the definition, and nothing else.
#[test]
fn a_deferred_tool_keeps_who_may_call_it() {
    use agent_core::ToolCallers;
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct NoArguments {}
    let by_code = agent_core::tool_fn("sum", "Adds.", |_: NoArguments, _| async { Ok("3") })
        .with_callers(ToolCallers::Code);
    let tools = Tools::from(vec![Arc::new(by_code) as Arc<dyn AgentTool>]).deferred();
    assert_eq!(tools.tools()[0].loading(), ToolLoading::Deferred);
    assert_eq!(tools.tools()[0].callers(), ToolCallers::Code);
}
