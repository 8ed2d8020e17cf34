//! What may happen to a run: setups, replies, results, answers, and inputs that nobody asked for.

use agent_core::history::Splice;
use agent_core::run::{
    BudgetSetup, BudgetVerdict, CallStage, CompactionTask, Failure, Gate, GateVerdict, Gates, Input,
    InputVerdict, PartialReply, PendingCall, QueueKind, QueueMode, Queued, Reply, RunSetup, SteeringPolicy,
    Step, ToolChange, ToolOutcome, ToolVerdict,
};
use agent_core::{
    AgentMessage, Answer, Ask, AssistantMessage, AtLimit, Budget, BudgetLimits, BudgetRefusal,
    BudgetSnapshot, Citation, CitationSource, CitedPlace, CitedRange, Citing, Content, ContextConfig,
    CostConfig, DocumentContent, Entry, ErrorKind, ExecutionLimits, FileSource, HeuristicTokenCounter,
    History, LoopId, MediaContent, Message, ModelConfig, QuestionId, RetryConfig, Route, SearchResultContent,
    Spending, StopReason, TextContent, Timestamp, ToolArguments, ToolCall, ToolExecutionStrategy, ToolResult,
    ToolResultMessage, Usage, compact_history_within,
};
use serde_json::{Value, json};
use std::time::Duration;

use crate::choices::Choices;

pub(crate) fn setup(c: &mut Choices) -> RunSetup {
    let mut setup = RunSetup::new("s.demo.1");
    setup.policy.tool_execution = match c.below(4) {
        0 => ToolExecutionStrategy::Parallel,
        1 => ToolExecutionStrategy::Sequential,
        n => ToolExecutionStrategy::Batched { size: n },
    };
    setup.policy.steering_policy = c.one_of(&[SteeringPolicy::SkipRemaining, SteeringPolicy::AfterTurn]);
    setup.policy.steering_mode = c.one_of(&[QueueMode::OneAtATime, QueueMode::All]);
    setup.policy.follow_up_mode = c.one_of(&[QueueMode::OneAtATime, QueueMode::All]);
    setup.gates = Gates {
        before_loop: c.once_in(4),
        input: c.once_in(4),
        before_turn: c.once_in(3),
        after_tool: c.once_in(2),
    };
    setup.sequential_tools = [c.one_of(&["never", "seq"]).into()].into();
    setup.policy.retry = RetryConfig::default().with_max_retries(c.below(4) as u32);
    let route = |on: &[ErrorKind]| {
        Route::new(ModelConfig::ollama("spare")).on(on.iter().copied()).with_max_retries(1)
    };
    setup.routes = match c.below(4) {
        0 => vec![route(&[ErrorKind::Network, ErrorKind::Quota])],
        1 => vec![
            route(&[ErrorKind::RateLimited]),
            route(&[ErrorKind::RateLimited, ErrorKind::ContextOverflow]),
        ],
        _ => Vec::new(),
    }
    .iter()
    .map(Route::setup)
    .collect();
    setup.policy.context = match c.below(4) {
        0 => None,
        1 => Some(ContextConfig::default()),
        _ => Some(
            ContextConfig::default()
                .with_max_context_tokens(40 + c.below(120) as u64)
                .with_system_prompt_tokens(0)
                .with_keep_recent(c.below(4)),
        ),
    };
    setup.context_window = c.one_of(&[None, Some(60)]);
    setup.policy.limits = match c.below(4) {
        0 => None,
        1 => Some(ExecutionLimits::default().with_max_turns(c.below(8) as u32)),
        2 => Some(ExecutionLimits::unlimited().with_max_total_tokens(100 + c.below(600) as u64)),
        _ => {
            Some(ExecutionLimits::unlimited().with_max_duration(Duration::from_millis(c.below(2_000) as u64)))
        }
    };
    setup.budget = match c.below(3) {
        0 => None,
        n => {
            let at_limit = if n == 1 { AtLimit::Stop } else { AtLimit::Pause };
            Some(BudgetSetup::new(at_limit, CostConfig::per_million(3_000_000, 15_000_000, 300_000, 0)))
        }
    };
    setup
}

