//! A process that is stopped for longer than the limits of its run and of its tool.

use std::process::{Command, Stdio};
use std::time::Duration;

use agent_core::testing::{ScriptedProvider, ScriptedTool};
use agent_core::{AgentEvent, BasicAgent, Ended, ExecutionLimits, ModelConfig};

use super::call;

const GO: &str = "go-stopped";

/// What is stopped.
#[test]
#[ignore = "the child of another test"]
fn a_run_works_while_its_process_is_stopped() {
    if !std::path::Path::new(GO).exists() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let tool = ScriptedTool::new("work", |_, _| async {
            std::fs::write("working", "").unwrap();
            tokio::time::sleep(Duration::from_secs(2)).await;
            // Until the process was stopped; its timers are due at once then.
            while !std::path::Path::new("continued").exists() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok("worked".into())
        })
        .with_timeout(Duration::from_secs(7));
        let limits = ExecutionLimits::unlimited().with_max_duration(Duration::from_secs(8));
        let agent = BasicAgent::new(ModelConfig::default())
            .with_provider(ScriptedProvider::new([call(), "done".into()]))
            .with_tool(tool)
            .with_limits(limits);
        let events = agent.prompt("Hi").unwrap().collect().await;
        let Some(AgentEvent::AgentEnd(end)) = events.last() else { panic!("no end: {events:?}") };
        assert_eq!(end.ended, Ended::Completed);
        let shown = format!("{events:?}");
        assert!(shown.contains("worked") && !shown.contains("timed out"), "{shown}");
    });
}

#[test]
fn the_time_for_which_a_process_is_stopped_does_not_count() {
    let place = std::env::temp_dir().join(format!("looptree-stopped-{}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join(GO), "").unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "stopped::a_run_works_while_its_process_is_stopped", "--ignored", "--nocapture"])
        .current_dir(&place)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let signal = |name: &str| {
        let sent = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
        assert!(sent.success(), "{name}");
    };
    while !place.join("working").exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    signal("-STOP");
    std::thread::sleep(Duration::from_secs(11));
    std::fs::write(place.join("continued"), "").unwrap();
    signal("-CONT");
    let ended = child.wait().unwrap();
    std::fs::remove_dir_all(&place).unwrap();
    assert!(ended.success(), "the run did not complete");
}
