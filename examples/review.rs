//! Three reviewers read a text at the same time, each with its own prompt, and a judge selects the best review.
//!
//! `cargo run -p looptree-examples --example review` answers from a script. `-- --model anthropic/claude-sonnet-5-5` asks a
//! model; `docs/examples.md` lists the names and keys of all providers. The example `branches` adds folders and sessions.
#![expect(clippy::print_stdout, reason = "a program that talks to the user")]

use anyhow::Result;
use looptree::evaluation::LlmJudgeEvaluation;
use looptree::prelude::*;
use looptree::provider::ModelRequest;
use looptree::testing::{ScriptedProvider, ScriptedReply};
use looptree::{EventSender, Message};

const CODE: &str = "fn mean(values: &[u32]) -> u32 { values.iter().sum::<u32>() / values.len() as u32 }";

const REVIEWERS: [(&str, &str); 3] = [
    ("errors", "You look for wrong results and panics."),
    ("style", "You look for names and structure."),
    ("speed", "You look for slow code."),
];

/// Answers as the reviewer whose prompt is in the request, and as the judge.
fn script(request: &ModelRequest) -> ScriptedReply {
    let prompt = request.system_prompt.as_ref();
    let question = request.messages().last().map(Message::text).unwrap_or_default();
    ScriptedReply::text(if prompt.contains("panics") {
        "An empty slice divides by zero, and the sum can overflow."
    } else if prompt.contains("structure") {
        "The function is short and clear."
    } else if prompt.contains("slow") {
        "One pass over the slice: nothing to improve."
    } else if question.contains("divides by zero") {
        "Response 1 names two real errors." // the judge sees all reviews
    } else {
        "The review is taken into account."
    })
}

#[tokio::main]
async fn main() -> Result<()> {
    let agent = looptree_examples::agent(ScriptedProvider::responding(script))?;
    let branches = REVIEWERS.map(|(_, prompt)| {
        BranchSpec::asking(format!("Review this in at most two sentences: {CODE}")).with_system_prompt(prompt)
    });
    // The judge has the model of the agent; a stronger one is a change of this configuration.
    let judge = LlmJudgeEvaluation::new(agent.config());
    let result = agent.explore_and_adopt(branches, judge, EventSender::none()).await?;

    for (outcome, (name, _)) in result.outcomes().zip(REVIEWERS) {
        println!("{name}: {}", outcome.final_text().unwrap_or_default());
    }
    if let Some(reason) = result.decision.reason() {
        println!("the judge was not followed: {reason}");
    }
    let (name, _) = REVIEWERS.get(result.selected_index()).copied().unwrap_or_default();
    println!("selected: {name}");

    // The agent continues from the selected branch: its review is the last message of the conversation.
    println!("{} messages, then: {}", agent.messages().len(), agent.chat("Thank you.").await?);
    Ok(())
}
