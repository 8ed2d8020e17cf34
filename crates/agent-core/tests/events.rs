//! The events of a run: which, how often, in which order.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

#[path = "support/runs.rs"]
mod runs;

use agent_core::compat::SeedSetters as _;
use std::sync::{Arc, Mutex};

use agent_core::hooks::{FilterResult, Hooks};
use agent_core::provider::ErrorKind;
use agent_core::testing::{Latch, ScriptedReply, ScriptedTool, assert_well_formed, transcript};
use agent_core::{
    AgentEvent, AgentMessage, Content, ExecutionLimits, Message, OwnedStreamEvent, RetryConfig, StopReason,
    StreamDelta, ToolResult, Usage,
};
use serde_json::json;

use runs::{agent, asked, kinds, run, shown_refs, within};

/// B-001, REQ-039.
#[tokio::test]
async fn a_text_reply_gives_exactly_these_events() {
    let (agent, _) = agent([ScriptedReply::text("Hello.").in_pieces_of(3)]);
    let events = run(&agent, "Hi").await;
    assert_eq!(
        kinds(&events),
        [
            "agent_start",
            "turn_start",
            "message_start",
            "message_end",
            "message_start",
            "message_update",
            "message_update",
            "message_end",
            "turn_end",
            "agent_end"
        ]
    );
    let AgentEvent::MessageEnd { message, .. } = &events[7] else { panic!("{:?}", events[7]) };
    assert_eq!(message.text(), "Hello.");
}

/// B-002.
#[tokio::test]
async fn a_reply_whose_start_never_comes_is_said_once_and_whole() {
    let (agent, _) = agent([ScriptedReply::text("Hello.").without_start()]);
    let events = run(&agent, "Hi").await;
    let replies: Vec<_> = events
        .iter()
        .filter_map(|e| match e {
            AgentEvent::MessageStart { message, .. } => Some(("start", message)),
            AgentEvent::MessageEnd { message, .. } => Some(("end", message)),
            _ => None,
        })
        .filter(|(_, m)| m.role() == "assistant")
        .map(|(what, m)| (what, m.text()))
        .collect();
    assert_eq!(replies, [("start", "Hello.".to_owned()), ("end", "Hello.".to_owned())]);
    assert_well_formed(&events);
}

/// B-003.
#[tokio::test]
async fn prompts_are_said_in_their_order_before_the_model_is_called() {
    let (agent, model) = agent(["ok"]);
    let calls = Arc::new(Mutex::new(Vec::new()));
    let (seen, provider) = (Arc::clone(&calls), model.clone());
    let _listening = agent.subscribe(move |event| {
        if let AgentEvent::MessageEnd { message, .. } = event {
            seen.lock().unwrap().push((message.text(), provider.requests().len()));
        }
    });
    let prompts: Vec<AgentMessage> = ["one", "two", "three"].map(AgentMessage::user).to_vec();
    let events = within(agent.prompt(prompts).unwrap().collect()).await;
    assert_eq!(
        transcript(&events),
        "agent_start turn_start user user user assistant(ok) turn_end agent_end(completed)"
    );
    assert_well_formed(&events);
    let calls = calls.lock().unwrap().clone();
    let expect = [("one", 0), ("two", 0), ("three", 0), ("ok", 1)];
    assert_eq!(calls, expect.map(|(text, calls)| (text.to_owned(), calls)));
    assert_eq!(asked(&model.requests()[0]), "user(one) user(two) user(three)");
}

/// B-004, REQ-038.
#[tokio::test]
async fn a_call_and_then_a_text_are_two_turns_and_two_calls_of_the_model() {
    let (agent, model) = agent([ScriptedReply::call("c1", "look", json!({})), "Found.".into()]);
    let tool = ScriptedTool::saying("look", "a key");
    let agent = agent.with_tool(tool.clone());
    let events = run(&agent, "Look.").await;
    assert_eq!(
        transcript(&events),
        "agent_start turn_start user assistant() tool+(c1) tool-(c1) result(c1) turn_end \
         turn_start assistant(Found.) turn_end agent_end(completed)"
    );
    assert_eq!(tool.calls().len(), 1);
    assert_eq!(model.requests().len(), 2);
    assert_eq!(asked(&model.requests()[1]), "user(Look.) assistant() result(c1)");
}

