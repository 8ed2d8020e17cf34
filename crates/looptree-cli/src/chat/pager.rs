//! The user's pager.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use looptree::tools::program::{Program, ProgramError, SearchPath};

use crate::programs::search_path;
use crate::screen::Styled;
use crate::settings::Settings;

/// The pager of the chat, which is found before the first run.
pub(super) struct Pager {
    program: Result<Program, ProgramError>,
    args: Vec<String>,
    search: SearchPath,
}

impl Pager {
    /// Finds the program that `PAGER` names, or `less`.
    pub(super) fn find(settings: &Settings, root: &Path) -> Self {
        let named = std::env::var("PAGER").ok().filter(|pager| !pager.trim().is_empty());
        let mut words = named.as_deref().unwrap_or("less -R").split_whitespace().map(str::to_owned);
        let search = search_path(settings, root);
        let program = search.find(words.next().unwrap_or_default());
        Self { program, args: words.collect(), search }
    }

    /// Shows a text. Returns whether there is a pager, and the reason if it is not used for another one.
    pub(super) fn show(&self, text: &Styled) -> Result<bool, ProgramError> {
        let program = match &self.program {
            Ok(program) => program,
            Err(ProgramError::NotFound { .. }) => return Ok(false),
            Err(error) => return Err(error.clone()),
        };
        let mut command = program.command()?;
        // The pager may start programs itself.
        command.args(&self.args).stdin(Stdio::piped()).env("PATH", self.search.variable());
        let Ok(mut child) = command.spawn() else { return Ok(false) };
        if let Some(mut input) = child.stdin.take() {
            // A pager that is quit early reads no more.
            let _ = input.write_all(text.as_str().as_bytes());
            let _ = input.write_all(b"\n");
        }
        Ok(child.wait().is_ok_and(|status| status.success()))
    }
}
