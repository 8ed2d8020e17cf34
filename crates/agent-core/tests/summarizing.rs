//! Compaction by a model: what stays, what the model receives, what it costs, and what happens when it fails.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::expect_used,
    reason = "a test fails loudly"
)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use agent_core::budget::{Budget, BudgetLimits};
use agent_core::context::{SUMMARY_HEADING, SummarizingCompaction};
use agent_core::event::CompactionEnded;
use agent_core::provider::ErrorKind;
use agent_core::testing::{Latch, ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{
    AgentEvent, AgentMessage, BasicAgent, ContextConfig, ExecutionLimits, Message, ModelConfig, ModelRequest,
    RunEnd, StopReason, ToolResult, Usage,
};
use serde_json::json;

const TASK: &str = "Find every number. Report them in the end.";
const WINDOW: u32 = 16_384;
const ANSWER: u32 = 2_048;

fn is_summary(request: &ModelRequest) -> bool {
    request.system_prompt.starts_with("You maintain the summary")
}

fn text_of(request: &ModelRequest) -> String {
    request.messages().map(Message::text).collect::<Vec<_>>().join("\n")
}

/// Summarizes as a model would that sees nothing but its input: lists the numbers in it.
fn listing(request: &ModelRequest) -> ScriptedReply {
    let text = text_of(request);
    let mut found: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || c == ',')
        .filter(|word| word.starts_with("number-"))
        .collect();
    found.sort_unstable();
    found.dedup();
    ScriptedReply::text(format!("## Facts\n{}", found.join("\n"))).using(Usage::new(1_000, 50, 0, 0))
}

/// A run of `turns` calls with results of 500 tokens, the first 20 of which contain a number.
fn run_of(
    turns: usize,
    summarizer: impl Fn(&ModelRequest) -> ScriptedReply + Send + Sync + 'static,
) -> ScriptedProvider {
    let turn = AtomicUsize::new(0);
    ScriptedProvider::responding(move |request| {
        if is_summary(request) {
            return summarizer(request);
        }
        let turn = turn.fetch_add(1, Ordering::Relaxed);
        if turn < turns {
            ScriptedReply::call(&format!("c{turn}"), "look", json!({"n": turn})).using(Usage::new(
                request.history.tokens(),
                10,
                0,
                0,
            ))
        } else {
            ScriptedReply::text("Done.").using(Usage::new(request.history.tokens(), 10, 0, 0))
        }
    })
}

fn agent(provider: &ScriptedProvider, strategy: SummarizingCompaction) -> BasicAgent {
    let look = ScriptedTool::new("look", |arguments, _| {
        let n = arguments["n"].as_u64().unwrap_or_default();
        let number = if n < 20 { format!(" number-{n:02} ") } else { String::new() };
        let rule = if n == 3 { "RULE " } else { "" };
        async move {
            Ok(ToolResult::text(format!("{rule}{}{number}{}", "word ".repeat(200), "word ".repeat(200))))
        }
    });
    BasicAgent::new(ModelConfig::default().with_limits(WINDOW, ANSWER))
        .with_provider(provider.clone())
        .with_tool(look)
        .with_limits(ExecutionLimits::unlimited())
        .with_compaction_strategy(strategy)
}

fn ends(events: &[AgentEvent]) -> Vec<&CompactionEnded> {
    let mut out: Vec<&CompactionEnded> = Vec::new();
    for event in events {
        if let AgentEvent::CompactionEnded(end) = event {
            out.push(end);
        }
    }
    out
}

fn summaries(history: &[AgentMessage]) -> Vec<String> {
    history.iter().map(AgentMessage::text).filter(|text| text.starts_with(SUMMARY_HEADING)).collect()
}