/// B-005.
#[tokio::test]
async fn a_call_is_said_to_start_to_show_what_it_has_to_end_and_then_its_message_comes() {
    let (agent, _) = agent([ScriptedReply::call("c1", "count", json!({})), "Done.".into()]);
    let agent = agent.with_tool(ScriptedTool::new("count", |_, ctx| async move {
        ctx.on_update(ToolResult::text("1"));
        ctx.on_update(ToolResult::text("2"));
        Ok(ToolResult::text("3"))
    }));
    let events = run(&agent, "Count.").await;
    let kinds = kinds(&events);
    let from = kinds.iter().position(|k| k == "tool_execution_start").unwrap();
    assert_eq!(
        &kinds[from..from + 7],
        [
            "tool_execution_start",
            "tool_execution_update",
            "tool_execution_update",
            "tool_execution_end",
            "message_start",
            "message_end",
            "turn_end"
        ]
    );
    assert_well_formed(&events);
}

/// B-006, REQ-161.
#[tokio::test]
async fn however_a_run_ends_it_has_one_end_and_one_start_unless_it_was_vetoed() {
    let call = || ScriptedReply::call("c1", "look", json!({}));
    let cases: Vec<(&str, Vec<ScriptedReply>, Hooks)> = vec![
        ("completed", vec!["ok".into()], Hooks::new()),
        ("error", vec![ScriptedReply::error(ErrorKind::Auth, "no key")], Hooks::new()),
        ("error", vec![ScriptedReply::text("half").failing(ErrorKind::Api, "broken")], Hooks::new()),
        ("vetoed", vec![], Hooks::new().before_loop(|_| async { false })),
        ("turn_vetoed", vec![], Hooks::new().before_turn(|_| async { false })),
        ("turn_vetoed", vec![call()], Hooks::new().before_turn(|t| async move { t.index == 0 })),
        ("input_rejected", vec![], Hooks::new().input_filter(|_: &str| FilterResult::Reject("no".into()))),
        ("limit", vec![call(), call()], Hooks::new()),
    ];
    for (expect, replies, hooks) in cases {
        let (agent, _) = agent(replies);
        let agent = agent
            .with_hooks(hooks)
            .with_tool(ScriptedTool::saying("look", "nothing"))
            .with_execution_limits(ExecutionLimits::default().with_max_turns(2));
        let events = run(&agent, "Hi").await;
        let text = transcript(&events);
        assert_well_formed(&events);
        assert!(text.ends_with(&format!("agent_end({expect})")), "{expect}: {text}");
        let count = |kind: &str| kinds(&events).iter().filter(|k| *k == kind).count();
        assert_eq!(count("agent_end"), 1, "{text}");
        assert_eq!(count("agent_start"), usize::from(expect != "vetoed"), "{text}");
        if expect == "vetoed" {
            assert_eq!(kinds(&events), ["agent_end"]);
        }
    }
}

