//! Child loops under unusual conditions: nesting, budgets, time, steering, aborts and the end of a process.
#![cfg(all(feature = "tools", feature = "session", feature = "testing"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

#[allow(dead_code, unreachable_pub, reason = "the driver of the guide, of which only a part is used")]
#[path = "../own_driver/driver.rs"]
mod driver;
mod engine;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use looptree::budget::{Budget, BudgetLimits, Spending};
use looptree::evaluation::BranchEnd;
use looptree::event::Ended;
use looptree::event::{AgentEnd, NumberedEvent};
use looptree::hooks::Hooks;
use looptree::identity::{LoopId, SessionId};
use looptree::journal::{GroupEntry, Journal, JournalEntry, JournalError, RecordedLoop};
use looptree::message::AgentMessage;
use looptree::model::ApiProtocol;
use looptree::prelude::*;
use looptree::run::{GRACE, SteeringPolicy};
use looptree::testing::{
    Latch, ManualEnvironment, ScriptedProvider, ScriptedReply, ScriptedTool, assert_well_formed, transcript,
};
use looptree::tools::SubAgentTool;
use looptree::{Message, Timestamp, Usage, Verdict};
use serde_json::json;

fn model(id: &str) -> ModelConfig {
    ModelConfig::new(ApiProtocol::AnthropicMessages, "p", id)
}

fn usage(tokens: u64) -> Usage {
    let mut usage = Usage::default();
    usage.input = tokens;
    usage
}

/// A model that calls `first` once and then says "done"; the boss makes the given calls.
fn world(calls: &'static [(&'static str, &'static str)]) -> ScriptedProvider {
    ScriptedProvider::responding(move |request| {
        let said = request.messages().count();
        let first = request.messages().next().map(Message::text).unwrap_or_default();
        match (request.model.id.as_str(), said) {
            ("boss", 1) => calls
                .iter()
                .fold(ScriptedReply::new(), |reply, (id, task)| {
                    let name = if *task == "long" { "long" } else { "helper" };
                    reply.and_call(id, name, json!({"task": task}))
                })
                .using(usage(1_000)),
            ("boss", _) => ScriptedReply::text("all done").using(usage(2_000)),
            ("middle", 1) => ScriptedReply::call("b", "helper", json!({"task": "deep"})).using(usage(50)),
            ("middle", _) => ScriptedReply::text("middle done").using(usage(60)),
            (_, 1) => ScriptedReply::call("k", "work", json!({"on": first})).using(usage(5)),
            (_, _) => ScriptedReply::text(format!("{first} done")).using(usage(7)),
        }
    })
}

fn asking() -> ScriptedTool {
    ScriptedTool::saying("work", "worked").asking("Work now?")
}

fn helper(work: ScriptedTool) -> SubAgentTool {
    SubAgentTool::new("helper", model("small")).with_tool(work)
}

fn boss(provider: &ScriptedProvider, tool: SubAgentTool) -> BasicAgent {
    looptree::agent(model("boss")).with_provider(provider.clone()).with_tool(tool)
}

fn ids(agent: &BasicAgent) -> Vec<String> {
    agent.questions().iter().map(|q| q.id.to_string()).collect()
}

fn texts(agent: &BasicAgent) -> Vec<String> {
    agent.history().llm_messages().map(Message::text).collect()
}

/// The end of the root loop.
fn end_of(events: &[NumberedEvent]) -> AgentEnd {
    let end = events.iter().rev().find_map(|e| match &e.event {
        AgentEvent::AgentEnd(end) if e.depth == 0 => Some((**end).clone()),
        _ => None,
    });
    end.expect("the root ends")
}

