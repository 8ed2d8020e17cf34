//! A coding assistant: it reads, searches and changes files, runs commands, and asks before it changes something.
//!
//! `cargo run -p looptree-examples --example assistant` repairs a small project in a temporary folder; a script answers, the
//! tools are real and need `bash`. `-- --model anthropic/claude-sonnet-5-5 FOLDER TASK` works on a folder of yours;
//! `docs/examples.md` lists the names and keys of all providers. The tutorial in the book adds sessions.
#![expect(clippy::print_stdout, reason = "a program that talks to the user")]

use std::io::Write as _;

use anyhow::{Context as _, Result};
use looptree::hooks::Decision;
use looptree::prelude::*;
use looptree::testing::{ScriptedProvider, ScriptedReply};
use looptree::{Question, ToolPolicy, ToolRule};
use serde_json::json;

/// Makes these calls one after the other, and reads the last results for the answer.
fn script() -> ScriptedProvider {
    let calls = [
        ("list_files", json!({})),
        ("search", json!({"pattern": "Helo"})),
        ("read_file", json!({"path": "greet.sh"})),
        ("bash", json!({"command": "bash test.sh"})),
        ("edit_file", json!({"path": "greet.sh", "old_text": "Helo", "new_text": "Hello"})),
        ("bash", json!({"command": "bash test.sh"})),
        ("write_file", json!({"path": "NOTES", "content": "Corrected the greeting.\n"})),
    ];
    ScriptedProvider::responding(move |request| {
        let results = || request.messages().filter(|message| message.role() == "toolResult");
        match calls.get(results().count()) {
            Some((name, args)) => ScriptedReply::call(&format!("{}", results().count()), name, args.clone()),
            None if results().any(|result| result.text().contains("passed")) => "The test passes now.".into(),
            None => "The test does not pass.".into(),
        }
    })
}

fn ask(question: &Question) -> Result<Answer> {
    match question.approval() {
        Some(call) => println!("{call}"), // the tool and every argument, with invisible characters escaped
        None => println!("{}", looptree::event::Printable::line(&question.text)),
    }
    print!("Allow? [y/N] ");
    std::io::stdout().flush()?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    println!();
    Ok(if line.trim() == "y" { Answer::Allow } else { Answer::deny("the user did not allow this call") })
}

fn show(event: &AgentEvent) {
    match event {
        AgentEvent::ToolExecutionStart { tool_name, args, .. } => println!("[{tool_name} {args}]"),
        AgentEvent::ToolExecutionEnd(end) => println!("[-> {}]", end.result.to_text().trim_end()),
        _ => {}
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let project = tempfile::tempdir()?;
    std::fs::write(project.path().join("greet.sh"), "echo Helo, world\n")?;
    std::fs::write(
        project.path().join("test.sh"),
        "test \"$(bash greet.sh)\" = 'Hello, world' && echo passed\n",
    )?;
    let mut arguments = looptree_examples::arguments().into_iter();
    let folder = arguments.next().map_or_else(|| project.path().to_owned(), Into::into);
    let task =
        arguments.next().unwrap_or_else(|| "Make the test in test.sh pass, and write a note.".to_owned());

    let policy = ToolPolicy::new(Decision::Ask).allow(ToolRule::any().effects(Effects::ReadOnly));
    let agent = looptree_examples::agent(script())?
        .with_system_prompt(
            "You are a careful engineer. Read before you change, and run the tests afterwards.",
        )
        .with_tools(CodingTools::new(Workspace::open(folder)?).tools())
        .with_hooks(Hooks::new().policy(policy))
        .with_budget(Budget::new(BudgetLimits::none().with_tokens(2_000_000)));
    let _subscription = agent.subscribe(show);

    let mut end = agent.prompt(task)?.end().await;
    while let RunEnd::Suspended(questions) = &end {
        let question = questions.first().context("a suspended run has a question")?;
        end = agent.answer(question.id.clone(), ask(question)?)?.end().await;
    }
    println!("{}", end.into_reply()?.text());
    Ok(())
}
