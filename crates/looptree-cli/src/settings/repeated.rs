//! Commands for the user to paste, with the flags of this command that the next one needs, too.

use std::path::Path;

use super::Settings;
use super::price::EVERY;
use crate::args::Flags;

/// The flags that are repeated.
#[derive(Debug, Clone, Default)]
pub(super) struct Repeated {
    /// Those that select files and folders.
    places: String,
    /// Those that select the model.
    model: String,
    /// Those that select MCP servers, whose tools an open run needs.
    servers: String,
}

impl Repeated {
    pub(super) fn of(flags: &Flags) -> Self {
        let mut places = String::new();
        let cwd = (flags.cwd != Path::new(".")).then_some(&flags.cwd);
        for (flag, path) in
            [("--cwd", cwd), ("--config", flags.config.as_ref()), ("--sessions", flags.sessions.as_ref())]
        {
            add(&mut places, flag, path.map(|path| path.to_string_lossy()).as_deref());
        }
        add(&mut places, "--profile", flags.profile.as_deref());
        let mut model = String::new();
        add(&mut model, "--base-url", flags.base_url.as_deref());
        add(&mut model, "--model", flags.model.as_deref());
        add(&mut model, "--api-key-env", flags.api_key_env.as_deref());
        let window = flags.context_window.map(|tokens| tokens.to_string());
        add(&mut model, "--context-window", window.as_deref());
        for (name, price) in &flags.price {
            let text = if name == EVERY { price.to_string() } else { format!("{name}={price}") };
            add(&mut model, "--price", Some(&text));
        }
        let mut servers = if flags.no_mcp { " --no-mcp".to_owned() } else { String::new() };
        for file in &flags.mcp_config {
            add(&mut servers, "--mcp-config", Some(&file.to_string_lossy()));
        }
        Self { places, model, servers }
    }
}

impl Settings {
    /// Returns the command line of a command that finds the same sessions.
    pub(crate) fn command(&self, arguments: &str) -> String {
        format!("looptree{} {arguments}", self.repeated.places)
    }

    /// Returns the command line that continues a session with the same model and the same MCP servers.
    pub(crate) fn resume(&self, id: &str) -> String {
        let Repeated { places, model, servers } = &self.repeated;
        format!("looptree{places}{model}{servers} --resume {id}")
    }
}

fn add(line: &mut String, flag: &str, value: Option<&str>) {
    let Some(value) = value else { return };
    line.push_str(&format!(" {flag} {}", quoted(value)));
}

/// Quotes a word for a POSIX shell, if it needs quotes.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:,=@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests;