/// REQ-148. A grandchild asks; the question is answered at the root, in memory and from another process.
#[tokio::test]
async fn a_question_of_a_grandchild_is_answered_at_the_root() {
    let nested = || SubAgentTool::new("helper", model("middle")).with_tool(helper(asking()));
    let agent = boss(&world(&[("a", "wide")]), nested());
    let events = agent.prompt("go").unwrap().collect_numbered().await;
    assert_eq!(ids(&agent), ["a/b/k"]);
    assert!(events.iter().any(|e| e.depth == 2), "the events of the grandchild are in the stream");
    let events = agent.answer("a/b/k", Answer::Allow).unwrap().collect_numbered().await;
    assert_eq!(end_of(&events).ended, Ended::Completed);
    assert_eq!(texts(&agent), ["go", "", "middle done", "all done"]);
    // 50 + 60 of the middle, 5 + 7 of the grandchild.
    assert_eq!(end_of(&events).tool_usage.input, 122);
    assert_eq!(end_of(&events).usage.input, 3_000);

    let folder = tempfile::tempdir().unwrap();
    let store = JsonStore::open(folder.path()).unwrap();
    let mut agent = boss(&world(&[("a", "wide")]), nested());
    let recorder = SessionRecorder::attach(&mut agent, store.clone());
    agent.prompt("go").unwrap().collect().await;
    let id = agent.session_id();
    recorder.close().await.unwrap();
    drop((agent, recorder));
    assert_eq!(store.unfinished().await.unwrap().waiting().len(), 1);
    store.answer(&id, "a/b/k", Answer::Allow, Timestamp(1)).await.unwrap();
    let provider = world(&[("a", "wide")]);
    let (agent, recorder) =
        boss(&provider, nested()).restore_session(store.clone(), id.as_str()).await.unwrap();
    let events = agent.resume().unwrap().collect_numbered().await;
    assert_eq!(end_of(&events).ended, Ended::Completed);
    assert_eq!(end_of(&events).tool_usage.input, 122);
    assert_eq!(provider.requests().len(), 3, "one request of each loop");
    recorder.close().await.unwrap();
    assert_eq!(store.list_session_ids().unwrap().len(), 3);
}

fn amounts(spending: &Spending) -> (u64, u64, u64) {
    (spending.tokens, spending.model_calls, spending.tool_calls)
}

fn wide_budget() -> Budget {
    Budget::new(BudgetLimits::none().with_tokens(10_000_000).with_model_calls(100).with_tool_calls(100))
}

/// REQ-151. What children spend is counted once, whether they are suspended or not, in memory, with a journal and in
/// another process.
#[tokio::test]
async fn the_spending_of_children_is_counted_once() {
    let calls: &[_] = &[("a", "paint"), ("b", "sing")];
    let budget = wide_budget();
    let straight = ScriptedTool::saying("work", "worked");
    let agent = boss(&world(calls), helper(straight)).with_budget(budget.clone());
    let end = end_of(&agent.prompt("go").unwrap().collect_numbered().await);
    let expected = amounts(end.spent.as_deref().unwrap());
    assert_eq!(expected, (3_024, 6, 4));
    assert_eq!(amounts(&budget.spent()), expected);
    assert_eq!(end.tool_usage.input, 24);

    for is_recorded in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let budget = wide_budget();
        let mut agent = boss(&world(calls), helper(asking())).with_budget(budget.clone());
        let _recorder =
            is_recorded.then(|| SessionRecorder::attach(&mut agent, JsonStore::open(folder.path()).unwrap()));
        agent.prompt("go").unwrap().collect().await;
        agent.answer("b/k", Answer::Allow).unwrap().collect().await;
        let events = agent.answer("a/k", Answer::Allow).unwrap().collect_numbered().await;
        let end = end_of(&events);
        assert_eq!(amounts(end.spent.as_deref().unwrap()), expected, "recorded: {is_recorded}");
        assert_eq!(amounts(&budget.spent()), expected, "recorded: {is_recorded}");
        assert_eq!(budget.reserved(), Spending::default());
        assert_eq!(end.tool_usage.input, 24);
    }

    let folder = tempfile::tempdir().unwrap();
    let store = JsonStore::open(folder.path()).unwrap();
    let mut agent = boss(&world(calls), helper(asking())).with_budget(wide_budget());
    let recorder = SessionRecorder::attach(&mut agent, store.clone());
    agent.prompt("go").unwrap().collect().await;
    let id = agent.session_id();
    recorder.close().await.unwrap();
    drop((agent, recorder));
    for (question, is_last) in [("b/k", false), ("a/k", true)] {
        let budget = wide_budget();
        let agent = boss(&world(calls), helper(asking())).with_budget(budget.clone());
        let (agent, recorder) = agent.restore_session(store.clone(), id.as_str()).await.unwrap();
        let events = agent.answer(question, Answer::Allow).unwrap().collect_numbered().await;
        if is_last {
            let end = end_of(&events);
            assert_eq!(amounts(end.spent.as_deref().unwrap()), expected);
            assert_eq!(amounts(&budget.spent()), expected);
            assert_eq!(end.tool_usage.input, 24);
        }
        recorder.close().await.unwrap();
    }
}

