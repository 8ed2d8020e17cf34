//! Those who listen to an agent.

use agent_core::compat::SeedVerbs as _;
use std::sync::{Arc, Mutex};

use agent_core::testing::{Latch, ScriptedReply, ScriptedTool, assert_well_formed, transcript};
use agent_core::{AgentEvent, QueueKind, RunEnd, RunFailure, Subscription};
use serde_json::json;

use crate::room::{Notes, agent, boxed, model, run};

/// B-071.
#[tokio::test]
async fn the_state_has_taken_an_event_in_before_a_listener_hears_of_it() {
    let model = model([ScriptedReply::call("a", "t", json!({})), "done".into()]);
    let agent = agent(&model).with_tools(boxed([ScriptedTool::saying("t", "ok")]));
    let notes = Notes::default();
    let (handle, heard) = (agent.clone(), notes.clone());
    agent.subscribe(move |event| {
        let state = handle.state();
        match event {
            AgentEvent::MessageEnd { message, .. } => {
                assert_eq!(state.messages.last(), Some(message));
                heard.add(message.role());
            }
            AgentEvent::ToolExecutionStart { tool_call_id, .. } => {
                assert!(state.pending_tool_calls.contains(tool_call_id));
                heard.add("start");
            }
            AgentEvent::ToolExecutionEnd(end) => {
                assert!(!state.pending_tool_calls.contains(&end.tool_call_id));
                heard.add("end");
            }
            _ => {}
        }
    });
    let events = run(&agent).await;
    assert!(
        transcript(&events).ends_with("agent_end(completed)"),
        "an assertion failed: {}",
        transcript(&events)
    );
    assert_eq!(notes.joined(), "user assistant start end toolResult assistant");
}

/// B-072.
#[tokio::test]
async fn listeners_hear_every_event_in_the_order_in_which_they_subscribed() {
    let agent = agent(&model(["hello".into()]));
    let notes = Notes::default();
    let (first, second, third) = (notes.clone(), notes.clone(), notes.clone());
    agent.subscribe(move |_| first.add("1"));
    agent.subscribe_async(move |_| {
        let second = second.clone();
        async move {
            tokio::task::yield_now().await;
            second.add("2");
        }
    });
    agent.subscribe(move |_| third.add("3"));
    let events = run(&agent).await;
    assert_eq!(notes.all().concat(), "123".repeat(events.len()));
}

/// B-073.
#[tokio::test]
async fn a_run_is_over_when_its_last_listener_has_heard_of_the_end() {
    let agent = agent(&model(["hello".into()]));
    let latch = Latch::new();
    let notes = Notes::default();
    let (hold, handle, heard) = (latch.clone(), agent.clone(), notes.clone());
    agent.subscribe_async(move |event| {
        let (hold, handle, heard) = (hold.clone(), handle.clone(), heard.clone());
        async move {
            if matches!(event, AgentEvent::AgentEnd(_)) {
                hold.wait().await;
                heard.add(format!("streaming: {}", handle.is_streaming()));
            }
        }
    });
    let events = agent.prompt("go").unwrap();
    let (waiter, heard) = (agent.clone(), notes.clone());
    let idle = tokio::spawn(async move {
        waiter.wait_for_idle().await;
        heard.add("idle");
    });
    latch.reached().await;
    assert!(agent.is_streaming() && !idle.is_finished());
    latch.open();
    idle.await.unwrap();
    assert_eq!(notes.joined(), "streaming: true idle");
    assert_well_formed(&events.collect().await);
}

/// B-074.
#[tokio::test]
async fn a_slow_listener_holds_up_the_tools_of_its_own_agent_only() {
    let call = || ScriptedReply::call("a", "t", json!({}));
    let (slow_tool, other_tool) = (ScriptedTool::saying("t", "ok"), ScriptedTool::saying("t", "ok"));
    let slow = agent(&model([call(), "done".into()])).with_tools(boxed([slow_tool.clone()]));
    let other = agent(&model([call(), "done".into()])).with_tools(boxed([other_tool.clone()]));
    let latch = Latch::new();
    let hold = latch.clone();
    slow.subscribe_async(move |event| {
        let hold = hold.clone();
        async move {
            if transcript(std::slice::from_ref(&event)) == "assistant()" {
                hold.wait().await;
            }
        }
    });
    let events = slow.prompt("go").unwrap();
    latch.reached().await;
    // Another agent runs its tools meanwhile, and this one does not.
    run(&other).await;
    assert_eq!((slow_tool.calls().len(), other_tool.calls().len()), (0, 1));
    latch.open();
    assert_well_formed(&events.collect().await);
    assert_eq!(slow_tool.calls().len(), 1);
}