/// What an account of a run says of a call, and what is known of the accounts.
fn refusal(c: &mut Choices) -> (Box<BudgetRefusal>, BudgetSnapshot) {
    let root = Budget::named("root", BudgetLimits::none().with_tokens(100));
    let budget = root.child("run", BudgetLimits::none().with_tool_calls(1));
    budget.charge(Spending::of_tokens(90 + c.below(20) as u64));
    let ask = if c.once_in(2) { Spending::of_tokens(50) } else { Spending::of_tool_calls(2) };
    let refusal = budget.try_reserve(&Ask::exactly(ask), Timestamp(0)).unwrap_err();
    (refusal, budget.snapshot(Timestamp(5)))
}

fn budget_verdict(c: &mut Choices) -> BudgetVerdict {
    let (refusal, known) = refusal(c);
    match c.below(12) {
        0 | 1 => BudgetVerdict::Deny { refusal, known },
        2 if c.once_in(4) => BudgetVerdict::Failed { message: "there is no budget here".into() },
        _ => BudgetVerdict::Allow {
            amounts: Spending::of_tokens(40),
            prompt_tokens: 20,
            max_output: c.one_of(&[None, Some(20)]),
            known,
        },
    }
}

/// A conversation that was there before.
pub(crate) fn past(c: &mut Choices) -> History {
    let mut history = History::new();
    for n in 0..c.below(3) {
        history.push(AgentMessage::user(format!("before {n}"))).unwrap();
        let mut reply = AssistantMessage::new("p", "m", StopReason::ToolUse);
        reply.content.push(Content::tool_call(format!("c{n}"), "t", json!({"n": n})));
        let result = ToolResultMessage::new(format!("c{n}").into(), "t".into(), vec![Content::text("old")]);
        let result = Entry::from(AgentMessage::from(Message::from(result)));
        history.push_exchange(Entry::from(AgentMessage::from(Message::from(reply))), vec![result]).unwrap();
    }
    if c.once_in(4) {
        history.push(AgentMessage::extension("note", json!({"x": 0.1}))).unwrap();
    }
    history
}

pub(crate) fn user(c: &mut Choices) -> AgentMessage {
    match c.below(5) {
        0 => AgentMessage::user("go"),
        1 => {
            AgentMessage::user("a longer text that takes some tokens of its own, so that budgets are reached")
        }
        2 => AgentMessage::extension("note", json!({"seen": true})),
        3 => Message::user_content(vec![Content::text("read"), file(c)]).into(),
        _ => Message::user_content(vec![Content::text("look"), Content::image("aGk=", "image/png")]).into(),
    }
}

fn file(c: &mut Choices) -> Content {
    let source = c.one_of(&[
        FileSource::Text { text: "a text of a document".into() },
        FileSource::Base64 { data: "aGk=".into(), mime_type: "application/pdf".into() },
        FileSource::Url { url: "https://example.com/a".into(), mime_type: None },
        FileSource::Uploaded { file_id: "file-1".into() },
    ]);
    match c.below(4) {
        0 => Content::SearchResult(Box::new(SearchResultContent::new("wiki", "Wiki", ["one", "two"]))),
        1 => Content::Audio(MediaContent::new(source)),
        2 => Content::Video(MediaContent::new(source)),
        _ => {
            Content::Document(Box::new(DocumentContent::new(source).with_title("a").with_citing(Citing::On)))
        }
    }
}

