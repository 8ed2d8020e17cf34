//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use looptree::ThinkingLevel;
use looptree::budget::Money;

use crate::serve::ServeArgs;
use crate::settings::{Price, named_price};

/// A coding agent in your terminal and in scripts.
///
/// Without a task it starts a chat; without a key and a local model server it plays a recorded demo.
#[derive(Debug, Parser)]
#[command(name = "looptree", version, max_term_width = 100, after_help = AFTER)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) run: RunArgs,
    #[command(flatten)]
    pub(crate) flags: Flags,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

const AFTER: &str = "Exit codes: 0 done, 1 the run or the command failed, 2 wrong command line or configuration, or no model, \
3 a question waits, 4 a part of a damaged session is lost, 130 interrupted, 141 nobody reads the output.";

/// The task and how it is run.
#[derive(Debug, Args)]
#[command(next_help_heading = "Task")]
pub(crate) struct RunArgs {
    /// The task. In a terminal the chat begins with it. After `--` it may begin with a dash or be the name of a command.
    pub(crate) task: Option<String>,
    /// Works on the task without a chat: the answer goes to the standard output, everything else to the standard error.
    #[arg(short, long)]
    pub(crate) print: bool,
    /// Prints the events of the run as JSON lines instead of the answer (docs/schema/events-v1.json). Implies --print.
    #[arg(long)]
    pub(crate) json: bool,
    /// Prints only errors on the standard error, with --print.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Does not read the standard input.
    #[arg(long)]
    pub(crate) no_stdin: bool,
    /// Continues the newest session of this directory.
    #[arg(short = 'c', long = "continue", conflicts_with = "resume")]
    pub(crate) go_on: bool,
    /// Continues a session: its id or the beginning of it. Without a value the newest sessions are listed to choose from.
    #[arg(short, long, value_name = "ID", num_args = 0..=1, default_missing_value = "")]
    pub(crate) resume: Option<String>,
    /// Stores a question in the session and ends with code 3. `looptree answer` answers it, --resume continues.
    #[arg(long, conflicts_with = "yes")]
    pub(crate) wait: bool,
    /// Records the replies of the model and the results of the tools to a new file, for `looptree replay`.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["go_on", "resume"])]
    pub(crate) record: Option<PathBuf>,
    /// Plays the recorded demo, also if there is a model.
    #[arg(long)]
    pub(crate) demo: bool,
}

