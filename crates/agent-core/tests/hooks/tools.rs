//! The hooks around a call.

use agent_core::testing::{ScriptedReply, ScriptedTool, transcript};
use agent_core::{AgentEvent, Content, HookError, Hooks, ToolChange, ToolResult, ToolResultMessage, Verdict};
use serde_json::json;

use crate::room::{agent, boxed, model, results, run, said, tool_ends};

struct Seen {
    events: Vec<AgentEvent>,
    results: Vec<ToolResultMessage>,
    ran: usize,
}

/// Two calls, `a` and `b`, under these hooks.
async fn under(hooks: Hooks) -> Seen {
    let model = model([
        ScriptedReply::call("a", "t", json!({"n": 1})).and_call("b", "t", json!({"n": 2})),
        "done".into(),
    ]);
    let tool = ScriptedTool::new("t", |args, _| async move {
        Ok(ToolResult::text(args.to_string()).with_details(json!({"kept": true})))
    })
    .with_schema(json!({"type": "object", "properties": {"n": {"type": "integer"}}}));
    let agent = agent(&model).with_tools(boxed([tool.clone()])).with_hooks(hooks);
    let events = run(&agent).await;
    assert!(transcript(&events).ends_with("agent_end(completed)"), "{}", transcript(&events));
    let results = results(&events);
    assert_eq!(said(&results[1]), r#"{"n":2}"#, "the other call is as ever");
    assert!(!results[1].is_error);
    Seen { events, results, ran: tool.calls().len() }
}

fn on_a(verdict: Verdict) -> Hooks {
    Hooks::new().before_tool(move |call| {
        let verdict = if call.call.id == *"a" { verdict.clone() } else { Verdict::Allow };
        async move { verdict }
    })
}

/// B-092, REQ-183.
#[tokio::test]
async fn a_denied_call_does_not_run_and_the_model_is_told_why() {
    let seen = under(on_a(Verdict::Deny("not on Sundays".into()))).await;
    assert_eq!(
        (said(&seen.results[0]).as_str(), seen.results[0].is_error, seen.ran),
        ("not on Sundays", true, 1)
    );
    assert_eq!(seen.results[0].duration_ms, None);

    let hooks = Hooks::new().before_tool(|call| async move { call.call.id != *"a" });
    let seen = under(hooks).await;
    assert!(said(&seen.results[0]).contains("denied"), "a plain no has words, too");
    assert_eq!(seen.ran, 1);
}

/// B-093.
#[tokio::test]
async fn other_arguments_reach_the_tool_unchecked_and_the_transcript_keeps_the_models() {
    let seen = under(on_a(Verdict::AllowWith(json!({"n": "not a number"})))).await;
    assert_eq!(said(&seen.results[0]), r#"{"n":"not a number"}"#);
    let sent = seen.events.iter().find_map(|e| match e {
        AgentEvent::ToolExecutionStart { args, .. } => Some(args.text().to_owned()),
        _ => None,
    });
    assert_eq!(sent.unwrap(), r#"{"n":1}"#);
}

/// B-094.
#[tokio::test]
async fn a_hook_that_fails_or_panics_before_a_call_is_an_error_result() {
    let failing = Hooks::new().before_tool(|call| async move {
        if call.call.id == *"a" { Err(HookError::new("no policy")) } else { Ok(true) }
    });
    let later = Hooks::new().before_tool(|call| async move {
        assert!(call.call.id != *"a", "no policy");
        true
    });
    let at_once = Hooks::new().before_tool(|call| {
        assert!(call.call.id != *"a", "no policy");
        async { true }
    });
    for hooks in [failing, later, at_once] {
        let seen = under(hooks).await;
        let text = said(&seen.results[0]);
        assert!(
            seen.results[0].is_error && text.contains("before_tool") && text.contains("no policy"),
            "{text}"
        );
        assert_eq!(seen.ran, 1);
    }
}

fn after_a(change: ToolChange) -> Hooks {
    Hooks::new().after_tool(move |ended| {
        let change = if ended.call.id == *"a" { change.clone() } else { ToolChange::none() };
        async move { change }
    })
}

/// B-095, REQ-183.
#[tokio::test]
async fn what_a_hook_does_not_change_in_a_result_stays() {
    let seen = under(after_a(ToolChange::is_error(true))).await;
    let first = &seen.results[0];
    assert_eq!((said(first).as_str(), first.is_error), (r#"{"n":1}"#, true));
    assert_eq!(first.details, json!({"kept": true}));

    let seen = under(after_a(ToolChange::content(vec![Content::text("other")]))).await;
    let first = &seen.results[0];
    assert_eq!((said(first).as_str(), first.is_error), ("other", false));
    assert_eq!(first.details, json!({"kept": true}));
    let end = tool_ends(&seen.events).into_iter().find(|e| e.tool_call_id == *"a").unwrap();
    assert_eq!(end.result.to_text(), r#"{"n":1}"#, "the event carries the tool's own result");
}

/// B-096.
#[tokio::test]
async fn a_hook_that_fails_or_panics_after_a_call_makes_its_result_an_error() {
    let failing = Hooks::new().after_tool(|ended| async move {
        if ended.call.id == *"a" { Err(HookError::new("no auditor")) } else { Ok(ToolChange::none()) }
    });
    let at_once = Hooks::new().after_tool(|ended| {
        assert!(ended.call.id != *"a", "no auditor");
        async {}
    });
    for hooks in [failing, at_once] {
        let seen = under(hooks).await;
        let text = said(&seen.results[0]);
        assert!(seen.results[0].is_error && text.contains("no auditor"), "{text}");
        assert_eq!(seen.ran, 2);
    }
}

/// REQ-183.
#[tokio::test]
async fn a_call_that_did_not_run_is_not_reviewed() {
    let hooks = on_a(Verdict::Deny("no".into())).after_tool(|ended| async move {
        ToolChange::content(vec![Content::text(format!("seen {}", ended.call.id))])
    });
    let model =
        model([ScriptedReply::call("a", "t", json!({})).and_call("b", "t", json!({})), "done".into()]);
    let agent = agent(&model).with_tools(boxed([ScriptedTool::saying("t", "ok")])).with_hooks(hooks);
    let results = results(&run(&agent).await);
    assert_eq!(results.iter().map(said).collect::<Vec<_>>(), ["no", "seen b"]);
}

/// REQ-184.
#[tokio::test]
async fn a_denied_update_is_not_shown_and_the_result_is_as_ever() {
    let hooks = Hooks::new().before_tool_update(|update| {
        let show = update.partial.to_text() != "secret";
        async move { show }
    });
    let told = crate::room::Notes::default();
    let after = told.clone();
    let hooks = hooks.after_tool_update(move |update| after.add(update.partial.to_text()));
    let tool = ScriptedTool::new("t", |_, ctx| async move {
        ctx.on_update(ToolResult::text("open"));
        ctx.on_update(ToolResult::text("secret"));
        ctx.on_update(ToolResult::text("open again"));
        Ok("ok".into())
    });
    let model = model([ScriptedReply::call("a", "t", json!({})), "done".into()]);
    let agent = agent(&model).with_tools(boxed([tool])).with_hooks(hooks);
    let events = run(&agent).await;
    let shown: Vec<String> = events
        .iter()
        .filter_map(|e| match e {
            AgentEvent::ToolExecutionUpdate { partial_result, .. } => Some(partial_result.to_text()),
            _ => None,
        })
        .collect();
    assert_eq!(shown, ["open", "open again"]);
    assert_eq!(told.all(), shown, "after an update that was shown, and only then");
    assert_eq!(said(&results(&events)[0]), "ok");
}
