//! `cargo xtask bench context`: a long scripted run with each compaction strategy and window.
//!
//! The run calls a tool 2,000 times. Thirty facts are in the results of the first tenth. The model that summarizes is a
//! stub that sees only its request: it repeats the facts that are in it, up to its limit. This shows that the parts work
//! together; it says nothing about the quality of the summaries of a real model.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use agent_core::context::{DefaultCompaction, SummarizingCompaction};
use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{
    AgentEvent, BasicAgent, ContextConfig, ExecutionLimits, History, Message, ModelConfig, ModelRequest,
    ToolResult, Usage,
};
use anyhow::ensure;
use serde_json::json;

const FACTS: usize = 30;
const TASK: &str =
    "Port the project to the new interface, file by file, and list the renamed functions in the end.";
const PINNED: &str = "PINNED: the public names must not change.";
/// The output that is reserved in each window.
const OUTPUT: u32 = 8_192;

/// What a run cost, and what is left of its beginning.
#[derive(Debug, Default)]
struct Figures {
    requests: u64,
    compactions: u64,
    sent: u64,
    /// Tokens of a request that stand at the beginning of the one before, so that a prompt cache has them.
    cached: u64,
    /// Requests whose beginning is not the whole request before.
    breaks: u64,
    largest: u64,
    summarizing: u64,
    facts: BTreeSet<usize>,
    has_task: bool,
    has_pinned: bool,
    /// Whether each summary was in the request for the next one.
    extends: bool,
    before: Option<History>,
    summary: Option<String>,
}

/// Plays the run in three windows and prints a line for each strategy.
pub(super) fn context(turns: usize) -> anyhow::Result<bool> {
    println!(
        "{turns} turns, {FACTS} facts in the first tenth; tokens by the default counter, cached: tokens at the beginning of \
         the request that the request before has, too\n"
    );
    println!(
        "{:>9}  {:12} {:>9} {:>12} {:>12} {:>8} {:>7} {:>12} {:>9} {:>6} {:>6} {:>7}",
        "window",
        "strategy",
        "largest",
        "sent",
        "cached",
        "cached%",
        "breaks",
        "compactions",
        "summaries",
        "facts",
        "task",
        "pinned"
    );
    let mut good = true;
    for window in [32_768, 131_072, 1_048_576] {
        for (name, summarizing) in [("cascade", false), ("summarizing", true)] {
            let figures = play(turns, window, summarizing)?;
            let cached = figures.cached.saturating_mul(100) / figures.sent.max(1);
            println!(
                "{window:>9}  {name:12} {:>9} {:>12} {:>12} {cached:>7}% {:>7} {:>12} {:>9} {:>3}/{FACTS} {:>6} {:>7}",
                figures.largest,
                figures.sent,
                figures.cached,
                figures.breaks,
                figures.compactions,
                figures.summarizing,
                figures.facts.len(),
                yes(figures.has_task),
                yes(figures.has_pinned),
            );
            good &= figures.largest <= u64::from(window - OUTPUT) && figures.has_task;
            if summarizing {
                good &= figures.has_pinned && figures.extends && figures.facts.len() == FACTS;
            }
        }
    }
    ensure!(good, "a request exceeded its window, or a summary lost what it had to extend");
    Ok(good)
}

fn yes(yes: bool) -> &'static str {
    if yes { "whole" } else { "lost" }
}

fn is_summary(request: &ModelRequest) -> bool {
    request.system_prompt.starts_with("You maintain the summary")
}

fn text_of(request: &ModelRequest) -> String {
    request.messages().map(Message::text).collect::<Vec<_>>().join("\n")
}

/// Returns the numbers of the facts in a text.
fn facts_in(text: &str) -> BTreeSet<usize> {
    text.split("FACT-").skip(1).filter_map(|rest| rest.get(..2)?.parse().ok()).collect()
}