/// A journal that stops the process at the n-th record, after it is written.
#[derive(Debug)]
struct Fuse {
    inner: Arc<dyn Journal>,
    left: AtomicUsize,
    burnt: tokio::sync::Notify,
}

#[async_trait::async_trait]
impl Journal for Fuse {
    async fn append(&self, entry: JournalEntry<'_>) -> Result<(), JournalError> {
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        if left.is_err() {
            std::future::pending::<()>().await;
        }
        self.inner.append(entry).await?;
        if left == Ok(1) {
            self.burnt.notify_one();
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    async fn append_group(&self, entry: GroupEntry<'_>) -> Result<(), JournalError> {
        self.inner.append_group(entry).await
    }

    async fn recorded_loop(&self, session: &SessionId, id: &LoopId) -> Result<RecordedLoop, JournalError> {
        self.inner.recorded_loop(session, id).await
    }
}

fn with_fuse(agent: BasicAgent, n: usize) -> (BasicAgent, Arc<Fuse>) {
    let mut fuse = None;
    let agent = agent.configure(|c| {
        let (inner, left) = (c.services.journal.take().unwrap(), AtomicUsize::new(n));
        let new = Arc::new(Fuse { inner, left, burnt: tokio::sync::Notify::new() });
        c.services.journal = Some(new.clone());
        fuse = Some(new);
    });
    (agent, fuse.unwrap())
}

/// Runs `work` in a runtime that ends with everything in it.
fn in_process<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let result = runtime.block_on(work);
    runtime.shutdown_timeout(Duration::from_secs(5));
    result
}

/// REQ-151, REQ-178. The process ends after each record of a caller whose child asks once. Spending and tokens of the whole
/// run are the same as without an interruption.
#[test]
fn the_spending_of_a_child_is_counted_once_whenever_the_process_ends() {
    let calls: &[_] = &[("a", "paint")];
    let tool = || asking().with_effects(Effects::Idempotent);
    let mut wrong = Vec::new();
    let mut cuts = 0;
    for n in 1.. {
        let folder = tempfile::tempdir().unwrap();
        let store = JsonStore::open(folder.path()).unwrap();
        let (id, was_cut) = in_process(async {
            let mut agent = boss(&world(calls), helper(tool())).with_budget(wide_budget());
            let _recorder = SessionRecorder::attach(&mut agent, store.clone());
            let (agent, fuse) = with_fuse(agent, n);
            let work = async {
                let mut events = agent.prompt("go").unwrap();
                let _ = events.end().await;
                let _ = agent.answer("a/k", Answer::Allow).unwrap().end().await;
            };
            let was_cut = tokio::select! {
                biased;
                () = fuse.burnt.notified() => true,
                () = work => false,
            };
            (agent.session_id(), was_cut)
        });
        if !was_cut {
            break;
        }
        cuts += 1;
        in_process(async {
            if store.load_session(id.as_str()).is_err() {
                return;
            }
            let budget = wide_budget();
            let agent = boss(&world(calls), helper(tool())).with_budget(budget.clone());
            let (agent, recorder) = agent.restore_session(store.clone(), id.as_str()).await.unwrap();
            let Ok(events) = agent.resume() else { return };
            let mut events = events.collect_numbered().await;
            while !agent.questions().is_empty() {
                let question = ids(&agent)[0].clone();
                events = agent.answer(question, Answer::Allow).unwrap().collect_numbered().await;
            }
            let end = end_of(&events);
            let spent = amounts(end.spent.as_deref().unwrap());
            let (account, tools) = (amounts(&budget.spent()), end.tool_usage.input);
            if (spent, account, tools) != ((3_012, 4, 2), (3_012, 4, 2), 12) {
                wrong.push(format!("cut after {n}: run {spent:?}, account {account:?}, tools {tools}"));
            }
            recorder.close().await.unwrap();
        });
    }
    assert!(cuts > 10, "{cuts}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// REQ-151. A child whose budget pauses is raised twice under the same question id, in memory and in other processes.
#[tokio::test]
async fn a_budget_of_a_child_is_raised_twice_in_a_row() {
    let calls: &[_] = &[("a", "paint")];
    let tool = || {
        helper(ScriptedTool::saying("work", "worked"))
            .with_budget(BudgetLimits::none().with_model_calls(1))
            .configure(|c| {
                let budget = c.services.budget.take();
                c.services.budget = budget.map(Budget::pausing);
            })
    };
    let none = Answer::Raise { by: Spending::of_tokens(5) };
    let one = Answer::Raise { by: Spending::of_model_calls(1) };
    let agent = boss(&world(calls), tool());
    agent.prompt("go").unwrap().collect().await;
    let asked = ids(&agent);
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asked[0].starts_with("a/budget-"), "{asked:?}");
    agent.answer(asked[0].clone(), none.clone()).unwrap().collect().await;
    assert_eq!(ids(&agent), asked, "the raise was not enough");
    let end = agent.answer(asked[0].clone(), one.clone()).unwrap().end().await;
    assert!(matches!(end, RunEnd::Completed(_)), "{end:?}");
    assert_eq!(texts(&agent)[2], "paint done");

    let folder = tempfile::tempdir().unwrap();
    let store = JsonStore::open(folder.path()).unwrap();
    let mut agent = boss(&world(calls), tool());
    let recorder = SessionRecorder::attach(&mut agent, store.clone());
    agent.prompt("go").unwrap().collect().await;
    let id = agent.session_id();
    recorder.close().await.unwrap();
    drop((agent, recorder));
    for answer in [none.clone(), none, one] {
        store.answer(&id, &*asked[0], answer, Timestamp(1)).await.unwrap();
        let agent = boss(&world(calls), tool());
        let (agent, recorder) = agent.restore_session(store.clone(), id.as_str()).await.unwrap();
        agent.resume().unwrap().collect().await;
        recorder.close().await.unwrap();
    }
    let session = store.load_session(id.as_str()).unwrap();
    assert!(session.open_run().unwrap().is_none());
    let said: Vec<String> = session.history().unwrap().llm_messages().map(Message::text).collect();
    assert_eq!(said, ["go", "", "paint done", "all done"]);
}

/// REQ-148. Two children ask while a third call runs long: the run is suspended when it has ended.
#[tokio::test]
async fn children_that_ask_wait_for_the_call_that_still_runs() {
    let latch = Latch::new();
    let l = latch.clone();
    let long = ScriptedTool::new("long", move |_, _| {
        let l = l.clone();
        async move {
            l.wait().await;
            Ok(ToolResult::text("long done"))
        }
    });
    let agent =
        boss(&world(&[("a", "paint"), ("b", "sing"), ("c", "long")]), helper(asking())).with_tool(long);
    let mut events = agent.prompt("go").unwrap();
    let mut asked = 0;
    while let Some(event) = events.recv().await {
        if matches!(event, AgentEvent::RunSuspended { .. }) {
            asked += 1;
            if asked == 2 {
                break;
            }
        }
    }
    let early = agent.answer("a/k", Answer::Allow);
    assert!(matches!(early, Err(looptree::AgentError::Busy)), "the run still has a call to wait for");
    latch.open();
    let end = events.end().await;
    assert!(matches!(end, RunEnd::Suspended(ref left) if left.len() == 2), "{end:?}");
    for id in ids(&agent) {
        agent.answer(id, Answer::Allow).unwrap().collect().await;
    }
    assert_eq!(texts(&agent), ["go", "", "paint done", "sing done", "long done", "all done"]);
}

/// REQ-148. Child A is answered and ends while child B still waits; a message of the user skips what waits.
#[tokio::test]
async fn steering_skips_a_child_that_waits() {
    let calls: &[_] = &[("a", "paint"), ("b", "sing")];
    for is_recorded in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let mut agent = boss(&world(calls), helper(asking()))
            .configure(|c| c.policy.steering_policy = SteeringPolicy::SkipRemaining);
        let _recorder =
            is_recorded.then(|| SessionRecorder::attach(&mut agent, JsonStore::open(folder.path()).unwrap()));
        let mut events = agent.prompt("go").unwrap().collect().await;
        agent.steer(AgentMessage::user("stop that"));
        events.extend(agent.answer("a/k", Answer::Allow).unwrap().collect().await);
        let root = events[0].loop_id().clone();
        let own: Vec<AgentEvent> = events.into_iter().filter(|e| *e.loop_id() == root).collect();
        assert_well_formed(&own);
        assert!(agent.questions().is_empty(), "{:?}", ids(&agent));
        let said = texts(&agent);
        assert_eq!(
            said[2..5],
            ["paint done", "Skipped due to queued user message.", "stop that"],
            "{said:?}"
        );
        assert!(agent.answer("b/k", Answer::Allow).is_err());
    }
}

async fn check_abort(name: &str, agent: BasicAgent, reached: &tokio::sync::Notify) {
    let mut events = agent.prompt("Hi").unwrap();
    let reached = tokio::time::timeout(Duration::from_secs(60), reached.notified()).await;
    assert!(reached.is_ok(), "{name} was never reached");
    let aborted = tokio::time::Instant::now();
    agent.abort();
    let mut all = Vec::new();
    while let Ok(Some(event)) = tokio::time::timeout(GRACE * 20, events.recv_numbered()).await {
        all.push(event);
    }
    let took = aborted.elapsed();
    let end = end_of(&all);
    assert_eq!(end.ended, Ended::Aborted, "{name}");
    assert!(took <= GRACE + Duration::from_millis(900), "{name}: {took:?}");
    let mut own: std::collections::BTreeMap<LoopId, Vec<AgentEvent>> = std::collections::BTreeMap::new();
    for event in all {
        own.entry(event.event.loop_id().clone()).or_default().push(event.event);
    }
    for (id, events) in own {
        assert!(
            matches!(events.last(), Some(AgentEvent::AgentEnd(_))),
            "{name}: {id} {}",
            transcript(&events)
        );
        assert_well_formed(&events);
    }
    let reset = tokio::time::timeout(GRACE + Duration::from_millis(900), agent.reset()).await;
    assert!(reset.is_ok(), "{name}: reset does not return");
    assert!(!agent.is_streaming() && agent.messages().is_empty(), "{name}");
}

/// REQ-161. An abort ends a caller while a tool, a hook or the model of its child or grandchild is pending.
#[tokio::test]
async fn an_abort_ends_a_caller_whose_child_is_pending() {
    for is_deep in [false, true] {
        let nest = |tool: SubAgentTool| {
            if is_deep { SubAgentTool::new("helper", model("middle")).with_tool(tool) } else { tool }
        };
        let reached = Arc::new(tokio::sync::Notify::new());
        let calls: &[_] = &[("a", "paint")];
        let r = reached.clone();
        let stuck = ScriptedTool::new("work", move |_, _| {
            r.notify_one();
            std::future::pending()
        });
        check_abort(
            &format!("a tool of a child, {is_deep}"),
            boss(&world(calls), nest(helper(stuck))),
            &reached,
        )
        .await;

        let r = reached.clone();
        let before_turn = helper(asking()).configure(move |c| {
            let r = r.clone();
            c.hooks = Hooks::new()
                .before_turn(move |_| {
                    r.notify_one();
                    std::future::pending::<Verdict>()
                })
                .into();
        });
        check_abort(
            &format!("a hook of a child, {is_deep}"),
            boss(&world(calls), nest(before_turn)),
            &reached,
        )
        .await;

        let r = reached.clone();
        let after = helper(ScriptedTool::saying("work", "worked")).configure(move |c| {
            let r = r.clone();
            c.hooks = Hooks::new()
                .after_tool(move |_| {
                    r.notify_one();
                    std::future::pending::<looptree::run::ToolChange>()
                })
                .into();
        });
        check_abort(&format!("a review of a child, {is_deep}"), boss(&world(calls), nest(after)), &reached)
            .await;

        let hanging = ScriptedProvider::responding(|_| ScriptedReply::text("one").and_hang());
        let agent = boss(&world(calls), nest(helper(asking()).with_provider(hanging)));
        let r = reached.clone();
        let _listening = agent.subscribe(move |event| {
            if matches!(event, AgentEvent::MessageUpdate { loop_id, .. } if loop_id.as_str().starts_with("child-")) {
                r.notify_one();
            }
        });
        check_abort(&format!("a model of a child, {is_deep}"), agent, &reached).await;
    }
}

/// REQ-168. The time for which a child waits for an answer counts neither for the limits of the caller, nor for those of
/// the child, nor for the time-out of the tool.
#[tokio::test]
async fn waiting_for_an_answer_takes_no_time() {
    let calls: &[_] = &[("a", "paint")];
    for is_recorded in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualEnvironment::at(1_000);
        let limits = ExecutionLimits::default().with_max_duration(Duration::from_secs(60));
        let budget = Budget::new(BudgetLimits::none().with_time(Duration::from_secs(60)));
        let mut agent = boss(&world(calls), helper(asking()))
            .with_environment(Arc::new(clock.clone()))
            .with_limits(limits)
            .with_budget(budget.clone())
            .configure(|c| c.policy.tool_timeout = Some(Duration::from_secs(30)));
        let _recorder =
            is_recorded.then(|| SessionRecorder::attach(&mut agent, JsonStore::open(folder.path()).unwrap()));
        agent.prompt("go").unwrap().collect().await;
        clock.advance(Duration::from_secs(3 * 24 * 3_600));
        let events = agent.answer("a/k", Answer::Allow).unwrap().collect_numbered().await;
        assert_eq!(end_of(&events).ended, Ended::Completed, "recorded: {is_recorded}");
        assert_eq!(texts(&agent), ["go", "", "paint done", "all done"], "recorded: {is_recorded}");
        assert_eq!(budget.spent().time_ms, 0);
    }
}

