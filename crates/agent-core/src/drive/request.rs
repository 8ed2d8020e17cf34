//! Builds the request of a model call from the configuration, the conversation and the hooks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::config::AgentLoopConfig;
use super::panics::contained;
use crate::history::History;
use crate::hooks::{HookError, Transform};
use crate::message::AgentMessage;
use crate::model::{ModelConfig, Secret, ToolChoice};
use crate::prefix::Prefixes;
use crate::provider::{ModelRequest, StreamProvider};
use crate::tool::{ToolDefinitions, Tools};

/// The message after a reply that another model paused, which only that model can continue without a message.
const CONTINUE: &str = "[Your last reply was cut off. Continue where it ends.]";

/// The parts of a request that are fixed for the whole run.
pub(super) struct RequestParts<'a> {
    pub(super) config: &'a AgentLoopConfig,
    pub(super) system_prompt: &'a Arc<str>,
    pub(super) tools: &'a Tools,
    pub(super) prefixes: &'a Prefixes,
    pub(super) session_id: Option<String>,
}

/// Returns the provider and the model of a route. Route 0 is the run's own model.
///
/// # Errors
/// Returns a text if the agent lacks the route; another process with more routes may have started the run.
pub(super) fn target(
    config: &AgentLoopConfig,
    route: u32,
) -> Result<(Arc<dyn StreamProvider>, Arc<ModelConfig>), String> {
    let Some(at) = route.checked_sub(1) else {
        return Ok((config.services.provider.clone(), config.model.clone()));
    };
    let found = usize::try_from(at).ok().and_then(|at| config.routes.get(at));
    let route = found.ok_or_else(|| {
        format!(
            "the run continues with its route {route}, which this agent does not have; configure the same routes"
        )
    })?;
    Ok((route.provider.as_ref().unwrap_or(&config.services.provider).clone(), route.model.clone()))
}

impl RequestParts<'_> {
    /// Builds the request for `route` over `history`. Calls the hooks that transform the conversation and supply the
    /// key.
    ///
    /// # Errors
    /// Returns a text if the route is missing or a hook fails.
    pub(super) async fn build(
        self,
        history: History,
        route: u32,
    ) -> Result<(Arc<dyn StreamProvider>, Box<ModelRequest>), String> {
        let (provider, model) = target(self.config, route)?;
        // The hooks may remove the results of searches, so the conversation of the run decides which tools are loaded.
        let listed = listed_tools(self.config, self.tools, self.prefixes, &history, &*provider, &model);
        let hooks = &self.config.hooks.context;
        let history = transformed("transform_context", &hooks.transform, history).await?;
        let history = transformed("convert_to_llm", &hooks.convert, history).await?;
        let mut api_key = None;
        for source in &hooks.api_key {
            let key = async { source(model.provider.clone()).await };
            api_key = contained(key)
                .await
                .map_err(|panic| HookError::new(format!("it panicked: {panic}")))
                .and_then(|answer| answer)
                .map_err(|e| format!("api_key failed: {e}"))?;
            if api_key.is_some() {
                break;
            }
        }
        Ok((provider, Box::new(self.assemble(model, history, api_key, listed))))
    }

    fn assemble(
        self,
        model: Arc<ModelConfig>,
        mut history: History,
        api_key: Option<Secret>,
        listed: Option<ToolDefinitions>,
    ) -> ModelRequest {
        if history.paused_reply().is_some_and(|paused| !paused.is_by(&model)) {
            // This cannot fail, because it is a plain message.
            let _ = history.push(AgentMessage::user(CONTINUE));
        }
        let mut options = self.config.request.clone();
        let level = options.thinking_level.clamp_to(&model.thinking_levels);
        if level != options.thinking_level {
            options.thinking_level = level;
        }
        ModelRequest {
            system_prompt: self.system_prompt.clone(),
            tools: listed.unwrap_or_else(|| self.tools.definitions().clone()),
            api_key,
            steering: None,
            session_id: self.session_id,
            options,
            model,
            history,
            trace: None,
        }
    }
}

/// Returns the definitions for a request to a model with this conversation if tools are deferred, else `None`.
pub(super) fn listed_tools(
    config: &AgentLoopConfig,
    tools: &Tools,
    prefixes: &Prefixes,
    history: &History,
    provider: &dyn StreamProvider,
    model: &ModelConfig,
) -> Option<ToolDefinitions> {
    let forced = match &config.request.tool_choice {
        ToolChoice::Tool(name) => Some(&**name),
        _ => None,
    };
    // A provider that panics is one that does not search; the panic of its call ends the run.
    let search = || catch_unwind(AssertUnwindSafe(|| provider.tool_search(model))).unwrap_or_default();
    tools.listed(config.policy.defer_tools, || (search(), prefixes.found_tools(history)), forced)
}

/// Applies the hooks that transform the conversation, in order.
async fn transformed(name: &str, hooks: &[Transform], mut history: History) -> Result<History, String> {
    for hook in hooks {
        history = match contained(async { hook(history).await }).await {
            Ok(Ok(history)) => history,
            Ok(Err(error)) => return Err(format!("{name} failed: {error}")),
            Err(panic) => return Err(format!("{name} panicked: {panic}")),
        };
    }
    Ok(history)
}
