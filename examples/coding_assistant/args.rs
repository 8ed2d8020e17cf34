//! The command line.

use std::path::PathBuf;

use looptree::budget::Money;

use crate::sandbox::Choice;

pub(crate) const HELP: &str = "\
usage: coding_assistant [--provider P] [--model M] [--base-url U] [--cwd DIR] [--sandbox S] [--budget MONEY]
                        [--max-tokens-total N] [--yes | --wait] [--resume SESSION] [--record FILE] [\"task\"]
       coding_assistant --replay FILE
       coding_assistant [--cwd DIR] --pending
       coding_assistant [--cwd DIR] --answer SESSION yes|no [--hash HASH]

  --provider P   anthropic, openai, openrouter, groq, xai, deepseek, mistral, ollama, or local (any Chat Completions server)
  --model M      the model's id, as the provider names it
  --base-url U   where the API is
  --cwd DIR      the directory to work in (the current one)
  --sessions DIR where the sessions are stored (a folder of the user's data directory for each working directory)
  --sandbox S    the sandbox of bash commands: none (the default), landlock, bwrap, or auto, the strongest that works on
                 this machine. Selecting one that does not work is an error. Sandboxed commands read system folders and
                 compilers, write below DIR, and have no network (landlock: no TCP)
  --sandbox-read PATH, --sandbox-write PATH
                 a further path that they may read, or read and write
  --sandbox-network
                 permits the network
  --budget MONEY the maximum cost, for example 0.50; when it is spent you are asked (without a terminal the run ends)
  --max-tokens-total N
                 the maximum number of tokens, prompts and answers together
  --yes          run bash commands without asking
  --wait         store the question in the session and end; answer it later with --answer, from any process
  --resume ID    continue a session: where it was interrupted, after its question was answered, or at its end
  --pending      list the questions that wait in the directory's sessions
  --answer ID A  answer the first question of a session with yes or no; --resume continues it then
  --hash HASH    the hash that --pending shows for the call, or its first 12 digits; required to answer yes to a call
  --record FILE  record the replies of the model and the results of the tools for --replay; requires a task
  --replay FILE  replay a recorded task without a model or a tool, and show the differences
  task           the task; without it, a prompt loop starts. After -- it may begin with a dash

A value follows its option, as in --model M or --model=M.

Keys are read from ANTHROPIC_API_KEY, OPENAI_API_KEY, OPENROUTER_API_KEY, GROQ_API_KEY, XAI_API_KEY, DEEPSEEK_API_KEY and
MISTRAL_API_KEY, and from LOCAL_API_KEY for a server that --base-url names without a provider. Without a key and without an
Ollama server on this machine, a recorded demo is shown.";

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct Args {
    pub(crate) provider: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) base_url: Option<String>,
    pub(crate) cwd: PathBuf,
    pub(crate) sessions: Option<PathBuf>,
    pub(crate) sandbox: Choice,
    pub(crate) sandbox_read: Vec<PathBuf>,
    pub(crate) sandbox_write: Vec<PathBuf>,
    pub(crate) sandbox_network: bool,
    pub(crate) budget: Option<Money>,
    pub(crate) max_tokens_total: Option<u64>,
    pub(crate) yes: bool,
    pub(crate) wait: bool,
    pub(crate) resume: Option<String>,
    pub(crate) pending: bool,
    /// A session and the answer.
    pub(crate) answer: Option<(String, String)>,
    /// The hash of the call that the answer is about, or its first digits.
    pub(crate) hash: Option<String>,
    pub(crate) record: Option<PathBuf>,
    pub(crate) replay: Option<PathBuf>,
    pub(crate) task: Option<String>,
}

impl Args {
    /// The arguments; `None` when help is wanted.
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut args = Self::default();
        let mut only_task = false;
        while let Some(word) = words.next() {
            if only_task || !word.starts_with('-') {
                args.take_task(word)?;
                continue;
            }
            let (flag, mut inline) = match word.split_once('=') {
                Some((flag, value)) if flag.starts_with("--") => (flag, Some(value.to_owned())),
                _ => (word.as_str(), None),
            };
            let mut value =
                || inline.take().or_else(|| words.next()).ok_or_else(|| format!("{flag} wants a value"));
            match flag {
                "--" => only_task = true,
                "--help" | "-h" => return Ok(None),
                "--provider" => args.provider = Some(value()?),
                "--model" => args.model = Some(value()?),
                "--base-url" => args.base_url = Some(value()?),
                "--cwd" => args.cwd = PathBuf::from(value()?),
                "--sessions" => args.sessions = Some(PathBuf::from(value()?)),
                "--sandbox" => args.sandbox = Choice::parse(&value()?)?,
                "--sandbox-read" => args.sandbox_read.push(PathBuf::from(value()?)),
                "--sandbox-write" => args.sandbox_write.push(PathBuf::from(value()?)),
                "--sandbox-network" => args.sandbox_network = true,
                "--budget" => {
                    let text = value()?;
                    let money = text
                        .trim_start_matches('$')
                        .parse::<Money>()
                        .map_err(|e| format!("--budget: {e}"))?;
                    args.budget = Some(money);
                }
                "--max-tokens-total" => {
                    let text = value()?;
                    let tokens = text.replace('_', "").parse();
                    args.max_tokens_total =
                        Some(tokens.map_err(|_| format!("--max-tokens-total wants a number, not {text:?}"))?);
                }
                "--yes" | "-y" => args.yes = true,
                "--wait" => args.wait = true,
                "--resume" => args.resume = Some(value()?),
                "--pending" => args.pending = true,
                "--answer" => args.answer = Some((value()?, value()?)),
                "--hash" => args.hash = Some(value()?),
                "--record" => args.record = Some(PathBuf::from(value()?)),
                "--replay" => args.replay = Some(PathBuf::from(value()?)),
                _ => return Err(format!("there is no option {flag}")),
            }
            if inline.is_some() {
                return Err(format!("{flag} takes no value"));
            }
        }
        if args.yes && args.wait {
            return Err("--yes asks nobody, so nothing waits".to_owned());
        }
        if args.hash.is_some() && args.answer.is_none() {
            return Err("--hash names the call of an --answer".to_owned());
        }
        if args.record.is_some() && (args.task.is_none() || args.resume.is_some()) {
            return Err("--record wants a task, and a conversation that begins with it".to_owned());
        }
        Ok(Some(args))
    }

    fn take_task(&mut self, word: String) -> Result<(), String> {
        if word.trim().is_empty() {
            return Err("the task is empty".to_owned());
        }
        if self.task.replace(word).is_some() {
            return Err("one task at a time; put it in quotes".to_owned());
        }
        Ok(())
    }
}

impl Default for Args {
    fn default() -> Self {
        Self {
            provider: None,
            model: None,
            base_url: None,
            cwd: PathBuf::from("."),
            sessions: None,
            sandbox: Choice::None,
            sandbox_read: Vec::new(),
            sandbox_write: Vec::new(),
            sandbox_network: false,
            budget: None,
            max_tokens_total: None,
            yes: false,
            wait: false,
            resume: None,
            pending: false,
            answer: None,
            hash: None,
            record: None,
            replay: None,
            task: None,
        }
    }
}
