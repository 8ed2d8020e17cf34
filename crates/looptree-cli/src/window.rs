//! What fills the context window of a model, for a run that ended because it is too small.

use std::path::PathBuf;

use looptree::ErrorKind;
use looptree::compat::SeedVerbs as _;
use looptree::event::Ended;
use looptree::history::Entry;

use crate::setup::Setup;

/// The number of bytes that are estimated as one token.
const BYTES_PER_TOKEN: usize = 4;

/// Returns a line with what fills the window and what the user can do, if the run ended because of it.
pub(crate) fn advice(setup: &Setup, ended: &Ended) -> Option<String> {
    let Ended::Error { kind: ErrorKind::ContextOverflow, .. } = ended else { return None };
    let (agent, files) = (&setup.agent, &*setup.instruction_files);
    let state = agent.state();
    let tokens = |bytes: usize| bytes.div_ceil(BYTES_PER_TOKEN);
    let of_files = |files: &[PathBuf]| -> usize {
        let sizes = files.iter().filter_map(|file| file.metadata().ok());
        sizes.map(|file| usize::try_from(file.len()).unwrap_or(usize::MAX)).fold(0, usize::saturating_add)
    };
    let files_tokens = tokens(of_files(files));
    let prompt = tokens(state.system_prompt.len()).saturating_sub(files_tokens);
    let tools = agent.tools();
    let described = tools.iter().map(|tool| {
        tool.name().len() + tool.description().len() + tool.parameters_schema().to_string().len()
    });
    let tools_tokens = tokens(described.sum());
    let history = agent.history();
    let prompts = history.entries().filter(|entry| entry.message().role() == "user");
    let task = prompts.last().map_or(0, Entry::tokens);
    let rest = history.tokens().saturating_sub(task);
    let window = agent.config().model.context_window;
    let window = window.map_or("a size that is not known".to_owned(), |window| format!("{window} tokens"));
    let mut parts = vec![format!("the command's own instructions {prompt}")];
    if !files.is_empty() {
        let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
        parts.push(format!("AGENTS.md ({}) {files_tokens}", names.join(", ")));
    }
    parts.push(format!("{} tools {tools_tokens}", tools.len()));
    parts.push(format!("the task {task}"));
    parts.push(format!("the rest of the conversation {rest}"));
    Some(format!(
        "the context window has {window}, and about so many tokens are needed: {}. Shorten AGENTS.md or leave it out with \
         --no-project-context, use fewer MCP servers (--no-mcp), shorten the task, or use a model with a larger window; \
         --context-window sets the size of a window that is not known",
        parts.join(", ")
    ))
}
