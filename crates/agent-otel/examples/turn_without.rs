//! The turns of `turn_with` of an agent that is not connected. The exporter runs here, too, because its thread and its memory
//! change what glibc's allocator does.

#[path = "turn/scene.rs"]
mod scene;

use agent_otel::{Metrics, Telemetry};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let _telemetry = Telemetry::to("http://127.0.0.1:9").with_metrics(Metrics::Omitted).start()?;
    scene::run(|agent| agent)
}
