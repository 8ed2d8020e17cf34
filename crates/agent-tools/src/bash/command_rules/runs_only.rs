//! The words of simple command lines, and a predicate over calls of `bash`: do they run listed commands only?

use serde_json::Value;

use super::plain_line;

/// Returns a predicate that tells whether the arguments of a `bash` call run only the listed commands.
///
/// Each command is listed by the words that it begins with, such as `git status`, `cargo test` or `ls`. Every command of
/// the line must be listed, including those after `;`, `&&`, `||`, `|` and a line end. The predicate accepts a line only if it
/// consists of plain words, quotes and these separators. It does not accept expansions, globs, braces, redirections,
/// variables in front of a command, groups, functions, comments, escapes, background commands, control characters, and
/// characters outside of ASCII unless they are quoted. A test compares it with a real bash over generated and mutated
/// lines.
///
/// Use it to decide which calls need no approval. **It does not check what a listed program does with its arguments.** With
/// their options, many programs write files or run other programs: `git diff --output=FILE`, `git grep -O`, `find -exec`,
/// `sort -o`, `sed -i`, `cargo test --config`. List only programs for which no option does: `ls`, `cat`, `head`, `tail`, `wc`,
/// `grep`, `pwd`, `stat`, `du`, `cut`, `tr`, `cmp`; or combine the list with a sandbox. A program such as `cd`, `export` or `alias`
/// also changes what the commands after it do. To decide about the arguments as well, use [`plain_commands`].
///
/// ```
/// use agent_tools::bash::runs_only;
/// use serde_json::json;
/// let harmless = runs_only(["git status", "cargo test", "ls"]);
/// assert!(!harmless(&json!({"command": "cd src && ls -l"}))); // `cd` is not listed
/// assert!(harmless(&json!({"command": "git status --short; cargo test -q | ls"})));
/// assert!(!harmless(&json!({"command": "git status; rm -rf ~"})));
/// assert!(!harmless(&json!({"command": "cargo test > /etc/passwd"})));
/// assert!(!harmless(&json!({"command": "ls *"}))); // a glob may expand to an option
/// ```
pub fn runs_only<C: AsRef<str>>(
    commands: impl IntoIterator<Item = C>,
) -> impl Fn(&Value) -> bool + Clone + Send + Sync + 'static {
    let words = |c: C| c.as_ref().split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let listed: Vec<Vec<String>> = commands.into_iter().map(words).filter(|w| !w.is_empty()).collect();
    move |arguments| {
        let command = arguments.get("command").and_then(Value::as_str);
        let Some(run) = command.and_then(plain_commands) else { return false };
        !run.is_empty() && run.iter().all(|words| listed.iter().any(|known| words.starts_with(known)))
    }
}

/// Returns the words of each command of a line, or `None` unless the line consists of plain words, quotes and separators, as
/// [`runs_only`] requires. Use it for rules about the arguments of programs.
///
/// ```
/// use agent_tools::bash::plain_commands;
/// let words = plain_commands("cargo test -q && git log --grep='two words'").ok_or("the line is not plain")?;
/// assert_eq!(words, [vec!["cargo", "test", "-q"], vec!["git", "log", "--grep=two words"]]);
/// assert_eq!(plain_commands("GIT_PAGER=evil git log"), None);
/// # Ok::<(), &str>(())
/// ```
#[must_use]
pub fn plain_commands(line: &str) -> Option<Vec<Vec<String>>> {
    plain_line::commands(line)
}