#[tokio::test]
async fn summaries_extend_each_other_and_the_task_stays_whole() {
    let provider = run_of(200, listing);
    let pinned = SummarizingCompaction::new().with_pinned(|message| message.text().starts_with("RULE"));
    let agent = agent(&provider, pinned);
    let events = agent.prompt(TASK).unwrap().collect().await;
    let ends = ends(&events);
    assert!(ends.len() >= 5, "{} compactions", ends.len());
    assert!(
        ends.iter().all(|end| end.fallback.is_none()),
        "{:?}",
        ends.iter().map(|e| &e.fallback).collect::<Vec<_>>()
    );

    let mut last_summary: Option<String> = None;
    for request in provider.requests() {
        let text = text_of(&request);
        if is_summary(&request) {
            assert!(request.tools.definitions().is_empty());
            assert!(request.history.tokens() <= u64::from(WINDOW - ANSWER));
            // Everything that the last summary said is in the input of the next one, in its own words and once: it is not
            // among the messages to summarize.
            if let Some(last) = &last_summary {
                assert_eq!(text.matches(last.as_str()).count(), 1);
            }
            last_summary = None;
            continue;
        }
        assert!(request.history.tokens() <= u64::from(WINDOW - ANSWER), "{}", request.history.tokens());
        assert_eq!(
            request.messages().filter(|m| m.text() == TASK).count(),
            1,
            "the task is there once, as a whole"
        );
        let shown: Vec<AgentMessage> = request.messages().cloned().map(AgentMessage::from).collect();
        let shown = summaries(&shown);
        assert!(shown.len() <= 1, "a summary replaces the one before");
        if let Some(summary) = shown.into_iter().next() {
            last_summary = Some(summary.trim_start_matches(SUMMARY_HEADING).to_owned());
            assert!(text.contains("RULE word"), "the pinned result stays");
        }
    }
    let history = agent.history();
    let all: Vec<AgentMessage> = history.messages().cloned().collect();
    let summary = summaries(&all).pop().unwrap();
    let lost: Vec<String> = (0..20)
        .map(|n| format!("number-{n:02}"))
        .filter(|n| !summary.contains(n) && n != "number-03")
        .collect();
    assert_eq!(lost, Vec::<String>::new(), "{summary}");
}

/// What becomes of a summary that cannot be used: the cascade shortens the conversation, and the event says why.
#[tokio::test]
async fn each_failure_falls_back_to_the_cascade() {
    type Reply = fn(&ModelRequest) -> ScriptedReply;
    let cases: [(&str, Reply, &str); 7] = [
        ("an error", |_| ScriptedReply::error(ErrorKind::Network, "gone"), "no answer from its model"),
        (
            "an error after half of it",
            |_| ScriptedReply::text("half").failing(ErrorKind::Network, "gone"),
            "no answer",
        ),
        ("an empty text", |_| ScriptedReply::text(" \n"), "empty summary"),
        (
            "a cut text",
            |_| ScriptedReply::text("## Task").stopping(StopReason::Length),
            "its limit of output tokens",
        ),
        ("a call", |_| ScriptedReply::call("c", "look", json!({})), "did not finish the summary"),
        ("too long a text", |_| ScriptedReply::text("word ".repeat(20_000)), "its budget is"),
        ("a panic", |_| ScriptedReply::text("half").and_panic("lost"), "panicked: lost"),
    ];
    for (what, reply, reason) in cases {
        let provider = run_of(60, reply);
        let agent = agent(&provider, SummarizingCompaction::new());
        let mut receiver = agent.prompt(TASK).unwrap();
        let mut events = Vec::new();
        while let Some(event) = receiver.recv().await {
            events.push(event);
        }
        let ends = ends(&events);
        assert!(!ends.is_empty(), "{what}");
        for end in &ends {
            let fallback = end.fallback.as_deref().unwrap_or_default();
            assert!(fallback.contains(reason), "{what}: {fallback}");
        }
        // One request for each compaction.
        assert_eq!(provider.requests().iter().filter(|r| is_summary(r)).count(), ends.len(), "{what}");
        let most =
            provider.requests().iter().filter(|r| !is_summary(r)).map(|r| r.history.tokens()).max().unwrap();
        assert!(most <= u64::from(WINDOW - ANSWER), "{what}: {most}");
        assert!(
            matches!(agent.history().last_reply().map(agent_core::AssistantMessage::text), Some(text) if text == "Done."),
            "{what}"
        );
    }
}

#[tokio::test]
async fn the_summary_is_charged_once() {
    let provider = run_of(80, listing);
    let budget = Budget::new(BudgetLimits::none().with_tokens(10_000_000));
    let agent = agent(&provider, SummarizingCompaction::new()).with_budget(budget.clone());
    let events = agent.prompt(TASK).unwrap().collect().await;
    let compactions = ends(&events).len() as u64;
    assert!(compactions >= 2);
    let requests = provider.requests();
    let turns = requests.iter().filter(|request| !is_summary(request));
    let turns: u64 = turns.map(|request| request.history.tokens() + 10).sum();
    assert_eq!(budget.spent().tokens, turns + compactions * 1_050);
}

/// An abort ends the request, and the conversation is the one before.
#[tokio::test]
async fn an_abort_cancels_the_request() {
    let latch = Latch::new();
    let reached = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&reached);
    let waiting = latch.clone();
    let provider = run_of(60, move |request| {
        *seen.lock().unwrap() = Some(request.history.tokens());
        ScriptedReply::text("half").and_wait(&waiting)
    });
    let agent = agent(&provider, SummarizingCompaction::new());
    let mut receiver = agent.prompt(TASK).unwrap();
    let mut events = Vec::new();
    while let Some(event) = receiver.recv().await {
        if matches!(event, AgentEvent::CompactionStarted { .. }) {
            agent.abort();
        }
        events.push(event);
    }
    assert!(matches!(receiver.end().await, RunEnd::Aborted));
    assert!(ends(&events).is_empty(), "{:?}", ends(&events));
    let all: Vec<AgentMessage> = agent.history().messages().cloned().collect();
    assert!(summaries(&all).is_empty());
}