/// The settings. Each can also be set in a configuration file; a flag takes precedence.
#[derive(Debug, Args, Default)]
#[command(next_help_heading = "Settings")]
pub(crate) struct Flags {
    /// The directory to work in.
    #[arg(long, value_name = "DIR", default_value = ".", global = true)]
    pub(crate) cwd: PathBuf,
    /// The model, as provider/id: anthropic/claude-sonnet-5-5, ollama/qwen3-coder:30b, local/NAME with --base-url.
    #[arg(short, long, value_name = "MODEL", global = true)]
    pub(crate) model: Option<String>,
    /// The address of the model's API, for example http://localhost:8080/v1.
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) base_url: Option<String>,
    /// The environment variable with the key, instead of the provider's usual one.
    #[arg(long, value_name = "VARIABLE", global = true)]
    pub(crate) api_key_env: Option<String>,
    /// The context window of the model in tokens, for one that the catalogue does not know or a server with less.
    #[arg(long, value_name = "TOKENS", global = true)]
    pub(crate) context_window: Option<u32>,
    /// How much the model thinks.
    #[arg(long, value_name = "LEVEL", global = true, value_parser = thinking)]
    pub(crate) thinking: Option<ThinkingLevel>,
    /// Which calls need an approval: edits and commands, commands only, or none. A tool of an MCP server counts as a command.
    #[arg(long, value_enum, value_name = "WHAT", global = true)]
    pub(crate) approve: Option<Approve>,
    /// No call needs an approval: the same as --approve none.
    #[arg(short, long, global = true, conflicts_with = "approve")]
    pub(crate) yes: bool,
    /// The sandbox of commands; without a value bubblewrap, which must be installed. In it, no call needs an approval, except those
    /// of MCP servers, which it does not confine.
    #[arg(long, value_enum, value_name = "KIND", num_args = 0..=1, default_missing_value = "auto", require_equals = true, global = true)]
    pub(crate) sandbox: Option<SandboxChoice>,
    /// A further path that commands in the sandbox may read.
    #[arg(long, value_name = "PATH", global = true)]
    pub(crate) sandbox_read: Vec<PathBuf>,
    /// A further path that commands in the sandbox may read and write.
    #[arg(long, value_name = "PATH", global = true)]
    pub(crate) sandbox_write: Vec<PathBuf>,
    /// Permits the network in the sandbox.
    #[arg(long, global = true)]
    pub(crate) sandbox_network: bool,
    /// Only plans: tools that change something are denied.
    #[arg(long, global = true)]
    pub(crate) plan_only: bool,
    /// The folder with the sessions, instead of one in the user's data directory.
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) sessions: Option<PathBuf>,
    /// The maximum cost, for example 0.50. A chat then requests more; without a terminal the run ends.
    #[arg(long, value_name = "MONEY", global = true, value_parser = money)]
    pub(crate) budget: Option<Money>,
    /// The prices of a model, in dollars per million tokens: INPUT,OUTPUT[,CACHE_READ[,CACHE_WRITE]], or 0 for a free one.
    /// Without MODEL they are those of the model of the run.
    #[arg(long, value_name = "[MODEL=]PRICES", global = true, value_parser = named_price)]
    pub(crate) price: Vec<(String, Price)>,
    /// The maximum number of tokens, prompts and answers together.
    #[arg(long, value_name = "N", global = true)]
    pub(crate) max_tokens_total: Option<u64>,
    /// The maximum number of turns of a run.
    #[arg(long, value_name = "N", global = true)]
    pub(crate) max_turns: Option<u32>,
    /// After how many equal calls with equal results in a row a run ends; 0 for no limit.
    #[arg(long, value_name = "N", global = true)]
    pub(crate) max_repeats: Option<u32>,
    /// How often a model call that failed is repeated.
    #[arg(long, value_name = "N", global = true)]
    pub(crate) max_retries: Option<u32>,
    /// The longest wait, in seconds, that a provider may ask for before a repetition. The run ends if it asks for more; 0 is no
    /// limit.
    #[arg(long, value_name = "SECONDS", global = true)]
    pub(crate) max_retry_wait: Option<u64>,
    /// A folder with skills, in addition to .looptree/skills and the user's.
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) skills: Vec<PathBuf>,
    /// A file with MCP servers (mcp.json), in addition to those of the settings. A server of the same name is replaced.
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) mcp_config: Vec<PathBuf>,
    /// Leaves out the MCP servers of the configuration files. Those of --mcp-config are used.
    #[arg(long, global = true)]
    pub(crate) no_mcp: bool,
    /// Leaves out AGENTS.md and the skills of the project.
    #[arg(long, global = true)]
    pub(crate) no_project_context: bool,
    /// When to use colors.
    #[arg(long, value_enum, value_name = "WHEN", global = true)]
    pub(crate) color: Option<Color>,
    /// A profile of the configuration files.
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) profile: Option<String>,
    /// The user's configuration file, instead of the one in the user's configuration directory.
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,
    /// Uses all settings of the project's configuration file, including those that loosen the policy or the sandbox.
    #[arg(long, global = true)]
    pub(crate) trust_project: bool,
}

/// The calls that need an approval.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, serde::Deserialize, serde::Serialize,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Approve {
    /// Edits, commands and tools of MCP servers need an approval.
    Ask,
    /// Only commands and tools of MCP servers need an approval.
    Commands,
    /// No call needs an approval.
    None,
}

/// The sandbox that is selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SandboxChoice {
    /// Commands have all permissions of the user.
    None,
    /// bubblewrap, which must be installed.
    Auto,
    /// Landlock, which Linux has built in.
    Landlock,
    /// bubblewrap, a program for Linux.
    Bwrap,
}