/// REQ-148. Before-loop hooks of children ask; the answers arrive in one process after the other.
#[tokio::test]
async fn a_hook_before_the_loop_of_a_child_asks() {
    let calls: &[_] = &[("a", "paint"), ("b", "sing")];
    let tool = || {
        helper(asking()).configure(|c| {
            c.hooks = Hooks::new().before_loop(|_| async { Verdict::Ask("Begin?".into()) }).into();
        })
    };
    let folder = tempfile::tempdir().unwrap();
    let store = JsonStore::open(folder.path()).unwrap();
    let mut agent = boss(&world(calls), tool());
    let recorder = SessionRecorder::attach(&mut agent, store.clone());
    agent.prompt("go").unwrap().collect().await;
    assert_eq!(ids(&agent), ["a/loop", "b/loop"]);
    agent.answer("b/loop", Answer::Allow).unwrap().collect().await;
    assert_eq!(ids(&agent), ["a/loop", "b/k"]);
    let id = agent.session_id();
    recorder.close().await.unwrap();
    drop((agent, recorder));
    for question in ["a/loop", "b/k"] {
        store.answer(&id, question, Answer::Allow, Timestamp(1)).await.unwrap();
    }
    let (agent, recorder) =
        boss(&world(calls), tool()).restore_session(store.clone(), id.as_str()).await.unwrap();
    agent.resume().unwrap().collect().await;
    assert_eq!(ids(&agent), ["a/k"]);
    agent.answer("a/k", Answer::deny("no")).unwrap().collect().await;
    assert_eq!(texts(&agent), ["go", "", "paint done", "sing done", "all done"]);
    recorder.close().await.unwrap();
}