/// B-007, REQ-036.
#[tokio::test]
async fn the_messages_of_the_end_are_the_prompts_and_all_that_followed() {
    let (agent, _) = agent([ScriptedReply::call("c1", "look", json!({})), "Found.".into(), "Bye.".into()]);
    let agent = agent.with_tool(ScriptedTool::saying("look", "a key"));
    run(&agent, "Look.").await;
    let events = run(&agent, "Again.").await;
    let Some(AgentEvent::AgentEnd(end)) = events.last() else { panic!("no end") };
    assert_eq!(shown_refs(end.messages.in_memory()), "user(Again.) assistant(Bye.)");
    let ended: Vec<_> = events
        .iter()
        .filter_map(|e| match e {
            AgentEvent::MessageEnd { message, superseded: false, .. } => Some(message.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(end.messages.all(), Some(&*ended));
}

/// B-009.
#[tokio::test]
async fn the_results_of_a_turn_are_in_the_order_of_the_calls_and_not_of_their_ends() {
    let reply = ScriptedReply::new().and_call("c1", "slow", json!({})).and_call("c2", "fast", json!({}));
    let (agent, _) = agent([reply, "Done.".into()]);
    let fast_is_done = Latch::new();
    let held = fast_is_done.clone();
    let agent = agent
        .with_tool(ScriptedTool::new("slow", move |_, _| {
            let held = held.clone();
            async move {
                held.wait().await;
                Ok(ToolResult::text("slow"))
            }
        }))
        .with_tool(ScriptedTool::saying("fast", "fast"));
    let _listening = agent.subscribe(move |event| {
        if matches!(event, AgentEvent::ToolExecutionEnd(end) if end.tool_call_id == "c2") {
            fast_is_done.open();
        }
    });
    let events = run(&agent, "Go.").await;
    assert_eq!(
        transcript(&events),
        "agent_start turn_start user assistant() tool+(c1) tool+(c2) tool-(c2) tool-(c1) result(c1) result(c2) \
         turn_end turn_start assistant(Done.) turn_end agent_end(completed)"
    );
    let results = events.iter().find_map(|e| match e {
        AgentEvent::TurnEnd { tool_results, .. } if !tool_results.is_empty() => {
            Some(shown_refs(tool_results))
        }
        _ => None,
    });
    assert_eq!(results.as_deref(), Some("result(c1) result(c2)"));
}

/// B-010, REQ-039.
#[tokio::test]
async fn each_delta_of_text_thinking_and_arguments_is_one_update_and_a_block_border_is_none() {
    let reply = ScriptedReply::new()
        .and_thinking("hmm", Some("sig"))
        .and_text("abcd")
        .and_call("c1", "look", json!({"a": 1}))
        .in_pieces_of(2);
    let (agent, _) = agent([reply, "ok".into()]);
    let agent = agent.with_tool(ScriptedTool::saying("look", "x"));
    let events = run(&agent, "Hi").await;
    let deltas: Vec<_> = events
        .iter()
        .filter_map(|e| match e {
            AgentEvent::MessageUpdate { content_index, delta, .. } => Some((*content_index, delta.clone())),
            _ => None,
        })
        .take_while(|(index, delta)| *index > 0 || matches!(delta, StreamDelta::Thinking { .. }))
        .collect();
    let text = |delta: &str| StreamDelta::Text { text: delta.into() };
    let arguments = |delta: &str| StreamDelta::ToolCallDelta { text: delta.into() };
    assert_eq!(
        deltas,
        [
            (0, StreamDelta::Thinking { text: "hmm".into() }),
            (1, text("ab")),
            (1, text("cd")),
            (2, arguments("{\"")),
            (2, arguments("a\"")),
            (2, arguments(":1")),
            (2, arguments("}")),
        ]
    );
}

/// B-011.
#[tokio::test]
async fn deltas_of_every_kind_before_the_start_are_in_the_reply_and_in_no_update() {
    use OwnedStreamEvent::{BlockEnd, Start, TextDelta, ThinkingDelta, ToolCallDelta, ToolCallStart};
    let early = || {
        ScriptedReply::new()
            .without_start()
            .and_event(ThinkingDelta { index: 0, delta: "hm".into() })
            .and_event(TextDelta { index: 1, delta: "early ".into() })
            .and_event(ToolCallStart { index: 2, id: "c1".into(), name: "look".into() })
            .and_event(ToolCallDelta { index: 2, delta: "{\"at\"".into() })
    };
    let late = |reply: ScriptedReply| {
        reply
            .and_event(TextDelta { index: 1, delta: "late".into() })
            .and_event(ToolCallDelta { index: 2, delta: ":1}".into() })
            .and_event(BlockEnd { index: 2 })
    };
    let started = late(early().and_event(Start { response_id: None, model: None }));
    for (reply, expect) in [(started, ["early late/late", "early late/:1}"].as_slice()), (late(early()), &[])]
    {
        let (agent, _) = agent([reply, "done".into()]);
        let tool = ScriptedTool::saying("look", "ok");
        let agent = agent.with_tool(tool.clone());
        let handle = agent.handle();
        let arriving = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&arriving);
        agent.subscribe(move |event| {
            if matches!(event, AgentEvent::TurnStart { .. } | AgentEvent::MessageUpdate { .. }) {
                heard.lock().unwrap().push(handle.state().stream_message.map(|m| m.text()));
            }
        });
        let events = run(&agent, "Hi").await;
        assert_well_formed(&events);
        let updates: Vec<String> = events
            .iter()
            .filter_map(|e| match e {
                AgentEvent::MessageUpdate {
                    message,
                    delta: StreamDelta::Text { text } | StreamDelta::ToolCallDelta { text },
                    ..
                } => Some(format!("{}/{text}", message.text())),
                _ => None,
            })
            .filter(|update| !update.ends_with("/done"))
            .collect();
        assert_eq!(updates, expect);
        assert_eq!(
            transcript(&events),
            "agent_start turn_start user assistant(early late) tool+(c1) tool-(c1) result(c1) turn_end \
             turn_start assistant(done) turn_end agent_end(completed)"
        );
        assert_eq!(tool.calls(), [json!({"at": 1})], "nothing that came early is lost");
        let messages = agent.messages();
        let reply = messages[1].as_llm().unwrap().as_assistant().unwrap();
        assert_eq!(reply.content[0], Content::thinking("hm", None));
        assert_eq!(arriving.lock().unwrap()[0], None, "nothing is arriving before the start");
    }
}

#[tokio::test]
async fn a_delta_before_the_start_is_not_shown_and_breaks_nothing() {
    let late_start = ScriptedReply::new()
        .without_start()
        .and_event(OwnedStreamEvent::TextDelta { index: 0, delta: "early ".into() })
        .and_event(OwnedStreamEvent::Start { response_id: None, model: None })
        .and_event(OwnedStreamEvent::TextDelta { index: 0, delta: "late".into() });
    let (agent, _) = agent([late_start]);
    let events = run(&agent, "Hi").await;
    assert_well_formed(&events);
    let updates: Vec<_> = events
        .iter()
        .filter_map(|e| match e {
            AgentEvent::MessageUpdate { delta: StreamDelta::Text { text: delta }, .. } => {
                Some(delta.as_str())
            }
            _ => None,
        })
        .collect();
    assert_eq!(updates, ["late"]);
    assert!(transcript(&events).ends_with("turn_end agent_end(completed)"));
}

/// B-012.
#[tokio::test]
async fn the_message_of_an_update_does_not_change_when_more_arrives() {
    let (agent, _) = agent([ScriptedReply::text("The answer is four.").in_pieces_of(2)]);
    let events = run(&agent, "2+2?").await;
    let mut so_far = String::new();
    let mut updates = 0;
    for event in &events {
        if let AgentEvent::MessageUpdate { message, delta: StreamDelta::Text { text: delta }, .. } = event {
            so_far.push_str(delta);
            updates += 1;
            assert_eq!(message.text(), so_far, "read after the run, the snapshot is what it was");
            assert_eq!(message.to_message().text(), so_far);
        }
    }
    assert_eq!((updates, so_far.as_str()), (10, "The answer is four."));
}

/// B-013.
#[tokio::test]
async fn calls_of_a_reply_that_failed_are_not_run() {
    let broken = ScriptedReply::call("c1", "look", json!({})).failing(ErrorKind::Api, "the stream broke");
    let (agent, model) = agent([broken]);
    let tool = ScriptedTool::saying("look", "x");
    let agent = agent.with_tool(tool.clone());
    let events = run(&agent, "Hi").await;
    assert_eq!(transcript(&events), "agent_start turn_start user assistant!() turn_end agent_end(error)");
    assert!(tool.calls().is_empty());
    assert_eq!(model.requests().len(), 1);
    let results = events.iter().find_map(|e| match e {
        AgentEvent::TurnEnd { tool_results, .. } => Some(tool_results.len()),
        _ => None,
    });
    assert_eq!(results, Some(0));
}

/// B-014.
#[tokio::test]
async fn the_start_of_a_call_shows_what_the_model_sent_and_the_tool_gets_what_was_made_of_it() {
    let (agent, _) = agent([ScriptedReply::call("c1", "wait", json!({"seconds": "42"})), "ok".into()]);
    let tool = ScriptedTool::saying("wait", "done").with_schema(json!({
        "type": "object", "properties": {"seconds": {"type": "integer"}}, "required": ["seconds"]
    }));
    let agent = agent.with_tool(tool.clone());
    let events = run(&agent, "Wait.").await;
    let args = events.iter().find_map(|e| match e {
        AgentEvent::ToolExecutionStart { args, .. } => Some(args.value().unwrap().clone()),
        _ => None,
    });
    assert_eq!(args, Some(json!({"seconds": "42"})));
    assert_eq!(tool.calls(), [json!({"seconds": 42})]);
}

/// B-015.
#[tokio::test]
async fn a_result_message_says_all_that_is_known_of_the_call() {
    let (agent, _) = agent([ScriptedReply::call("c1", "look", json!({})), "ok".into()]);
    let clock = agent_core::testing::ManualEnvironment::at(1_000);
    let advanced = clock.clone();
    let agent = agent.with_environment(Arc::new(clock)).with_tool(ScriptedTool::new("look", move |_, _| {
        let clock = advanced.clone();
        async move {
            clock.advance(std::time::Duration::from_millis(7));
            Ok(ToolResult::text("nothing").with_details(json!({"places": 3})).failed())
        }
    }));
    let events = run(&agent, "Look.").await;
    let result = events.iter().find_map(|e| match e {
        AgentEvent::MessageEnd { message, .. } => message.as_llm().and_then(Message::as_tool_result),
        _ => None,
    });
    let result = result.expect("there is a result message");
    assert_eq!((result.tool_call_id.as_str(), result.tool_name.as_str()), ("c1", "look"));
    assert_eq!(*result.content, [Content::text("nothing")]);
    assert_eq!(result.details, json!({"places": 3}));
    assert!(result.is_error);
    assert_eq!((result.timestamp.0, result.duration_ms), (1_007, Some(7)));
}

/// B-016.
#[tokio::test]
async fn each_turn_that_began_ends_also_where_something_panics() {
    let call = || ScriptedReply::call("c1", "look", json!({}));
    let fine = || ScriptedTool::saying("look", "x");
    let boom = || ScriptedTool::new("look", |_, _| async { panic!("boom") });
    let cases: Vec<(&str, Vec<ScriptedReply>, Hooks, ScriptedTool)> = vec![
        ("model", vec![ScriptedReply::text("half").and_panic("boom")], Hooks::new(), fine()),
        ("model at once", vec![ScriptedReply::new().without_start().and_panic("boom")], Hooks::new(), fine()),
        ("tool", vec![call(), "ok".into()], Hooks::new(), boom()),
        ("transform", vec![], Hooks::new().transform_context(|_| async { panic!("boom") }), fine()),
        (
            "before_turn",
            vec![call()],
            Hooks::new().before_turn(|t| async move {
                assert!(t.index == 0, "boom");
                true
            }),
            fine(),
        ),
        ("after_turn", vec!["ok".into()], Hooks::new().after_turn(|_| panic!("boom")), fine()),
        (
            "on_error",
            vec![ScriptedReply::error(ErrorKind::Api, "no")],
            Hooks::new().on_error(|_| panic!("boom")),
            fine(),
        ),
        ("after_loop", vec!["ok".into()], Hooks::new().after_loop(|_| panic!("boom")), fine()),
        (
            "after_tool",
            vec![call(), "ok".into()],
            Hooks::new().after_tool(|end| async move { assert!(end.call.id != "c1", "boom") }),
            fine(),
        ),
    ];
    for (name, replies, hooks, tool) in cases {
        let (agent, _) = agent(replies);
        let agent = agent.with_hooks(hooks).with_tool(tool).with_retry_config(RetryConfig::none());
        let events = run(&agent, "Hi").await;
        let text = transcript(&events);
        assert_well_formed(&events);
        let count = |kind: &str| kinds(&events).iter().filter(|k| *k == kind).count();
        assert!(count("turn_start") >= 1, "{name}: {text}");
        assert_eq!(count("turn_start"), count("turn_end"), "{name}: {text}");
        assert!(!agent.is_streaming(), "{name}: the agent is idle again");
    }
}

/// B-016, B-006.
#[tokio::test]
async fn a_listener_that_panics_ends_the_run_with_all_its_closing_events() {
    for (at, nth) in
        [("message_end", 0), ("message_start", 1), ("message_update", 0), ("tool_execution_start", 0)]
    {
        let reply = ScriptedReply::text("Let me look.").and_call("c1", "look", json!({}));
        let (agent, _) = agent([reply, "ok".into(), "fine".into()]);
        let agent = agent.with_tool(ScriptedTool::saying("look", "x"));
        let seen = Mutex::new(0);
        let listening = agent.subscribe(move |event| {
            if runs::kind(event) == at {
                let mut seen = seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                *seen += 1;
                assert!(*seen != nth + 1, "boom");
            }
        });
        let events = run(&agent, "Hi").await;
        assert_well_formed(&events);
        let text = transcript(&events);
        assert!(text.ends_with("turn_end agent_end(interrupted)"), "{at}: {text}");
        listening.unsubscribe();
        assert!(transcript(&run(&agent, "Again").await).ends_with("agent_end(completed)"), "usable again");
    }
}

/// B-016.
#[tokio::test]
async fn what_had_arrived_of_a_reply_is_kept_when_a_listener_breaks_the_run() {
    let (agent, _) = agent([ScriptedReply::text("Half a word").in_pieces_of(4)]);
    let seen = Mutex::new(0);
    let _listening = agent.subscribe(move |event| {
        if matches!(event, AgentEvent::MessageUpdate { .. }) {
            let mut seen = seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            *seen += 1;
            assert!(*seen != 2, "boom");
        }
    });
    let events = run(&agent, "Hi").await;
    assert_eq!(
        transcript(&events),
        "agent_start turn_start user assistant!(Half a w) turn_end agent_end(interrupted)"
    );
    let last = agent.messages().last().cloned().unwrap();
    let reply = last.as_llm().and_then(Message::as_assistant).unwrap().clone();
    assert_eq!((reply.stop_reason, reply.text().as_str()), (StopReason::Aborted, "Half a w"));
}

/// B-016, B-006.
#[tokio::test]
async fn the_end_of_a_run_that_a_listener_broke_is_heard_by_all_others_and_written_down() {
    let journal = Arc::new(runs::Writing::default());
    let (agent, _) = agent(["ok"]);
    let agent = agent.with_journal(Arc::clone(&journal) as Arc<dyn agent_core::journal::Journal>);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hearing = Arc::clone(&heard);
    let _breaking =
        agent.subscribe(|event| assert!(!matches!(event, AgentEvent::MessageUpdate { .. }), "boom"));
    let _listening = agent.subscribe_async(move |event| {
        let hearing = Arc::clone(&hearing);
        async move {
            tokio::task::yield_now().await;
            hearing.lock().unwrap().push(event);
        }
    });
    let events = run(&agent, "Hi").await;
    assert!(transcript(&events).ends_with("turn_end agent_end(interrupted)"));
    assert_eq!(*heard.lock().unwrap(), events);
    assert_eq!(journal.0.lock().unwrap().last().map(String::as_str), Some("agent_end"));
}

/// REQ-182, B-006.
#[tokio::test]
async fn before_loop_comes_before_the_start_and_after_loop_once_after_the_end_with_messages_and_usage() {
    for (veto, expect) in [(false, "agent_end(completed)"), (true, "agent_end(vetoed)")] {
        let usage = Usage::new(100, 20, 0, 0);
        let call = ScriptedReply::call("c1", "look", json!({})).using(usage);
        let (agent, model) = agent([call, ScriptedReply::text("ok").using(usage)]);
        let notes = Arc::new(Mutex::new(Vec::new()));
        let (first, second, third) = (Arc::clone(&notes), Arc::clone(&notes), Arc::clone(&notes));
        let hooks = Hooks::new()
            .before_loop(move |_| {
                first.lock().unwrap().push("before_loop".to_owned());
                async move { !veto }
            })
            .after_loop(move |end| {
                let (messages, tokens) = (shown_refs(end.messages.in_memory()), end.usage.total_tokens);
                second.lock().unwrap().push(format!("after_loop {messages} {tokens}"));
            });
        let agent = agent.with_hooks(hooks).with_tool(ScriptedTool::saying("look", "x"));
        let _listening = agent.subscribe(move |event| {
            if matches!(event, AgentEvent::AgentStart(_) | AgentEvent::AgentEnd(_)) {
                third.lock().unwrap().push(runs::kind(event));
            }
        });
        let events = run(&agent, "Hi").await;
        assert!(transcript(&events).ends_with(expect));
        let after = "after_loop user(Hi) assistant() result(c1) assistant(ok) 240";
        let all: &[&str] = if veto {
            &["before_loop", "agent_end"]
        } else {
            &["before_loop", "agent_start", "agent_end", after]
        };
        assert_eq!(*notes.lock().unwrap(), all);
        assert_eq!(model.requests().len(), if veto { 0 } else { 2 });
    }
}

/// The JSON of all events of a run with a call, as a subscriber writes it to a wire.
#[tokio::test]
async fn the_events_of_a_run_have_this_json() {
    let reply = ScriptedReply::new().and_thinking("Hm.", None).and_call("c1", "look", json!({"at": "door"}));
    let (agent, _) = agent([reply, ScriptedReply::text("Found.").in_pieces_of(3)]);
    let agent = agent
        .with_agent_id("a")
        .with_session_id("s")
        .with_environment(Arc::new(agent_core::testing::ManualEnvironment::skipping(1_000)))
        .with_tool(ScriptedTool::saying("look", "a key"));
    let events = run(&agent, "Look.").await;
    let lines: Vec<String> = events.iter().map(|event| serde_json::to_string(event).unwrap()).collect();
    insta::assert_snapshot!("run", lines.join("\n"));
}