/// When colors are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Color {
    /// In a terminal, unless `NO_COLOR` is set.
    Auto,
    /// Always, also in a file.
    Always,
    /// Never, also in a terminal.
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Lists, searches, shows, forks, exports, salvages and deletes the sessions of a directory.
    Sessions {
        #[command(subcommand)]
        what: Option<Sessions>,
    },
    /// Writes a session as one HTML page: the tree of loops, a timeline, messages, tool calls, cost.
    View {
        /// The session: its id or the beginning of it.
        session: String,
        /// Another session, which the page shows beside it.
        #[arg(long, value_name = "SESSION")]
        compare: Option<String>,
        /// The file; `-` is the standard output. Without it, a file named after the session, or the standard output if it is
        /// not a terminal. Only an earlier page is replaced.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Lists the questions that wait in the sessions of a directory.
    Pending,
    /// Stores the answer to the first question of a session and runs nothing; --resume continues the session.
    Answer {
        /// The session: its id or the beginning of it.
        id: String,
        /// Whether the call may run.
        #[arg(value_enum)]
        answer: YesNo,
        /// The reason of a no, which the model reads.
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// The hash that `looptree pending` shows for the call, or its first 12 digits; required to answer yes to a call.
        #[arg(long)]
        hash: Option<String>,
    },
    /// Replays a recorded task without a model and without tools, and shows the first difference.
    Replay {
        /// The file that --record wrote.
        file: PathBuf,
    },
    /// Tests what an OpenAI-compatible server supports. A key is read from CHECK_API_KEY, or from --api-key-env.
    Check {
        /// The address below which /chat/completions is, for example http://localhost:8080/v1.
        url: String,
        /// The longest wait for one answer, in seconds.
        #[arg(long, value_name = "SECONDS", default_value_t = 120)]
        patience: u64,
    },
    /// Lists the known models with context windows and prices, and whether there is a key.
    Models {
        /// Shows only models whose provider or id contains this text.
        filter: Option<String>,
    },
    /// Shows the effective settings and where each comes from.
    Config {
        /// Shows only the paths of the configuration files and of the folder with the sessions.
        #[arg(long)]
        paths: bool,
    },
    /// Serves an editor as its agent: the Agent Client Protocol on the standard input and output.
    Acp,
    /// Serves the agent to other agents as an MCP server: on the standard input and output, or over HTTP.
    Mcp {
        /// Listens on this address of HTTP instead. The token is read from LOOPTREE_MCP_TOKEN; without it a random one is printed.
        #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:8642", require_equals = true)]
        http: Option<SocketAddr>,
        /// A further name by which clients may call the server, if it is not this machine's.
        #[arg(long, value_name = "NAME", requires = "http")]
        allowed_host: Vec<String>,
    },
    /// Serves the agent over HTTP: conversations, events, approvals, files, and the routes of OpenAI's clients.
    Serve(ServeArgs),
    /// Prints the completions of a shell.
    Completions {
        /// The shell that reads them.
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Prints the manual page, for packages of the command.
    #[command(hide = true)]
    Man {
        /// Writes the page and one for each command to this directory instead.
        #[arg(value_name = "DIR")]
        folder: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Sessions {
    /// Lists the sessions, the newest first.
    List {
        /// How many to list.
        #[arg(long, default_value_t = 20)]
        limit: usize,
    },
    /// Lists the sessions with a message that contains all these words.
    Search {
        /// The words; each is the beginning of a word of the message.
        #[arg(required = true)]
        words: Vec<String>,
    },
    /// Shows a session as Markdown.
    Show {
        /// The session: its id or the beginning of it.
        id: String,
        /// Shows one line for each turn instead.
        #[arg(long)]
        tree: bool,
    },
    /// Makes a new session from the end of a turn of another one, which does not change.
    Fork {
        /// The session: its id or the beginning of it.
        id: String,
        /// The number of the turn, as `show --tree` numbers them; the last one by default.
        #[arg(long, value_name = "N")]
        turn: Option<usize>,
    },
    /// Writes a session to a file, or to the standard output, or sends it as traces.
    Export {
        /// The session: its id or the beginning of it.
        id: String,
        /// The form of the file.
        #[arg(long, value_enum, default_value_t = Form::Markdown)]
        form: Form,
        /// The file, which must not exist.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Sends the session to this OTLP receiver, such as http://localhost:4318, instead of writing a file.
        #[arg(long, value_name = "URL", conflicts_with_all = ["form", "output"])]
        otlp: Option<String>,
        /// Sends the text of the conversation, too.
        #[arg(long, requires = "otlp")]
        content: bool,
    },
    /// Writes the readable part of a damaged session as a new session, and lists what is lost. The damaged one does not change.
    ///
    /// Ends with code 0 if the session is not damaged, and with 4 if a part of it is lost and the rest was written.
    Salvage {
        /// The session: its id, the beginning of it, or a file of it, ID.json or ID.journal.jsonl.
        session: String,
        /// Writes the rest to this file as one document instead, which must not exist (docs/schema/session-v1.json).
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// The id of the session, if the file is a database of sessions with several.
        #[arg(long)]
        id: Option<String>,
    },
    /// Deletes sessions of the directory.
    Delete {
        /// The sessions: their ids or the beginnings of them.
        #[arg(required = true)]
        ids: Vec<String>,
    },
}

/// The form of an exported session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// Text for human readers.
    Markdown,
    /// The session as one document (docs/schema/session-v1.json).
    Json,
    /// The JSON lines of pi.
    Pi,
}

/// An answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum YesNo {
    /// The call may run.
    Yes,
    /// The call may not run.
    No,
}

/// Parses an amount of money.
pub(crate) fn money(text: &str) -> Result<Money, String> {
    text.trim_start_matches('$').parse::<Money>().map_err(|e| e.to_string())
}

/// Parses a thinking level.
pub(crate) fn thinking(text: &str) -> Result<ThinkingLevel, String> {
    serde_json::from_value(serde_json::Value::String(text.to_owned())).map_err(|_| {
        "the levels are off, minimal, low, medium, high and those that the documentation of models lists"
            .to_owned()
    })
}
