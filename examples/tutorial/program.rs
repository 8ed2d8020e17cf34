use std::io::Write as _;

use looptree::hooks::Decision;
use looptree::prelude::*;
use looptree::session::sessions_folder;
use looptree::{Question, ToolPolicy, ToolRule};

type Error = Box<dyn std::error::Error>;

fn assistant(model: ModelConfig, folder: &str) -> Result<BasicAgent, Error> {
    let policy = ToolPolicy::new(Decision::Ask).allow(ToolRule::any().effects(Effects::ReadOnly));
    Ok(looptree::agent(model)
        .with_system_prompt("You are a careful engineer. Read before you change, and run the tests afterwards.")
        .with_tools(CodingTools::new(Workspace::open(folder)?).tools())
        .with_hooks(Hooks::new().policy(policy))
        .with_limits(ExecutionLimits::default().with_max_turns(200).with_max_duration(None))
        .with_budget(Budget::new(BudgetLimits::none().with_tokens(2_000_000))))
}

fn show(event: &AgentEvent) {
    if let Some(text) = event.text_delta() {
        print!("{text}");
        let _ = std::io::stdout().flush();
    }
    match event {
        AgentEvent::ToolExecutionStart { tool_name, args, .. } => println!("\n[{tool_name} {args}]"),
        AgentEvent::ToolExecutionEnd(end) if end.is_error => println!("[failed: {}]", end.result.to_text()),
        AgentEvent::RetryStart(retry) => println!("\n[{}; tries again]", retry.error.as_deref().unwrap_or_default()),
        _ => {}
    }
}

fn read_line(prompt: &str) -> std::io::Result<Option<String>> {
    print!("{prompt}");
    std::io::stdout().flush()?;
    let mut line = String::new();
    let bytes = std::io::stdin().read_line(&mut line)?;
    Ok((bytes > 0).then(|| line.trim().to_owned()))
}

fn ask(question: &Question) -> std::io::Result<Answer> {
    match question.approval() {
        Some(call) => println!("\n{call}"),
        None => println!("\n{}", looptree::event::Printable::line(&question.text)),
    }
    let is_allowed = read_line("Allow? [y/N] ")?.is_some_and(|line| line == "y");
    Ok(if is_allowed { Answer::Allow } else { Answer::deny("the user did not allow this call") })
}

/// Shows a run to its end and answers its questions.
async fn follow(agent: &AgentHandle, mut events: EventReceiver) -> Result<(), Error> {
    loop {
        while let Some(event) = events.recv().await {
            show(&event);
        }
        match events.end().await {
            RunEnd::Suspended(questions) => {
                let question = questions.first().ok_or("the run waits without a question")?;
                events = agent.answer(question.id.clone(), ask(question)?)?;
            }
            RunEnd::Completed(_) => {
                println!();
                return Ok(());
            }
            other => {
                println!("\n{other}"); // the conversation is kept, and the next prompt continues it
                return Ok(());
            }
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "ollama/qwen3-coder:30b".to_owned());
    let model = looptree::providers::catalogue::named(&name)?.with_secrets(|name| std::env::var(name).ok())?;

    let store = JsonStore::open(sessions_folder(".")?)?;
    let mut agent = assistant(model, ".")?;
    let (agent, recorder) = match arguments.next() {
        Some(id) => agent.restore_session(store, &id).await?,
        None => {
            let recorder = SessionRecorder::attach(&mut agent, store);
            (agent, recorder)
        }
    };
    println!("session {}", agent.session_id());
    if agent.state().is_suspended {
        follow(&agent, agent.resume()?).await?; // it waits for an answer, or a crash interrupted it
    }
    while let Some(line) = read_line("> ")? {
        if !line.is_empty() {
            follow(&agent, agent.prompt(line)?).await?;
        }
    }
    recorder.close().await?;
    Ok(())
}
