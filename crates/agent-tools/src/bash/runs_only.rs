//! Commands that may run without asking, for a policy.

use serde_json::Value;

use super::shell_words::written_commands;

/// Characters by which a command becomes something else than its words say: expansion, redirection, escapes.
const TOO_CLEVER: [char; 6] = ['$', '`', '<', '>', '\\', '\0'];

/// Whether the arguments of a `bash` call run nothing but these commands, each given by the words that it begins with:
/// `git status`, `cargo test`, `ls`. Every command of the line has to be one of them, those behind `;`, `&&` and `|` too.
///
/// What cannot be told from the words is not one of them: expansions, redirections, variables set before a command, wrappers
/// such as `sudo` and `env`. It is to decide what need not be asked about, and may be wrong only in that somebody is asked. What a
/// listed program does with its own arguments is not looked at: `find` and `git` can both be told to run others.
///
/// ```
/// use agent_tools::bash::runs_only;
/// use serde_json::json;
/// let harmless = runs_only(["git status", "cargo test", "ls"]);
/// assert!(!harmless(&json!({"command": "cd src && ls -l"}))); // `cd` is not listed
/// assert!(harmless(&json!({"command": "git status --short; cargo test -q | ls"})));
/// assert!(!harmless(&json!({"command": "git status; rm -rf ~"})));
/// assert!(!harmless(&json!({"command": "cargo test > /etc/passwd"})));
/// ```
pub fn runs_only<C: AsRef<str>>(
    commands: impl IntoIterator<Item = C>,
) -> impl Fn(&Value) -> bool + Clone + Send + Sync + 'static {
    let words = |c: C| c.as_ref().split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let listed: Vec<Vec<String>> = commands.into_iter().map(words).filter(|w| !w.is_empty()).collect();
    move |arguments| {
        let Some(command) = arguments.get("command").and_then(Value::as_str) else { return false };
        if command.contains(TOO_CLEVER) || command.split_whitespace().any(sets_a_variable) {
            return false;
        }
        let run: Vec<_> = written_commands(command).into_iter().filter(|words| !words.is_empty()).collect();
        !run.is_empty() && run.iter().all(|words| listed.iter().any(|known| words.starts_with(known)))
    }
}

/// `NAME=value`, which before a command changes what it does.
fn sets_a_variable(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '+' | '[' | ']'))
    })
}

#[cfg(test)]
mod tests;
