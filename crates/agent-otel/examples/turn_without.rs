//! The turns of `turn_with` without telemetry in the program, to count the instructions of a turn.

#[path = "turn/scene.rs"]
mod scene;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    scene::run(|agent| agent)
}