/// A model of its own, whose smaller window limits the request.
#[tokio::test]
async fn a_model_with_a_smaller_window_gets_what_fits() {
    let provider = run_of(120, listing);
    let small = ModelConfig::ollama("small").with_limits(4_096, 1_024);
    let strategy = SummarizingCompaction::new().with_model(small).with_max_summary_tokens(512);
    let agent = agent(&provider, strategy);
    let events = agent.prompt(TASK).unwrap().collect().await;
    assert!(ends(&events).iter().all(|end| end.fallback.is_none()));
    let requests = provider.requests();
    let summaries: Vec<_> = requests.iter().filter(|r| is_summary(r)).collect();
    assert!(summaries.len() >= 2);
    for request in summaries {
        assert_eq!(request.model.id, "small");
        assert!(request.history.tokens() <= 4_096 - 1_024, "{}", request.history.tokens());
        assert!(request.options.max_tokens.unwrap() <= 1_024);
        assert!(text_of(request).contains("bytes left out"), "long messages are cut");
    }
}

/// A conversation of which nothing may be summarized is shortened by the cascade, without a request.
#[tokio::test]
async fn pinned_messages_that_fill_the_budget_are_not_a_dead_end() {
    let provider = run_of(60, listing);
    let agent = agent(&provider, SummarizingCompaction::new().with_pinned(|_| true));
    let events = agent.prompt(TASK).unwrap().collect().await;
    let ends = ends(&events);
    assert!(!ends.is_empty());
    for end in ends {
        assert!(
            end.fallback.as_deref().unwrap_or_default().contains("less to summarize"),
            "{:?}",
            end.fallback
        );
    }
    assert_eq!(provider.requests().iter().filter(|r| is_summary(r)).count(), 0);
}

/// In a chat, the prompt of the newest loop stays, and older prompts are summarized.
#[tokio::test]
async fn a_chat_keeps_its_open_question() {
    let provider = ScriptedProvider::responding(|request| {
        if is_summary(request) { listing(request) } else { ScriptedReply::text("word ".repeat(300)) }
    });
    let agent = BasicAgent::new(ModelConfig::default())
        .with_provider(provider.clone())
        .with_compaction_strategy(SummarizingCompaction::new())
        .configure(|config| {
            let limits = ContextConfig::default().with_max_context_tokens(3_000).with_system_prompt_tokens(0);
            config.policy.context = Some(limits);
        });
    for n in 0..40 {
        let question = format!("number-{n:02} {}", "please ".repeat(60));
        agent.chat(question.as_str()).await.unwrap();
        let requests = provider.requests();
        let last = requests.iter().rfind(|r| !is_summary(r)).unwrap();
        assert!(last.messages().any(|m| m.text() == question), "question {n}");
        assert!(last.history.tokens() <= 3_000);
    }
    let all: Vec<AgentMessage> = agent.history().messages().cloned().collect();
    let summary = summaries(&all).pop().unwrap();
    assert!(summary.contains("number-00") && summary.contains("number-30"), "{summary}");
    assert!(!all.iter().any(|m| m.text().starts_with("number-00")));
}

/// The program's instructions replace the default ones, and the limit of the length follows them.
#[tokio::test]
async fn a_summary_has_the_instructions_and_the_length_of_the_program() {
    let prompts = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&prompts);
    let provider = run_of(60, move |request| {
        seen.lock().unwrap().push(request.system_prompt.to_string());
        listing(request)
    });
    let instructions = "You maintain the summary for the next shift.";
    let agent = agent(&provider, SummarizingCompaction::new().with_instructions(instructions));
    agent.prompt(TASK).unwrap().collect().await;
    let prompts = prompts.lock().unwrap();
    assert!(!prompts.is_empty());
    for prompt in prompts.iter() {
        let words = prompt.strip_prefix(instructions).and_then(|rest| {
            rest.strip_prefix("\n\nThe summary has at most ")?.strip_suffix(" words.")?.parse::<u32>().ok()
        });
        // At most a quarter of the budget, which is at most the window without the answer; a token is 3/4 of a word.
        assert!(words.is_some_and(|words| (1_500..=(WINDOW - ANSWER) * 3 / 16).contains(&words)), "{prompt}");
    }
}