/// B-074.
#[tokio::test]
async fn a_receiver_that_is_not_read_holds_up_no_tool() {
    let call = || ScriptedReply::call("a", "t", json!({}));
    let tool = ScriptedTool::saying("t", "ok");
    let (tx, unread) = agent_core::event_channel();
    let model_of_loop = model([call(), "done".into()]);
    let config =
        agent_core::AgentLoopConfig::system(Arc::new(model_of_loop), agent_core::ModelConfig::default());
    let mut context = agent_core::AgentContext::new("").with_tools(boxed([tool.clone()]));
    let cancel = agent_core::CancellationToken::new();
    agent_core::agent_loop(vec!["go".into()], &mut context, &config, tx, cancel).await.unwrap();
    assert_eq!(tool.calls().len(), 1, "the loop has ended and no event was read");
    let events = unread.collect().await;
    assert_well_formed(&events);

    let agent = agent(&model([call(), "done".into()])).with_tools(boxed([tool.clone()]));
    let unread = agent.prompt("go").unwrap();
    agent.wait_for_idle().await;
    assert_eq!(tool.calls().len(), 2);
    assert_eq!(transcript(&unread.collect().await), transcript(&events));
}

#[tokio::test]
async fn tools_are_prepared_when_a_slow_listener_has_heard_of_the_reply() {
    let model = model([ScriptedReply::call("a", "t", json!({})), "done".into()]);
    let notes = Notes::default();
    let (asked, heard) = (notes.clone(), notes.clone());
    let hooks = agent_core::Hooks::new().before_tool(move |_| {
        asked.add("prepared");
        async { true }
    });
    let agent = agent(&model).with_tools(boxed([ScriptedTool::saying("t", "ok")])).with_hooks(hooks);
    agent.subscribe_async(move |event| {
        let heard = heard.clone();
        async move {
            if transcript(std::slice::from_ref(&event)) == "assistant()" {
                for _ in 0..20 {
                    tokio::task::yield_now().await;
                }
                heard.add("heard");
            }
        }
    });
    run(&agent).await;
    assert_eq!(notes.joined(), "heard prepared");
}

/// B-075.
#[tokio::test]
async fn a_listener_may_unsubscribe_itself_and_the_others_hear_on() {
    let agent = agent(&model(["hello".into()]));
    let notes = Notes::default();
    let place: Arc<Mutex<Option<Subscription>>> = Arc::default();
    let (mine, first, second) = (Arc::clone(&place), notes.clone(), notes.clone());
    let subscription = agent.subscribe(move |_| {
        first.add("1");
        if let Some(me) = mine.lock().unwrap().take() {
            me.unsubscribe();
        }
    });
    *place.lock().unwrap() = Some(subscription);
    agent.subscribe(move |_| second.add("2"));
    let events = run(&agent).await;
    assert_eq!(notes.all().concat(), format!("1{}", "2".repeat(events.len())));
}

/// B-076.
#[tokio::test]
async fn nothing_is_heard_but_runs() {
    let mut agent = agent(&model(["hello".into()]));
    let notes = Notes::default();
    let heard = notes.clone();
    agent.subscribe(move |_| heard.add("event"));
    agent.set_system_prompt("other");
    agent.set_tools(Vec::new());
    agent.append_message("before").unwrap();
    agent.steer("later");
    agent.clear_all_queues();
    agent.clear_messages().unwrap();
    agent.reset().await;
    assert_eq!(notes.all(), Vec::<String>::new());
    let events = run(&agent).await;
    assert_eq!(notes.all().len(), events.len());
}

/// B-083.
#[tokio::test]
async fn a_panicking_listener_ends_the_run_and_the_agent_can_be_used_again() {
    let model = model(["hello".into(), "again".into()]);
    let agent = agent(&model);
    let notes = Notes::default();
    let heard = notes.clone();
    let bad = agent.subscribe(|event| {
        if matches!(event, AgentEvent::TurnStart { .. }) {
            panic!("out of ink");
        }
    });
    agent.subscribe(move |e| heard.add(transcript(std::slice::from_ref(e))));
    let events = run(&agent).await;
    let Some(RunEnd::Failed(RunFailure::Interrupted { reason })) = agent.finish().await else {
        panic!("{}", transcript(&events))
    };
    assert!(reason.contains("out of ink"), "{reason}");
    assert!(agent.error_message().unwrap().contains("out of ink"));
    assert!(notes.joined().ends_with("agent_end(interrupted)"), "the others hear of the end");
    bad.unsubscribe();
    assert_eq!(agent.chat("again").await.unwrap(), "hello");
}

/// What comes after the last look at the queues is for the next run, and is not lost.
#[tokio::test]
async fn a_message_that_is_queued_when_the_end_is_told_waits_for_the_next_run() {
    let agent = agent(&model(["hello".into()]));
    let handle = agent.clone();
    agent.subscribe(move |event| {
        if matches!(event, AgentEvent::AgentEnd(_)) {
            handle.follow_up("one more thing");
            handle.steer("and look there");
        }
    });
    run(&agent).await;
    assert_eq!(agent.queued_messages(QueueKind::FollowUp).len(), 1);
    assert_eq!(agent.queued_messages(QueueKind::Steering).len(), 1);
}
