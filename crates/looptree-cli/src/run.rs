//! Runs the command that the command line selects.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _, ValueEnum as _};
use looptree::budget::AtLimit;
use looptree::prelude::*;
use looptree::tools::bash::CommandSlots;

use crate::approval::Approver;
use crate::args::{Cli, Color, Command, RunArgs, SandboxChoice, Sessions};
use crate::choose::{self, Choice};
use crate::exit::{Exit, InterruptedError, UsageError, usage};
use crate::mcp::Listen;
use crate::screen::{Screen, Stream, Styled};
use crate::servers::{Connect, EditorServers};
use crate::settings::{Broken, Consent, Settings, directory};
use crate::setup::{Setup, SetupOptions, sessions_of};
use crate::text::chain;
use crate::work::Events;
use crate::{acp, answers, chat, demo, lists, man, mcp, print, recording, serve, sessions, stdin, view};

/// The longest wait for the tasks that kill MCP servers whose start was interrupted.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(500);

pub(crate) fn main() -> Exit {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let failed = error.print().is_err();
            if error.kind() == ErrorKind::InvalidSubcommand {
                Screen::new(Stream::Err, Color::Never)
                    .error_line("A task of several words is one argument: looptree \"fix the bug\"");
            }
            return match (error.use_stderr(), failed) {
                (true, _) => Exit::Usage,
                (false, true) => Exit::Unread,
                (false, false) => Exit::Done,
            };
        }
    };
    if let Some(Command::Completions { shell }) = &cli.command {
        let mut script = Vec::new();
        clap_complete::generate(*shell, &mut Cli::command(), "looptree", &mut script);
        return if std::io::stdout().write_all(&script).is_ok() { Exit::Done } else { Exit::Unread };
    }
    if let Some(Command::Man { folder }) = &cli.command {
        return man::run(folder.as_deref());
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            Screen::new(Stream::Err, Color::Never).error_line(format!("error: cannot start: {error}"));
            return Exit::Failed;
        }
    };
    let mut grace = Duration::ZERO;
    let ended = runtime.block_on(run(cli)).unwrap_or_else(|error| {
        let screen = Screen::new(Stream::Err, Color::Never);
        if error.is::<InterruptedError>() {
            screen.error_line(error.to_string());
            grace = SHUTDOWN_GRACE;
            return Exit::Interrupted;
        }
        screen.error_line(Styled::prose(&format!("error: {}", chain(&error))));
        if error.is::<UsageError>() { Exit::Usage } else { Exit::Failed }
    });
    // A thread that reads the standard input must not hold the end of the program.
    runtime.shutdown_timeout(grace);
    ended
}

async fn run(cli: Cli) -> Result<Exit> {
    let Cli { run, flags, command } = cli;
    let root = directory(&flags)?;
    let consent = match command {
        Some(_) if flags.trust_project => Consent::Given,
        Some(_) => Consent::Remembered,
        None => Consent::for_chat(flags.trust_project),
    };
    // These read the settings of each directory in which they work.
    match command {
        Some(Command::Acp) => {
            let screen = Screen::new(Stream::Err, flags.color.unwrap_or(Color::Auto));
            return acp::run(flags, screen).await;
        }
        Some(Command::Mcp { http, allowed_host }) => {
            let screen = Screen::new(Stream::Err, flags.color.unwrap_or(Color::Auto));
            let listen = http.map(|address| Listen { address, hosts: allowed_host });
            return mcp::run(flags, listen, screen).await;
        }
        Some(Command::Serve(args)) => {
            let screen = Screen::new(Stream::Err, flags.color.unwrap_or(Color::Auto));
            return serve::run(flags, args, screen).await;
        }
        _ => {}
    }
    let settings = Settings::load(&flags, &root, &consent, tolerance(command.as_ref()))?;
    for warning in &settings.warnings {
        Screen::new(Stream::Err, Color::Never).error_line(Styled::prose(&format!("warning: {warning}")));
    }
    let color = settings.color.value.unwrap_or(Color::Auto);
    let Some(command) = command else { return task(run, settings, root, color).await };
    let screen = Screen::new(Stream::Out, color);
    let store = || -> Result<JsonStore> { Ok(JsonStore::open(sessions_of(&settings, &root)?)?) };
    let ended = match command {
        Command::Sessions { what } => {
            let what = what.unwrap_or(Sessions::List { limit: 20 });
            sessions::run(what, &store()?, &root, &settings, &screen).await?
        }
        Command::View { session, compare, output } => {
            view::run(&store()?, &session, compare.as_deref(), output, &screen).await?
        }
        Command::Pending => answers::list(&store()?, &settings, &screen).await?,
        Command::Answer { id, answer, reason, hash } => {
            answers::answer(&store()?, &id, answer, reason.as_deref(), hash.as_deref(), &settings, &screen)
                .await?
        }
        Command::Replay { file } => recording::replay(&file, &screen).await?,
        Command::Check { url, patience } => lists::endpoint(&url, patience, &settings, &screen).await?,
        Command::Models { filter } => lists::models(filter.as_deref(), &screen),
        Command::Config { paths } => lists::config(&settings, &flags, &root, paths, &screen).await?,
        // Handled before the files are read.
        Command::Completions { .. }
        | Command::Man { .. }
        | Command::Acp
        | Command::Mcp { .. }
        | Command::Serve(_) => Exit::Done,
    };
    Ok(if screen.is_gone() { Exit::Unread } else { ended })
}

