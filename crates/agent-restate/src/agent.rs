//! The definition of a durable agent.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agent_core::event::NumberedEvent;
use agent_core::provider::StreamProvider;
use agent_core::tool::AgentTool;
use agent_core::{AgentLoopConfig, Branch, EvaluationStrategy, Hooks, ModelConfig, SystemEnvironment, Tools};
use agent_providers::ProviderRegistry;

use crate::error::ServeError;

/// The longest step unless the agent sets another.
const LONGEST_STEP: Duration = Duration::from_secs(600);

/// The delays that the engine waits for unless the agent sets another bound.
const ENGINE_WAITS_FROM: Duration = Duration::from_secs(5);

/// The steps of an invocation unless the agent sets another number.
const HAND_OVER_AFTER: u32 = 200;

/// The longest name of an agent in bytes.
const MAX_NAME: usize = 64;

/// Changes the configuration of the loops.
type Change = Arc<dyn Fn(&mut AgentLoopConfig) + Send + Sync>;

/// Makes the branches from the configuration of the loops.
type MakeBranches = Arc<dyn Fn(&AgentLoopConfig) -> Vec<Branch> + Send + Sync>;

/// Receives the events of sessions on the worker that produces them.
pub(crate) type Listener = Arc<dyn Fn(&LiveEvent<'_>) + Send + Sync>;

/// An agent whose sessions live in a Restate server. Each session is a virtual object with one writer.
///
/// Workers [`serve`](crate::serve()) the agent; all workers of one deployment define it in the same way. A session
/// survives the death of any worker and of the server.
#[derive(Clone)]
pub struct DurableAgent {
    name: String,
    model: Option<ModelConfig>,
    provider: Option<Arc<dyn StreamProvider>>,
    system_prompt: Arc<str>,
    tools: Tools,
    config: Vec<Change>,
    branches: Option<(MakeBranches, Arc<dyn EvaluationStrategy>)>,
    longest_step: Duration,
    hand_over_after: u32,
    engine_waits_from: Duration,
    listener: Option<Listener>,
    identity_key: Option<String>,
}

/// An event on the worker that produces it, also a live one, which is not recorded.
///
/// An attempt that is cut off and repeated delivers events again: a recorded event has the same number, and the live ones
/// name their attempt, so that a receiver can drop what a later attempt replaced.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct LiveEvent<'e> {
    /// The key of the session.
    pub session: &'e str,
    /// The index of the step in its invocation, from 0.
    pub step: u32,
    /// The attempt, unique for each execution of an invocation.
    pub attempt: &'e str,
    /// The index of the event in its attempt, from 0.
    pub index: u64,
    /// The event with its number in the loop.
    pub event: &'e NumberedEvent,
}