/// REQ-212. A recorder that is fed with the stream of the caller has the sessions of the children.
#[tokio::test]
async fn a_recorder_that_is_fed_with_the_stream_has_the_children() {
    let calls: &[_] = &[("a", "paint"), ("b", "sing")];
    let recorder = SessionRecorder::new();
    let agent = boss(&world(calls), helper(asking()));
    let feed = |events: Vec<AgentEvent>| events.iter().for_each(|event| recorder.on_event(event));
    feed(agent.prompt("go").unwrap().collect().await);
    feed(agent.answer("a/k", Answer::Allow).unwrap().collect().await);
    feed(agent.answer("b/k", Answer::Allow).unwrap().collect().await);
    recorder.flush();
    let sessions = recorder.sessions();
    assert_eq!(sessions.len(), 3);
    for session in &sessions {
        assert_eq!(session.loops.len(), 1, "{}", session.session_id);
        assert_eq!(session.loops[0].status, looptree::session::LoopStatus::Completed);
        let said: Vec<String> = session.history().unwrap().llm_messages().map(Message::text).collect();
        if session.session_id == agent.session_id() {
            assert_eq!(said, texts(&agent));
            assert_eq!(session.loops[0].child_loop_refs.len(), 2);
        } else {
            assert_eq!(said.len(), 4, "{said:?}");
            assert_eq!(said[2], "worked");
        }
    }
}