fn cited(c: &mut Choices, text: &str) -> Content {
    let source = c.one_of(&[
        CitationSource::Url { url: "https://example.com".into() },
        CitationSource::Document { index: 1, file_id: None },
        CitationSource::File { file_id: "f".into(), name: Some("n".into()) },
        CitationSource::Other,
    ]);
    let citation = Citation::new(source).with_range(CitedRange::bytes(0, 2)).with_data(json!({"k": [1]}));
    let mut block = TextContent::default();
    block.text = text.to_owned();
    block.citations = vec![citation.clone(), citation.with_place(CitedPlace::Pages { start: 1, end: 2 })];
    Content::Text(block)
}

fn queued(c: &mut Choices) -> Queued {
    let kind = c.one_of(&[QueueKind::Steering, QueueKind::FollowUp, QueueKind::PassiveSteering]);
    Queued::new(kind, user(c))
}

fn value(c: &mut Choices) -> Value {
    c.one_of(&[json!({}), Value::Null, json!({"path": "src", "depth": 3}), json!([1.5, "x"]), json!(0.1)])
}

fn content(c: &mut Choices) -> Vec<Content> {
    let mut blocks = Vec::new();
    if c.once_in(4) {
        blocks.push(Content::thinking("hm", Some("sig".into())));
    }
    for _ in 0..c.below(3) {
        let text = c.one_of(&["ok", "done", "some more words than before"]);
        blocks.push(if c.once_in(4) { cited(c, text) } else { Content::text(text) });
    }
    blocks
}

fn calls(c: &mut Choices) -> Vec<Content> {
    // Most replies call, so that runs go on.
    (0..c.one_of(&[0, 1, 1, 2, 3, 4]))
        .map(|n| {
            let id = c.one_of(&["", " ", "c0", "dup", "dup", "c1", "c2", "c3"]);
            let id = if id == "c3" { format!("n{n}") } else { id.to_owned() };
            let text = c.one_of(&["{}", "", "{\"a\":1}", "{ \"a\": 1.50 }", "{\"a\":", "null", "7"]);
            let tool = c.one_of(&["t", "t", "seq", "unknown"]);
            Content::ToolCall(ToolCall::new(id, tool, ToolArguments::from_text(text)))
        })
        .collect()
}

fn usage(c: &mut Choices) -> Usage {
    match c.below(4) {
        0 => Usage::default(),
        1 => Usage::new(20, 5, 0, 0),
        2 => Usage::new(70, 0, 30, 0),
        _ => Usage::new(8, 40, 3, 2),
    }
}

fn reply(c: &mut Choices) -> Reply {
    let mut message = AssistantMessage::new("p", "m", StopReason::Stop);
    message.content = content(c);
    message.content.extend(calls(c));
    message.usage = usage(c);
    message.stop_reason = match c.below(6) {
        5 => StopReason::Length,
        4 => StopReason::ToolUse,
        _ if message.tool_calls().next().is_some() => StopReason::ToolUse,
        _ => StopReason::Stop,
    };
    let reply = Reply::new(message).unwrap();
    if c.once_in(2) { reply.counted(c.below(30) as u64) } else { reply }
}

fn partial(c: &mut Choices) -> Option<Box<PartialReply>> {
    let mut blocks = content(c);
    blocks.extend(calls(c));
    (!c.once_in(3)).then(|| Box::new(PartialReply::new(blocks, usage(c), Some("r".into()))))
}

fn failure(c: &mut Choices) -> Failure {
    let kind = c.one_of(&[
        ErrorKind::Network,
        ErrorKind::Network,
        ErrorKind::RateLimited,
        ErrorKind::RateLimited,
        ErrorKind::ContextOverflow,
        ErrorKind::ContextOverflow,
        ErrorKind::Api,
        ErrorKind::Quota,
        ErrorKind::Cancelled,
    ]);
    let mut failure = Failure::new(kind, "it broke");
    failure.retry_after_ms = c.one_of(&[None, None, None, None, Some(50), Some(90_000)]);
    failure
}

