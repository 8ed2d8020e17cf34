//! One script.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
mod scene;
#[test]
fn one() {
    let text = std::fs::read_to_string("/tmp/script.json").unwrap();
    let script = agent_sim::Script::from_json(&text).unwrap();
    match scene::sim().replay(&script) {
        Ok(log) => {
            for e in log.entries() {
                println!("{} {:?}", e.process, e.what);
            }
        }
        Err(f) => {
            println!("{f}");
            for e in f.log.entries() {
                let t = format!("{:?}", e.what);
                println!("{} {}", e.process, &t.chars().take(700).collect::<String>());
            }
        }
    }
}