/// REQ-148. A snapshot of an agent without a journal has its waiting children.
#[tokio::test]
async fn a_snapshot_without_a_journal_has_the_waiting_children() {
    let calls: &[_] = &[("a", "paint"), ("b", "sing")];
    let budget = wide_budget();
    let agent = boss(&world(calls), helper(asking())).with_budget(budget);
    agent.prompt("go").unwrap().collect().await;
    agent.answer("a/k", Answer::Allow).unwrap().collect().await;
    let saved = serde_json::to_string(&agent.snapshot()).unwrap();
    drop(agent);
    let budget = wide_budget();
    let agent = boss(&world(calls), helper(asking())).with_budget(budget.clone());
    let agent = agent.restore(serde_json::from_str(&saved).unwrap()).unwrap();
    assert_eq!(ids(&agent), ["b/k"]);
    let events = agent.answer("b/k", Answer::Allow).unwrap().collect_numbered().await;
    let end = end_of(&events);
    assert_eq!(end.ended, Ended::Completed);
    assert_eq!(amounts(end.spent.as_deref().unwrap()), (3_024, 6, 4));
    assert_eq!(amounts(&budget.spent()), (3_024, 6, 4));
    assert_eq!(texts(&agent), ["go", "", "paint done", "sing done", "all done"]);
}