fn result(c: &mut Choices) -> ToolResult {
    let mut result = match c.below(4) {
        0 => ToolResult::text("ok"),
        1 => ToolResult::text("line\n".repeat(8)),
        2 => ToolResult::error("no"),
        _ => ToolResult::content(Vec::new()),
    };
    if c.once_in(3) {
        result = result.with_details(json!({"ratio": 0.30000000000000004}));
    }
    if c.once_in(4) {
        result = result.with_child_loop(LoopId::from("s.child.1"));
    }
    if c.once_in(6) { result.terminating() } else { result }
}

fn outcome(c: &mut Choices) -> Box<ToolOutcome> {
    let ran = c.one_of(&[Some(3), None]);
    let used = if c.once_in(4) { Some(usage(c)) } else { None };
    let outcome = ToolOutcome::new(used.into_iter().fold(result(c), ToolResult::with_usage), ran);
    let mut outcome = if c.once_in(2) { outcome.counted(c.below(30) as u64) } else { outcome };
    outcome.spent = c.once_in(3).then(|| Box::new(Spending::of_tokens(7)));
    Box::new(outcome)
}

fn change(c: &mut Choices) -> Box<ToolChange> {
    Box::new(match c.below(5) {
        0 => ToolChange::none(),
        1 => ToolChange::content(vec![Content::text("changed")]),
        2 => ToolChange::is_error(true),
        3 => ToolChange::none().with_details(value(c)),
        _ => ToolChange::none().with_terminate(c.once_in(2)),
    })
}

fn verdict(c: &mut Choices) -> ToolVerdict {
    match c.below(9) {
        8 => {
            let arguments = c.once_in(2).then(|| value(c));
            ToolVerdict::OverBudget { refusal: refusal(c).0, arguments }
        }
        0..=3 => ToolVerdict::Allow,
        4 => ToolVerdict::AllowWith(value(c)),
        5 => ToolVerdict::deny("vetoed"),
        6 => ToolVerdict::Deny(Box::new(result(c))),
        _ => ToolVerdict::Ask("May it?".into()),
    }
}

fn answer(c: &mut Choices) -> Answer {
    match c.below(5) {
        4 => Answer::Raise { by: Spending::of_tokens(100) },
        0 | 1 => Answer::Allow,
        2 => Answer::AllowWith(value(c)),
        _ => Answer::Deny { reason: "rather not".into() },
    }
}

fn gate_verdict(c: &mut Choices) -> GateVerdict {
    match c.below(16) {
        15 => GateVerdict::Deny("closed".into()),
        13 | 14 => GateVerdict::Ask("Go on?".into()),
        _ => GateVerdict::Allow,
    }
}

fn input_verdict(c: &mut Choices) -> InputVerdict {
    match c.below(12) {
        11 => InputVerdict::Deny { reason: "bad words".into() },
        4 => InputVerdict::Allow { warnings: vec!["careful".into(), "very".into()] },
        _ => InputVerdict::Allow { warnings: Vec::new() },
    }
}

fn compacted(c: &mut Choices, history: &History, task: Option<CompactionTask>) -> Input {
    let config = ContextConfig::default().with_keep_recent(1).with_keep_first(1);
    let budget = task.map_or(20, |t| t.budget);
    match compact_history_within(history, &config, budget, &HeuristicTokenCounter) {
        Ok(splices) => {
            let fallback = c.one_of(&[None, Some("the strategy failed".to_owned())]);
            Input::Compacted { splices, usage: usage(c), fallback }
        }
        Err(error) => Input::CompactionFailed { message: error.to_string() },
    }
}

