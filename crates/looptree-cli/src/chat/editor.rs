//! The line that the user types between runs: several lines, pastes, history, completion.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use etcetera::BaseStrategy as _;
use reedline::{
    ColumnarMenu, DefaultCompleter, EditCommand, Emacs, FileBackedHistory, KeyCode, KeyModifiers,
    MenuBuilder as _, Prompt, PromptEditMode, PromptHistorySearch, Reedline, ReedlineEvent, ReedlineMenu,
    Signal, SimpleMatchHighlighter, default_emacs_keybindings,
};

use super::commands;
use crate::screen::Screen;
use crate::settings::platform;

/// Prompts that are remembered.
const HISTORY: usize = 1_000;
/// What Ctrl-C sends, so that the text is still there to look at.
const CTRL_C: &str = "ctrl-c";
const MENU: &str = "commands";

/// What the user entered.
#[derive(Debug)]
pub(super) enum Entered {
    Text(String),
    Nothing,
    /// Ctrl-C on an empty line.
    Interrupt,
    End,
}

pub(super) struct Editor {
    line: Reedline,
    screen: Screen,
    ending: Arc<AtomicBool>,
}

struct Sign;

impl Prompt for Sign {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _mode: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("> ")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("  ")
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Owned(format!("history: {}> ", search.term))
    }
}

/// Returns the file with the history; `None` if there is no place for it.
fn history_file() -> Option<PathBuf> {
    let platform = platform()?;
    let folder = platform.data_dir().join("looptree");
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(&folder).ok()?;
    let file = folder.join("history.txt");
    // Only the user may read the prompts.
    let mut options = std::fs::OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(&file).ok()?;
    Some(file)
}

impl Editor {
    pub(super) fn new(screen: &Screen, ending: Arc<AtomicBool>) -> Self {
        let mut keys = default_emacs_keybindings();
        keys.add_binding(
            KeyModifiers::CONTROL,
            KeyCode::Char('c'),
            ReedlineEvent::ExecuteHostCommand(CTRL_C.to_owned()),
        );
        keys.add_binding(
            KeyModifiers::NONE,
            KeyCode::Tab,
            ReedlineEvent::UntilFound(vec![ReedlineEvent::Menu(MENU.to_owned()), ReedlineEvent::MenuNext]),
        );
        // As in other agents: a terminal cannot tell Shift-Enter from Enter.
        keys.add_binding(
            KeyModifiers::CONTROL,
            KeyCode::Char('j'),
            ReedlineEvent::Edit(vec![EditCommand::InsertNewline]),
        );
        let mut completer = DefaultCompleter::with_inclusions(&['/']).set_min_word_len(1);
        completer.insert(commands::names().map(str::to_owned).collect());
        let mut line = Reedline::create()
            .use_bracketed_paste(true)
            .with_ansi_colors(screen.colors)
            .with_edit_mode(Box::new(Emacs::new(keys)))
            // The text keeps the color of the terminal, whose background may be light.
            .with_highlighter(Box::new(SimpleMatchHighlighter::default()))
            .with_completer(Box::new(completer))
            .with_quick_completions(true)
            .with_menu(ReedlineMenu::EngineCompleter(Box::new(
                ColumnarMenu::default().with_name(MENU).with_marker("> "),
            )))
            .with_break_signal(Arc::clone(&ending));
        let history = history_file().and_then(|file| FileBackedHistory::with_file(HISTORY, file).ok());
        if let Some(history) = history {
            line = line.with_history(Box::new(history));
        }
        Self { line, screen: screen.clone(), ending }
    }

    /// Reads what the user enters; the line begins with `draft`.
    pub(super) fn line(&mut self, draft: &str) -> Entered {
        if !draft.is_empty() {
            self.line.run_edit_commands(&[EditCommand::InsertString(draft.to_owned())]);
        }
        loop {
            match self.line.read_line(&Sign) {
                Ok(Signal::Success(text)) if text.trim().is_empty() => return Entered::Nothing,
                Ok(Signal::Success(text)) => {
                    if let Err(error) = self.line.sync_history() {
                        self.screen.line(format!("the history cannot be stored: {error}"));
                    }
                    return Entered::Text(text.trim_end().to_owned());
                }
                Ok(Signal::HostCommand(command)) if command == CTRL_C => {
                    if self.line.current_buffer_contents().is_empty() {
                        self.screen.line("");
                        return Entered::Interrupt;
                    }
                    self.line.run_edit_commands(&[EditCommand::Clear]);
                }
                Ok(Signal::CtrlC) => return Entered::Interrupt,
                Ok(Signal::CtrlD) => return Entered::End,
                Ok(Signal::ExternalBreak(_)) => {
                    self.ending.store(true, Ordering::Relaxed);
                    return Entered::End;
                }
                Ok(_) => {}
                Err(error) => {
                    self.screen.error_line(format!("the terminal cannot be read: {error}"));
                    return Entered::End;
                }
            }
        }
    }

    /// Clears the screen of the terminal.
    pub(super) fn clear_screen(&mut self) {
        if let Err(error) = self.line.clear_screen() {
            self.screen.line(format!("the screen cannot be cleared: {error}"));
        }
    }
}