/// REQ-195. Each number of a loop occurs once over all processes, and the numbers of each loop have no gap.
#[tokio::test]
async fn the_numbers_of_children_continue_over_processes() {
    let calls: &[_] = &[("a", "paint"), ("b", "sing")];
    let folder = tempfile::tempdir().unwrap();
    let store = JsonStore::open(folder.path()).unwrap();
    let mut agent = boss(&world(calls), helper(asking()));
    let recorder = SessionRecorder::attach(&mut agent, store.clone());
    let mut all = agent.prompt("go").unwrap().collect_numbered().await;
    let id = agent.session_id();
    recorder.close().await.unwrap();
    drop((agent, recorder));
    for question in ["b/k", "a/k"] {
        let agent = boss(&world(calls), helper(asking()));
        let (agent, recorder) = agent.restore_session(store.clone(), id.as_str()).await.unwrap();
        all.extend(agent.answer(question, Answer::Allow).unwrap().collect_numbered().await);
        recorder.close().await.unwrap();
    }
    let mut numbers: std::collections::BTreeMap<LoopId, Vec<u64>> = std::collections::BTreeMap::new();
    for event in all.iter().filter(|e| !e.event.is_live()) {
        numbers.entry(event.event.loop_id().clone()).or_default().push(event.number);
    }
    assert_eq!(numbers.len(), 3);
    for (id, numbers) in numbers {
        let wanted: Vec<u64> = (1..=numbers.len() as u64).collect();
        assert_eq!(numbers, wanted, "{id}");
    }
}

/// REQ-150. Readers of one loop do not see the end or the text of a child as those of the caller.
#[tokio::test]
async fn readers_of_the_caller_are_not_confused_by_children() {
    let calls: &[_] = &[("a", "paint"), ("b", "sing")];
    let straight = || helper(ScriptedTool::saying("work", "worked"));
    let agent = boss(&world(calls), straight());
    assert_eq!(agent.chat("go").await.unwrap(), "all done");
    let agent = boss(&world(calls), straight());
    let all = agent.prompt("go").unwrap().without_sub_agents().collect_numbered().await;
    assert!(all.iter().all(|e| e.depth == 0));
    assert!(matches!(all.last().unwrap().event, AgentEvent::AgentEnd(_)));
    let agent = boss(&world(calls), straight());
    let merged = agent.request("go").merging(4).start().unwrap().collect_numbered().await;
    let ends = merged.iter().filter(|e| matches!(e.event, AgentEvent::AgentEnd(_))).count();
    assert_eq!(ends, 3);
    assert_eq!(end_of(&merged).ended, Ended::Completed);
}

/// A caller whose child makes two calls that ask.
fn two_questions() -> ScriptedProvider {
    ScriptedProvider::responding(|request| {
        let said = request.messages().count();
        match (request.model.id.as_str(), said) {
            ("boss", 1) => ScriptedReply::new().and_call("a", "helper", json!({"task": "paint"})).and_call(
                "b",
                "helper",
                json!({"task": "sing"}),
            ),
            ("boss", _) => "all done".into(),
            (_, 1) => ScriptedReply::new().and_call("k", "work", json!({})).and_call("l", "work", json!({})),
            (_, _) => "done".into(),
        }
    })
}