fn play(turns: usize, window: u32, summarizing: bool) -> anyhow::Result<Figures> {
    let figures = Arc::new(Mutex::new(Figures { extends: true, ..Figures::default() }));
    let (seen, turn) = (Arc::clone(&figures), AtomicUsize::new(0));
    let provider = ScriptedProvider::responding(move |request| {
        let mut figures = seen.lock().unwrap_or_else(PoisonError::into_inner);
        let reply = if is_summary(request) {
            figures.summarize(request)
        } else {
            figures.count(request);
            match turn.fetch_add(1, Ordering::Relaxed) {
                turn if turn < turns => {
                    ScriptedReply::call(&format!("c{turn}"), "work", json!({"step": turn}))
                }
                _ => ScriptedReply::text("All is done."),
            }
        };
        reply.using(Usage::new(request.history.tokens(), 20, 0, 0))
    });
    let every = (turns / 10 / FACTS).max(1);
    let work = ScriptedTool::new("work", move |arguments, _| {
        let step = arguments["step"].as_u64().and_then(|step| usize::try_from(step).ok()).unwrap_or_default();
        let fact = step / every;
        let fact = if step % every == 0 && fact < FACTS { format!("FACT-{fact:02} ") } else { String::new() };
        let pinned = if step == 5 { format!("{PINNED}\n") } else { String::new() };
        async move {
            Ok(ToolResult::text(format!("{pinned}step {step}: {fact}{}", "a line of output\n".repeat(240))))
        }
    });
    let context = ContextConfig::default().with_max_context_tokens(u64::from(window));
    let agent = BasicAgent::new(ModelConfig::default().with_limits(window, OUTPUT))
        .with_provider(provider)
        .with_tool(work)
        .with_limits(ExecutionLimits::unlimited())
        .configure(|config| config.policy.context = Some(context));
    let agent = if summarizing {
        agent.with_compaction_strategy(
            SummarizingCompaction::new().with_pinned(|message| message.text().starts_with("PINNED")),
        )
    } else {
        agent.with_compaction_strategy(DefaultCompaction)
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut receiver = agent.prompt(TASK)?;
        while let Some(event) = receiver.recv().await {
            if let AgentEvent::CompactionEnded(end) = event {
                let mut figures = figures.lock().unwrap_or_else(PoisonError::into_inner);
                figures.compactions += 1;
                if let Some(fallback) = end.fallback.as_ref() {
                    println!("window {window}: a compaction fell back: {fallback}");
                }
            }
        }
        receiver.end().await.into_reply().map_err(|end| anyhow::anyhow!("{end}"))?;
        anyhow::Ok(())
    })?;
    let mut figures = figures.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(std::mem::take(&mut *figures))
}

impl Figures {
    fn count(&mut self, request: &ModelRequest) {
        let history = &request.history;
        let tokens = history.tokens();
        self.requests += 1;
        self.sent += tokens;
        self.largest = self.largest.max(tokens);
        if let Some(before) = &self.before {
            let shared = history.shared_units(before);
            self.cached += history.units().take(shared).map(|unit| unit.tokens()).sum::<u64>();
            self.breaks += u64::from(shared < before.unit_count());
        }
        self.before = Some(history.clone());
        let text = text_of(request);
        self.facts = facts_in(&text);
        self.has_task = text.contains(TASK);
        self.has_pinned = text.contains(PINNED);
    }

    fn summarize(&mut self, request: &ModelRequest) -> ScriptedReply {
        let text = text_of(request);
        self.summarizing += 1;
        self.sent += request.history.tokens();
        self.largest = self.largest.max(request.history.tokens());
        if let Some(last) = &self.summary {
            self.extends &= text.contains(last.as_str());
        }
        let facts: Vec<String> =
            facts_in(&text).into_iter().map(|fact| format!("- FACT-{fact:02}")).collect();
        let summary = format!("## Task\n- {TASK}\n## Facts\n{}", facts.join("\n"));
        self.summary = Some(summary.clone());
        ScriptedReply::text(summary)
    }
}
