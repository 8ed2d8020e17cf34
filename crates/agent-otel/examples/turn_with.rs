//! Turns of an agent with telemetry and without a subscriber. Compare with `turn_without` under callgrind.

#[path = "turn/scene.rs"]
mod scene;

use agent_otel::{Metrics, Telemetry, WithTelemetry as _};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let telemetry = Telemetry::to("http://127.0.0.1:9").with_metrics(Metrics::Omitted).start()?;
    scene::run(|agent| agent.with_telemetry(telemetry.connection()))
}