/// REQ-148. A call that is closed while its child waits has no questions any more, and no answers to them are accepted.
#[tokio::test]
async fn a_call_that_is_closed_takes_the_questions_of_its_child_along() {
    let agent = boss(&two_questions(), helper(asking()));
    agent.prompt("go").unwrap().collect().await;
    assert_eq!(ids(&agent), ["a/k", "a/l", "b/k", "b/l"]);
    // The tool does not delegate its calls any more, so nothing can continue the child.
    let plain = ScriptedTool::saying("helper", "alone").with_effects(Effects::Once);
    agent.update_tools(|tools| *tools = vec![Arc::new(plain)]);
    agent.answer("a/k", Answer::Allow).unwrap().collect().await;
    assert_eq!(ids(&agent), ["a", "b/k", "b/l"]);
    let late = agent.answer("a/l", Answer::Allow);
    assert!(late.is_err(), "the question is closed");
    agent.answer("a", Answer::deny("no")).unwrap().collect().await;
    agent.answer("b/l", Answer::Allow).unwrap().collect().await;
    assert_eq!(ids(&agent), ["b"]);
    agent.answer("b", Answer::Allow).unwrap().collect().await;
    assert!(ids(&agent).is_empty());
    assert_eq!(texts(&agent).last().unwrap(), "all done");
}

/// REQ-178. Two answers to one child are given from outside. The process ends after any record of the resumed caller: the
/// questions that have an answer are not asked again.
#[test]
fn two_answers_to_one_child_survive_the_end_of_the_process() {
    let tool = || asking().with_effects(Effects::Idempotent);
    let mut wrong = Vec::new();
    let mut cuts = 0;
    for n in 1.. {
        let folder = tempfile::tempdir().unwrap();
        let store = JsonStore::open(folder.path()).unwrap();
        let id = in_process(async {
            let mut agent = boss(&two_questions(), helper(tool()));
            let _recorder = SessionRecorder::attach(&mut agent, store.clone());
            agent.prompt("go").unwrap().collect().await;
            agent.session_id()
        });
        let was_cut = in_process(async {
            for question in ["a/l", "a/k", "b/k", "b/l"] {
                store.answer(&id, question, Answer::Allow, Timestamp(1)).await.unwrap();
            }
            let agent = boss(&two_questions(), helper(tool()));
            let (agent, _recorder) = agent.restore_session(store.clone(), id.as_str()).await.unwrap();
            let (agent, fuse) = with_fuse(agent, n);
            let mut events = agent.resume().unwrap();
            tokio::select! {
                biased;
                () = fuse.burnt.notified() => true,
                _ = events.end() => false,
            }
        });
        if !was_cut {
            break;
        }
        cuts += 1;
        in_process(async {
            let agent = boss(&two_questions(), helper(tool()));
            let (agent, recorder) = agent.restore_session(store.clone(), id.as_str()).await.unwrap();
            let Ok(mut events) = agent.resume() else { return };
            let end = events.end().await;
            if !matches!(end, RunEnd::Completed(_)) {
                wrong.push(format!("cut after {n}: {:?}", ids(&agent)));
            }
            recorder.close().await.unwrap();
        });
    }
    assert!(cuts > 10, "{cuts}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// REQ-203, REQ-148. A branch whose child asks is suspended, and is answered after it was adopted.
#[tokio::test]
async fn a_branch_whose_child_asks_is_answered_after_it_was_adopted() {
    let agent = boss(&world(&[("a", "paint")]), helper(asking()));
    let specs = ["go", "run"].map(looptree::BranchSpec::asking);
    let outcomes = agent.explore_branches(specs).unwrap().finish().await.unwrap();
    for outcome in &outcomes {
        let BranchEnd::Suspended { questions } = &outcome.end else { panic!("{outcome:?}") };
        assert_eq!(questions[0].id.as_str(), "a/k");
    }
    agent.adopt_branch(&outcomes[1]).await.unwrap();
    assert_eq!(ids(&agent), ["a/k"]);
    let end = agent.answer("a/k", Answer::Allow).unwrap().end().await;
    assert!(matches!(end, RunEnd::Completed(_)), "{end:?}");
    assert_eq!(texts(&agent), ["run", "", "paint done", "all done"]);
}

/// REQ-150. A run that is resumed with an answer to a child: the child emits events before its caller, and a reader that
/// leaves out sub-agents gets none of them.
#[tokio::test]
async fn readers_of_a_resumed_caller_leave_out_its_children() {
    for question in ["a/k", "b/k"] {
        let agent = boss(&world(&[("a", "paint"), ("b", "sing")]), helper(asking()));
        agent.prompt("go").unwrap().collect().await;
        let events = agent.answer(question, Answer::Allow).unwrap().without_sub_agents();
        let events = events.collect_numbered().await;
        assert!(!events.is_empty());
        assert!(events.iter().all(|e| e.depth == 0), "{:?}", events[0]);
    }
}
