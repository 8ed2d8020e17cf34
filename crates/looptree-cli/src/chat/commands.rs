//! The slash commands.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use looptree::compat::SeedVerbs as _;
use looptree::context::{CompactionChange, CompactionContext, CompactionStrategy as _};
use looptree::prelude::*;
use looptree::tools::file_change::changes_of;
use looptree::tools::plan;

use super::Chat;
use super::editor::Editor;
use crate::approval::{Approvals, described};
use crate::args::Approve;
use crate::choose::{Access, access};
use crate::lists::known_models;
use crate::screen::{Style, Styled, brief, diff_lines};
use crate::setup::{compaction, context_of, tool_names};
use crate::text::{tokens, wrap};
use crate::work::Meter;
use crate::{choose, money};

/// A command: its name, its arguments, and what it does.
const COMMANDS: &[(&str, &str, &str)] = &[
    ("/model", "[NAME]", "shows the model and those with a key, or uses another one from the next prompt on"),
    ("/plan", "[on|off]", "shows the plan; on: tools that change something are denied; off: they are not"),
    ("/cost", "", "shows tokens and cost of this chat and of the session"),
    ("/diff", "", "shows what the session has changed in files"),
    ("/tree", "", "shows the session turn by turn; * marks where you are"),
    ("/rewind", "N", "goes back to the end of turn N, 0 for the beginning; later turns stay in the session"),
    ("/fork", "N", "starts a new session from the end of turn N; this session does not change"),
    ("/compare", "A B", "compares the conversations at turns A and B"),
    ("/compact", "", "replaces the older conversation by a summary"),
    ("/retry", "", "calls the model again after a run that failed or was interrupted"),
    ("/tools", "", "shows the tools, and what runs without a question"),
    ("/mcp", "", "shows the MCP servers and whether they work"),
    ("/clear", "", "clears the screen; the conversation stays"),
    ("/help", "", "shows this"),
    ("/quit", "", "ends the chat"),
];

/// The share of the conversation that a compaction on demand leaves, in percent.
const COMPACT_TO: u64 = 40;
/// The least that a compaction leaves.
const MIN_TOKENS: u64 = 1_000;

/// Returns the names of the commands.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|(name, _, _)| *name)
}

/// Returns the words of a command; `None` for a prompt. A path such as `/tmp/x` is no command.
pub(super) fn parse(text: &str) -> Option<Vec<String>> {
    let line = text.trim();
    let first = line.split_whitespace().next()?;
    let is_command = first.starts_with('/') && !first.get(1..)?.contains('/') && !line.contains('\n');
    is_command.then(|| line.split_whitespace().map(str::to_owned).collect())
}

/// Describes which calls need an approval.
pub(super) fn asked_about(approvals: &Approvals) -> &'static str {
    if approvals.plan_only() {
        return "plan only: tools that change something are denied";
    }
    let asks_outside = approvals.outside().map(|outside| outside.approve != Approve::None);
    match (approvals.approve(), asks_outside) {
        (Approve::Ask, None) => "you are asked before edits and commands",
        (Approve::Ask, Some(_)) => "you are asked before edits, commands and tools of MCP servers",
        (Approve::Commands, None) => "you are asked before commands, not before edits",
        (Approve::Commands, Some(_)) => {
            "you are asked before commands and tools of MCP servers, not before edits"
        }
        (Approve::None, Some(true)) => {
            "you are asked only before tools of MCP servers, which the sandbox does not confine"
        }
        (Approve::None, _) => "you are not asked: every call runs",
    }
}

