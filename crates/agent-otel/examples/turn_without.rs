//! The turns of `turn_with` without telemetry in the program, to count the instructions of a turn.

#[path = "turn/scene.rs"]
mod scene;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Like the thread of the exporter: an allocation takes more instructions in a process with several threads.
    std::thread::spawn(std::thread::park);
    scene::run(|agent| agent)
}