impl DurableAgent {
    /// Creates an agent. The name is the name of its service at Restate: a letter, followed by letters, digits, `_` and
    /// `-`, at most 64 bytes. Sessions belong to the name, so a renamed agent does not find them.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            model: None,
            provider: None,
            system_prompt: "".into(),
            tools: Tools::default(),
            config: Vec::new(),
            branches: None,
            longest_step: LONGEST_STEP,
            hand_over_after: HAND_OVER_AFTER,
            engine_waits_from: ENGINE_WAITS_FROM,
            listener: None,
            identity_key: None,
        }
    }

    /// Sets the model. Required.
    #[must_use]
    pub fn model(mut self, model: ModelConfig) -> Self {
        self.model = Some(model);
        self
    }

    /// Sets the provider that calls the model. Default: a provider for every protocol whose feature is enabled.
    #[must_use]
    pub fn provider(mut self, provider: impl StreamProvider + 'static) -> Self {
        self.provider = Some(Arc::new(provider));
        self
    }

    /// Sets the system prompt. Default: empty.
    #[must_use]
    pub fn system_prompt(mut self, prompt: impl Into<Arc<str>>) -> Self {
        self.system_prompt = prompt.into();
        self
    }

    /// Sets the tools. A tool with [`Effects::Once`](agent_core::Effects), the default of a tool, costs one more step for
    /// each group of calls; declare tools that only read as `ReadOnly`.
    #[must_use]
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn AgentTool>>) -> Self {
        self.tools = tools.into_iter().collect::<Vec<_>>().into();
        self
    }

    /// Sets the hooks. A hook may be called again for a step that was cut off.
    #[must_use]
    pub fn hooks(self, hooks: Hooks) -> Self {
        self.configure(move |config| config.hooks = hooks.clone().into())
    }

    /// Changes any other setting of the loops: limits, retries, routes, context, request options. The function runs once
    /// when the worker starts, after the functions of earlier calls. A [journal](agent_core::journal) is not used.
    #[must_use]
    pub fn configure(mut self, change: impl Fn(&mut AgentLoopConfig) + Send + Sync + 'static) -> Self {
        self.config.push(Arc::new(change));
        self
    }

    /// Sets the branches that [`Session::explore`](crate::Session::explore) runs, and the strategy that selects one of them. The
    /// function runs once when the worker starts and receives the configuration of the loops. Default: none.
    ///
    /// Each recorded step advances every open branch by one step, so a branch waits for the slowest of them. An evaluation
    /// is one step, so a judge whose call was cut off is called again.
    ///
    /// ```
    /// use agent_core::{Branch, LlmJudgeEvaluation, AgentLoopConfig, ModelConfig};
    /// use agent_restate::DurableAgent;
    ///
    /// # fn define(judge: AgentLoopConfig) -> DurableAgent {
    /// DurableAgent::new("coder").model(ModelConfig::default()).branches(
    ///     |config| {
    ///         let bold = Branch::new(config.clone()).with_system_prompt("Prefer a large change.");
    ///         vec![Branch::new(config.clone()), bold]
    ///     },
    ///     LlmJudgeEvaluation::new(judge),
    /// )
    /// # }
    /// ```
    #[must_use]
    pub fn branches(
        mut self,
        branches: impl Fn(&AgentLoopConfig) -> Vec<Branch> + Send + Sync + 'static,
        strategy: impl EvaluationStrategy + 'static,
    ) -> Self {
        self.branches = Some((Arc::new(branches), Arc::new(strategy)));
        self
    }

    /// Sets the longest time that one step may take: a model call, or a group of tool calls. Default: 10 minutes. The
    /// engine gives up a step after twice this time. A tool without a time limit of its own receives this one.
    #[must_use]
    pub fn longest_step(mut self, longest: Duration) -> Self {
        self.longest_step = longest;
        self
    }

    /// Sets the number of steps after which an invocation stores the run and hands it over to a new invocation, at least
    /// 2. Default: 200. Fewer steps replay faster after a crash, more steps write long conversations less often.
    #[must_use]
    pub fn hand_over_after(mut self, steps: u32) -> Self {
        self.hand_over_after = steps.max(2);
        self
    }

    /// Sets the delay before a retry from which on the engine waits and not the worker. Default: 5 seconds. A delay that the
    /// engine waits for survives the worker and costs one more step.
    #[must_use]
    pub fn engine_waits_from(mut self, delay: Duration) -> Self {
        self.engine_waits_from = delay;
        self
    }

    /// Sets a function that receives all events of sessions on this worker, also live ones such as pieces of replies. It
    /// must return quickly. Clients read the recorded events with [`Session::events_from`](crate::Session::events_from).
    #[must_use]
    pub fn on_event(mut self, listener: impl Fn(&LiveEvent<'_>) + Send + Sync + 'static) -> Self {
        self.listener = Some(Arc::new(listener));
        self
    }

    /// Accepts requests only from the Restate server with this public key (`publickeyv1_...`). Default: any request,
    /// which is safe only if nothing but the server reaches the worker.
    #[must_use]
    pub fn identity_key(mut self, key: impl Into<String>) -> Self {
        self.identity_key = Some(key.into());
        self
    }

    /// Checks the definition and completes its configuration.
    pub(crate) fn prepare(self) -> Result<Prepared, ServeError> {
        let Self { name, model, provider, system_prompt, tools, config: changes, .. } = self;
        let mut chars = name.chars();
        let begins = chars.next().is_some_and(|first| first.is_ascii_alphabetic());
        if !begins || name.len() > MAX_NAME || !chars.all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)) {
            return Err(ServeError::Name { name });
        }
        let Some(model) = model else { return Err(ServeError::NoModel { name }) };
        let provider = provider.unwrap_or_else(|| Arc::new(ProviderRegistry::default()));
        let mut config = AgentLoopConfig::new(provider, model, Arc::new(SystemEnvironment));
        changes.iter().for_each(|change| change(&mut config));
        let longest = self.longest_step;
        let config = within_steps(config, longest);
        check_tools(&tools, longest)?;
        let branches = match &self.branches {
            Some((make, strategy)) => {
                let mut list = make(&config);
                if list.is_empty() {
                    return Err(ServeError::NoBranches { name });
                }
                for branch in &mut list {
                    branch.config = within_steps(branch.config.clone(), longest);
                    branch.tools.as_ref().map_or(Ok(()), |tools| check_tools(tools, longest))?;
                }
                Some(Branches { list, strategy: Arc::clone(strategy) })
            }
            None => None,
        };
        Ok(Prepared {
            name,
            system_prompt,
            tools,
            config: config.into(),
            branches,
            longest_step: longest,
            hand_over_after: self.hand_over_after,
            engine_waits_from: self.engine_waits_from,
            listener: self.listener,
            identity_key: self.identity_key,
        })
    }
}

/// Completes a configuration. Nothing in it may outlast a step or record elsewhere.
fn within_steps(mut config: AgentLoopConfig, longest: Duration) -> AgentLoopConfig {
    config.services.journal = None;
    let limit = config.policy.tool_timeout.filter(|limit| *limit <= longest).unwrap_or(longest);
    config.policy.tool_timeout = Some(limit);
    config.completed().unwrap_or(config)
}

fn check_tools(tools: &Tools, longest: Duration) -> Result<(), ServeError> {
    let too_slow = |tool: &Arc<dyn AgentTool>| tool.timeout().filter(|timeout| *timeout > longest);
    match tools.tools().iter().find_map(|tool| Some((tool.name().to_owned(), too_slow(tool)?))) {
        Some((tool, timeout)) => Err(ServeError::ToolTooSlow { tool, timeout, longest }),
        None => Ok(()),
    }
}

impl fmt::Debug for DurableAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurableAgent")
            .field("name", &self.name)
            .field("model", &self.model.as_ref().map(|model| &model.id))
            .field("tools", &self.tools.len())
            .field("longest_step", &self.longest_step)
            .field("hand_over_after", &self.hand_over_after)
            .finish_non_exhaustive()
    }
}

/// The branches of an agent, and how one of them is selected.
pub(crate) struct Branches {
    pub(crate) list: Vec<Branch>,
    pub(crate) strategy: Arc<dyn EvaluationStrategy>,
}

/// A checked definition.
pub(crate) struct Prepared {
    pub(crate) name: String,
    pub(crate) system_prompt: Arc<str>,
    pub(crate) tools: Tools,
    pub(crate) config: Arc<AgentLoopConfig>,
    pub(crate) branches: Option<Branches>,
    pub(crate) longest_step: Duration,
    pub(crate) hand_over_after: u32,
    pub(crate) engine_waits_from: Duration,
    pub(crate) listener: Option<Listener>,
    pub(crate) identity_key: Option<String>,
}