impl Chat<'_> {
    /// Executes a command. Returns whether the chat continues.
    pub(super) async fn command(&mut self, words: Vec<String>, editor: &mut Editor) -> Result<bool> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            ["/quit" | "/exit"] => return Ok(false),
            ["/help"] => self.help(),
            ["/clear"] => editor.clear_screen(),
            ["/model"] => {
                self.show_model();
                self.show_models();
            }
            ["/model", name] => self.set_model(name)?,
            ["/plan"] => self.show_plan(),
            ["/plan", "on"] => self.plan_only(true),
            ["/plan", "off"] => self.plan_only(false),
            ["/cost"] => self.cost()?,
            ["/diff"] => self.diff()?,
            ["/tools"] => self.tools(),
            ["/mcp"] => self.servers(),
            ["/compact"] => self.compact().await?,
            ["/retry"] => self.retry().await?,
            ["/tree"] => self.tree()?,
            ["/rewind", n] => self.rewind(n)?,
            ["/fork", n] => self.fork(n).await?,
            ["/compare", a, b] => self.compare(a, b)?,
            [word @ ("/rewind" | "/fork"), ..] => {
                bail!("{word} wants the number of a turn; /tree shows them")
            }
            ["/compare", ..] => bail!("/compare wants the numbers of two turns; /tree shows them"),
            ["/plan", ..] => bail!("/plan is followed by on, off or nothing"),
            [word, ..] if names().any(|name| name == word) => {
                bail!("{word} takes fewer words; /help shows them")
            }
            [word, ..] => match names().find(|name| strsim::damerau_levenshtein(name, word) <= 2) {
                Some(name) => bail!("there is no command {word}; a similar one is {name}"),
                None => bail!("there is no command {word}; /help lists them"),
            },
            [] => {}
        }
        Ok(true)
    }

    /// Continues the conversation without a new message.
    async fn retry(&mut self) -> Result<()> {
        let events = self.setup.agent.handle().send(());
        let events = events.context("there is no failed or interrupted run to repeat")?;
        self.here.replace(None);
        self.work(events).await.map(|_| ())
    }

    fn help(&self) {
        for (name, arguments, does) in COMMANDS {
            let head = format!("{name} {arguments}");
            let head = head.trim_end();
            if self.screen.text_width() < 60 {
                self.screen.line(self.screen.paint(Style::Bold, head));
                self.screen.paragraph(Style::Plain, "  ", *does);
            } else {
                let mut head = format!("  {head:<16} ");
                for part in wrap(does, self.screen.text_width().saturating_sub(head.len())) {
                    self.screen.line(format!("{head}{part}"));
                    head = " ".repeat(head.len());
                }
            }
        }
        for text in [
            "Alt-Enter or Ctrl-J begins a new line, and a paste is one prompt. Text that you type during a run is sent into it with Enter.",
            "Ctrl-C clears the line, then interrupts the run, and so does Esc during a run. Ctrl-C twice on an empty line ends the chat, and so does Ctrl-D. Ctrl-R searches the history.",
        ] {
            self.screen.paragraph(Style::Dim, "", text);
        }
    }

    fn show_model(&self) {
        let model = self.setup.agent.model();
        let window =
            model.context_window.map_or_else(|| "unknown".to_owned(), |window| tokens(window.into()));
        let text = format!("{}/{}, context window {window}", model.provider, model.id);
        self.screen.paragraph(Style::Plain, "", &text);
    }

    /// Lists the models that the user has a key for. What a local server has is not known.
    fn show_models(&self) {
        let names: Vec<String> = known_models("")
            .into_iter()
            .filter(|model| access(&model.provider) == Access::Key)
            .map(|model| format!("{}/{}", model.provider, model.id))
            .collect();
        let text = match &names[..] {
            [] => "no key of a provider is set; `looptree models` lists the known models".to_owned(),
            names => format!("models with a key: {}", names.join(", ")),
        };
        self.screen.paragraph(Style::Dim, "", &text);
    }

    fn set_model(&mut self, name: &str) -> Result<()> {
        let chosen = choose::by_settings(&self.settings.with_model_name(name))?;
        for note in &chosen.notes {
            self.screen.paragraph(Style::Dim, "", note);
        }
        let model = chosen.model;
        let context = context_of(&model);
        self.setup.agent.set_model(model);
        self.setup.agent.set_config(|config| config.policy.context = Some(context));
        self.show_model();
        Ok(())
    }

    fn plan_only(&self, only: bool) {
        self.setup.approvals.set_plan_only(only);
        self.screen.paragraph(Style::Plain, "", asked_about(&self.setup.approvals));
    }

    fn show_plan(&self) {
        self.screen.paragraph(Style::Dim, "", asked_about(&self.setup.approvals));
        match plan::latest(&self.setup.agent.history()) {
            Some(plan) if !plan.steps.is_empty() => self.screen.plan(&plan),
            _ => self.screen.line("there is no plan"),
        }
    }

    fn cost(&self) -> Result<()> {
        let chat = money::summary(&self.meter.usage, &self.meter.cost);
        self.screen.paragraph(Style::Plain, "", format!("this chat: {chat}"));
        if let Ok(session) = self.session() {
            let summary = looptree::session::SessionSummary::of(&session);
            let usage = summary.usage;
            let cost = if summary.cost_micros > 0 {
                format!(", {}", money::dollars(summary.cost_micros))
            } else {
                String::new()
            };
            let (input, output) = (tokens(usage.prompt_tokens()), tokens(usage.output));
            self.screen.paragraph(
                Style::Plain,
                "",
                format!("the session: {input} tokens in, {output} out{cost}"),
            );
        }
        if let Some(budget) = self.setup.agent.config().services.budget {
            self.screen.paragraph(Style::Plain, "", money::spent(&budget));
        }
        Ok(())
    }

    fn diff(&self) -> Result<()> {
        let session = self.session()?;
        let mut lines = Vec::new();
        for event in
            session.loops.iter().flat_map(|record| record.events.iter()).filter_map(|event| event.known())
        {
            let AgentEvent::ToolExecutionEnd(end) = event else { continue };
            if end.is_error {
                continue;
            }
            for change in changes_of(&end.result.details) {
                let title = brief(&change.path) + format!(": +{} -{}", change.added, change.removed);
                lines.push(self.screen.paint(Style::Bold, title));
                lines.extend(diff_lines(&change.diff, self.screen, Some(usize::MAX)));
            }
        }
        if lines.is_empty() {
            self.screen.line("the session has changed no file with its file tools");
            return Ok(());
        }
        let is_short = lines.len() < self.screen.rows().saturating_sub(2);
        let paged = if is_short { Ok(false) } else { self.pager.show(&Styled::join(lines.clone())) };
        if let Err(error) = &paged {
            self.screen.line(error.to_string());
        }
        if !paged.unwrap_or_default() {
            lines.iter().for_each(|line| self.screen.line(line));
        }
        Ok(())
    }

    fn tools(&self) {
        let tools = self.setup.agent.tools();
        let names = tool_names(&self.setup.agent);
        let of_servers: Vec<_> = self.setup.servers.with_tools(&names).collect();
        let show = |is_wanted: &dyn Fn(&str) -> bool| {
            for tool in tools.iter().filter(|tool| is_wanted(tool.name())) {
                let text = Styled::from(format!("{}: ", tool.name())) + brief(tool.description());
                self.screen.paragraph(Style::Plain, "  ", text);
            }
        };
        show(&|name| !of_servers.iter().any(|(_, tools)| tools.contains(&name)));
        for (server, tools) in &of_servers {
            self.screen.paragraph(Style::Plain, "", format!("of the MCP server {server}:"));
            show(&|name| tools.contains(&name));
        }
        self.screen.paragraph(Style::Dim, "", asked_about(&self.setup.approvals));
        for grant in self.setup.approvals.grants() {
            self.screen.paragraph(
                Style::Dim,
                "",
                Styled::from("allowed without a question: ") + described(&grant),
            );
        }
    }

    /// Lists the MCP servers with their states.
    fn servers(&self) {
        let states = self.setup.servers.states(&tool_names(&self.setup.agent));
        if states.is_empty() {
            let text = "no MCP server is configured; the table mcp_servers of a configuration file or --mcp-config adds some";
            self.screen.paragraph(Style::Plain, "", text);
        }
        for state in states {
            self.screen.paragraph(Style::Plain, "  ", &state);
        }
    }

    /// Replaces the older conversation by a summary, at once.
    async fn compact(&mut self) -> Result<()> {
        let agent = &self.setup.agent;
        let (history, config) = (agent.history(), agent.config());
        let before = history.tokens();
        let budget = (before * COMPACT_TO / 100).max(MIN_TOKENS);
        if budget >= before {
            bail!("the conversation has about {before} tokens; there is nothing to shorten");
        }
        let context = context_of(&config.model);
        let provider = config.services.provider.clone();
        let provider = match &config.services.budget {
            Some(account) => Arc::new(account.meter(provider, config.services.environment.clone())),
            None => provider,
        };
        let cx = CompactionContext::new(budget).with_provider(provider, config.model.clone());
        self.screen.line("summarizing the conversation …");
        let strategy = compaction();
        let outcome = tokio::select! {
            outcome = strategy.compact(&history, &context, &cx) => outcome,
            _ = tokio::signal::ctrl_c() => bail!("interrupted; the conversation stays as it was"),
        };
        let outcome = outcome.context("the conversation stays as it was")?;
        let (usage, cost) = (outcome.usage, outcome.usage.cost(&config.model.cost));
        self.meter.add(&Meter { usage, cost });
        let new = match outcome.change {
            CompactionChange::Splices(splices) => history.spliced(&splices)?.to_vec(),
            CompactionChange::Messages(messages) => {
                messages.iter().map(|message| (**message).clone()).collect()
            }
            _ => bail!("the compaction gave no conversation"),
        };
        let agent = &self.setup.agent;
        agent.replace_messages(new)?;
        let after = agent.history().tokens();
        let paid = money::summary(&usage, &cost);
        self.screen.line(format!("conversation shortened: {before} -> {after} tokens; the summary: {paid}"));
        Ok(())
    }
}
