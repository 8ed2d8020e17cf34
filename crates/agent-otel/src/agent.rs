//! The method that connects an agent.

use std::sync::Arc;

use agent_core::BasicAgent;
use agent_core::drive::Telemetry;

/// Builder method that connects the spans of an agent's runs to a tracing system.
pub trait WithTelemetry: Sized {
    /// Connects the spans of the agent's runs, so that tools, MCP servers and model servers receive the trace context.
    /// Sub-agents, branches and judges inherit the connection. Default: none, nothing is passed.
    #[must_use]
    fn with_telemetry(self, telemetry: impl Into<Arc<dyn Telemetry>>) -> Self;
}

impl WithTelemetry for BasicAgent {
    fn with_telemetry(self, telemetry: impl Into<Arc<dyn Telemetry>>) -> Self {
        let telemetry = telemetry.into();
        self.configure(|config| config.services.telemetry = Some(telemetry))
    }
}