/// An answer to what the run asks for. The shell that gives it remembers nothing.
pub(crate) fn fitting(c: &mut Choices, step: &Step) -> Input {
    match step {
        Step::Gate { gate: Gate::Input { .. }, .. } => Input::Filtered { verdict: input_verdict(c) },
        Step::Gate { .. } => Input::GateDecided { verdict: gate_verdict(c) },
        Step::CallModel { .. } => match c.below(12) {
            10 | 11 => Input::ReplyStarted,
            9 => Input::ModelFailed { failure: failure(c), partial: partial(c) },
            _ => Input::ModelReplied { reply: reply(c) },
        },
        Step::Reserve { .. } => Input::BudgetDecided { verdict: budget_verdict(c) },
        Step::Sleep { .. } => Input::Slept,
        Step::ReadQueues { .. } => Input::QueuesRead,
        Step::RunTools { calls, .. } => {
            let PendingCall { call, stage, .. } = &calls[c.below(calls.len())];
            let id = call.id.clone();
            match stage {
                CallStage::Ended => Input::ToolReviewed { id, change: change(c) },
                // Once in a while as a new shell would do it: the call begins again, or is asked about.
                CallStage::Began(_) if !c.once_in(6) => Input::ToolEnded { id, outcome: outcome(c) },
                _ => Input::ToolBegan { id, verdict: verdict(c) },
            }
        }
        Step::Compact { task, history, .. } => {
            if c.once_in(8) {
                Input::CompactionFailed { message: "no".into() }
            } else {
                compacted(c, history, Some(*task))
            }
        }
        Step::AwaitAnswer { .. } if c.once_in(4) => Input::Suspended,
        Step::AwaitAnswer { questions, .. } => {
            let question = &questions[c.below(questions.len())];
            Input::Answer { question_id: question.id.clone(), answer: answer(c) }
        }
        _ => Input::abort(None),
    }
}

/// Any input at all, whether or not it fits.
pub(crate) fn any_input(c: &mut Choices, history: &History, ids: &[String]) -> Input {
    let id = match c.below(ids.len() + 1) {
        0 => "nobody".to_owned(),
        n => ids[n - 1].clone(),
    };
    match c.below(18) {
        17 => Input::BudgetDecided { verdict: budget_verdict(c) },
        0..=2 => Input::Queue { queued: queued(c) },
        3 => {
            // A message that may not enter alone.
            let bare = ToolResultMessage::new("x".into(), "t".into(), Vec::new());
            Input::Queue { queued: Queued::new(QueueKind::Steering, AgentMessage::from(Message::from(bare))) }
        }
        4 => Input::ClearQueue { kind: c.one_of(&[QueueKind::Steering, QueueKind::PassiveSteering]) },
        5 => Input::SetQueueMode { kind: QueueKind::FollowUp, mode: QueueMode::All },
        6 => Input::GateDecided { verdict: gate_verdict(c) },
        7 => Input::Filtered { verdict: input_verdict(c) },
        8 => Input::ReplyStarted,
        9 => Input::ModelReplied { reply: reply(c) },
        10 => Input::ModelFailed { failure: failure(c), partial: partial(c) },
        11 => Input::Slept,
        12 => Input::ToolBegan { id: id.into(), verdict: verdict(c) },
        13 => Input::ToolEnded { id: id.into(), outcome: outcome(c) },
        14 => Input::ToolReviewed { id: id.into(), change: change(c) },
        15 if c.once_in(2) => compacted(c, history, None),
        15 => {
            let from = c.below(history.len() + 2);
            let to = from + c.below(3);
            let messages = vec![Entry::from(AgentMessage::user("summary"))];
            Input::Compacted {
                splices: vec![Splice { from, to, messages }],
                usage: Usage::default(),
                fallback: None,
            }
        }
        _ => Input::Answer { question_id: QuestionId::from(id), answer: answer(c) },
    }
}

/// The caller's abort, or a cut.
pub(crate) fn abort(c: &mut Choices) -> Input {
    let interrupted = c.one_of(&[None, None, Some("the task was dropped".to_owned())]);
    if c.once_in(3) {
        return Input::TimeUp { partial: partial(c) };
    }
    Input::Abort { partial: partial(c), interrupted }
}