/// Returns what a command does about a configuration file that cannot be read. One that runs nothing of the project can do
/// without the project's file.
fn tolerance(command: Option<&Command>) -> Broken {
    match command {
        Some(Command::Sessions { .. } | Command::View { .. } | Command::Pending | Command::Answer { .. }) => {
            Broken::SkipsProject
        }
        Some(Command::Models { .. } | Command::Replay { .. } | Command::Config { paths: true }) => {
            Broken::SkipsAll
        }
        _ => Broken::Fails,
    }
}

async fn task(run: RunArgs, settings: Settings, root: PathBuf, color: Color) -> Result<Exit> {
    let terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let chats = terminal && !run.print && !run.json;
    let screen = Screen::new(if chats { Stream::Out } else { Stream::Err }, color);
    let screen = if run.quiet && !chats { screen.quiet() } else { screen };
    match run.task.as_deref().map(str::trim) {
        Some("") => return Err(usage("the task is empty")),
        Some(task) if std::env::args_os().all(|argument| argument != "--") => {
            let has_flag = std::env::args_os().any(|argument| argument == "--sandbox");
            if has_flag && SandboxChoice::from_str(task, true).is_ok() {
                return Err(usage(format!("a kind of sandbox follows an equals sign: --sandbox={task}")));
            }
            check_word(task)?;
        }
        _ => {}
    }
    let input = if chats || run.no_stdin { None } else { stdin::read(&screen).await? };
    let prompt = stdin::prompt(run.task.as_deref(), input);
    let wants_session = run.go_on || run.resume.is_some();
    if run.demo {
        return demo::run(&settings, &Screen::new(Stream::Out, color)).await;
    }
    let session = selected(&run, &settings, &root, chats, &screen).await?;
    let choice = choose::choose(&settings).await;
    if !matches!(choice, Ok(Choice::Model(_))) {
        // An ignored setting can be the reason.
        settings.notes.iter().for_each(|note| screen.line(note));
    }
    let chosen = match choice? {
        Choice::Nothing { ignored } if prompt.is_none() && !wants_session && !run.print && !run.json => {
            ignored.iter().for_each(|note| screen.line(note));
            return demo::run(&settings, &Screen::new(Stream::Out, color)).await;
        }
        choice => choice.into_model()?,
    };
    if !chats && prompt.is_none() && !wants_session {
        return Err(usage("there is no task; write one in quotes, or pipe one in"));
    }
    let approver = if chats || run.wait { Approver::Present } else { Approver::Absent };
    let at_limit = if chats || run.wait { AtLimit::Pause } else { AtLimit::Stop };
    if !chats {
        screen.line(format!("model: {} ({})", chosen.model.name, chosen.model.provider));
        screen.line(format!("directory: {}", root.display()));
    }
    let options = SetupOptions {
        settings: &settings,
        root: &root,
        approver,
        at_limit,
        session,
        record: run.record,
        task: prompt.as_deref(),
        screen: &screen,
        instructions: None,
        slots: CommandSlots::of_process(),
    };
    let setup = Setup::make(chosen, Connect::Own(EditorServers::default()), options).await?;
    if chats {
        return chat::run(setup, &settings, prompt.as_deref(), &screen).await;
    }
    let form = if run.json { Events::Json } else { Events::Shown };
    print::run(setup, &settings, prompt.as_deref(), form, &screen).await
}

/// Refuses a task that is one word and almost the name of a command: it would be sent to a model.
fn check_word(task: &str) -> Result<()> {
    let cli = Cli::command();
    let mut names =
        cli.get_subcommands().filter(|command| !command.is_hide_set()).map(clap::Command::get_name);
    let is_near = |name: &&str| {
        let allowed = if name.len() < 6 { 1 } else { 2 };
        name.len() > 3 && strsim::damerau_levenshtein(task, name) <= allowed
    };
    match names.find(is_near) {
        Some(name) => Err(usage(format!(
            "there is no command {task:?}; a similar one is `looptree {name}`. For a task of one word: looptree -- {task}"
        ))),
        None => Ok(()),
    }
}

/// Returns the session that is to be continued.
async fn selected(
    run: &RunArgs,
    settings: &Settings,
    root: &std::path::Path,
    chats: bool,
    screen: &Screen,
) -> Result<Option<String>> {
    if !run.go_on && run.resume.is_none() {
        return Ok(None);
    }
    let store = JsonStore::open(sessions_of(settings, root)?)?;
    match run.resume.as_deref() {
        None => sessions::newest(&store).await.map(Some),
        Some("") => sessions::pick(&store, chats, screen).await.map(Some),
        Some(id) => sessions::resolve(&store, id).await.map(Some),
    }
}
