//! The processes of MCP servers: who starts them, and that none is left.

use std::process::Stdio;

use rustix::process::Signal;
use tokio::process::Command;

use super::mcp_servers::{chat, with_server, write};
use super::{HANG, Model, Project};

fn kill(child: &tokio::process::Child, signal: Signal) {
    let pid = rustix::process::Pid::from_raw(child.id().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

fn piped(mut command: Command) -> tokio::process::Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

async fn code_of(child: tokio::process::Child) -> (i32, String) {
    let output =
        tokio::time::timeout(HANG, child.wait_with_output()).await.expect("it does not end").unwrap();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test]
async fn no_server_is_left_after_a_task_also_if_it_failed_or_could_not_begin() {
    let model = Model::start().await;
    let (dir, tiny) = with_server("stubborn");
    write(&dir.path().join("exists.json"), "");
    for (words, code) in [
        (&["-p", "--yes", "use tiny__run it"][..], 0),
        (&["-p", "fail it"], 1),
        (&["-p", "--record", "exists.json", "say x"], 2),
    ] {
        let said = dir.ask(&model, words).await;
        assert_eq!(said.code, code, "{said:?}");
        assert!(!tiny.runs(), "{words:?}");
    }
    assert_eq!(tiny.starts(), 3);
}

#[tokio::test]
async fn no_server_is_left_after_a_signal() {
    let model = Model::start().await;
    let (dir, tiny) = with_server("stubborn");
    for (n, signals) in [&[Signal::INT][..], &[Signal::TERM], &[Signal::INT, Signal::INT]].iter().enumerate()
    {
        let mut command = dir.command();
        command.args(model.words()).args(["-p", "--yes", "use tiny__run hang"]);
        let child = piped(command);
        tiny.called(n + 1).await;
        for signal in *signals {
            kill(&child, *signal);
            // Two signals at once count as one.
            tokio::time::sleep(std::time::Duration::from_millis(400)).await;
        }
        let (code, err) = code_of(child).await;
        assert_eq!(code, 130, "{err}");
        assert!(!tiny.runs(), "{signals:?}");
    }
}

/// A server that never answers would hold the program for half a minute.
#[tokio::test]
async fn a_signal_ends_a_program_whose_servers_are_starting() {
    let model = Model::start().await;
    let (dir, tiny) = with_server("silent");
    let mut command = dir.command();
    command.args(model.words()).args(["-p", "say x"]);
    let child = piped(command);
    tiny.started(1).await;
    tokio::time::sleep(std::time::Duration::from_millis(2_500)).await;
    kill(&child, Signal::INT);
    let (code, err) = code_of(child).await;
    assert_eq!(code, 130, "{err}");
    assert!(err.contains("starting MCP servers: tiny …"), "{err}");
    assert!(err.ends_with("interrupted while the MCP servers were starting\n"), "{err}");
    assert!(!tiny.runs());
}

#[tokio::test]
async fn no_server_is_left_after_the_chat() {
    let model = Model::start().await;
    let (dir, tiny) = with_server("stubborn");
    let mut on = chat(&dir, &model, &[]);
    on.prompts().await;
    on.keys("\x04");
    assert_eq!((on.ends().await, tiny.runs()), (0, false));

    let mut on = chat(&dir, &model, &[]);
    on.prompts().await;
    on.keys("\x03");
    on.sees("Ctrl-C again").await;
    on.keys("\x03");
    assert_eq!((on.ends().await, tiny.runs()), (130, false));

    // While a call of the server is open.
    let mut on = chat(&dir, &model, &["--yes"]);
    on.prompts().await;
    on.types("use tiny__run hang");
    tiny.called(1).await;
    on.keys("\x03");
    on.sees("interrupted; the conversation so far is kept").await;
    on.prompts().await;
    on.types("use tiny__run hang");
    tiny.called(2).await;
    on.keys("\x03");
    on.keys("\x03");
    assert_eq!((on.ends().await, tiny.runs()), (130, false), "{}", on.text());

    for signal in [Signal::HUP, Signal::TERM] {
        let mut on = chat(&dir, &model, &[]);
        on.prompts().await;
        on.signals(signal);
        assert_eq!(on.ends().await, 130);
        assert!(!tiny.runs(), "{signal:?}");
    }
    assert_eq!(tiny.starts(), 5);
}

#[tokio::test]
async fn commands_without_an_agent_start_no_server() {
    let model = Model::start().await;
    let (dir, tiny) = with_server("");
    dir.ask(&model, &["-p", "say x"]).await;
    for words in [&["--version"][..], &["--help"], &["config"], &["sessions"], &["models", "x"], &["pending"]]
    {
        let said = dir.run(words).await;
        assert_eq!(said.code, 0, "{said:?}");
    }
    assert_eq!(tiny.starts(), 1);
}

#[tokio::test]
async fn a_server_that_ended_is_shown_and_the_next_call_starts_it_again() {
    let model = Model::start().await;
    let (dir, tiny) = with_server("");
    let mut on = chat(&dir, &model, &["--yes"]);
    on.prompts().await;
    let pid = tiny.pids()[0];
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    let shown = async {
        loop {
            on.types("/mcp");
            // The prompt that is on the screen can be the one before the command.
            on.sees("tiny: ").await;
            on.prompts().await;
            if on.text().contains("tiny: ended; the next call of one of its tools starts it again") {
                break;
            }
        }
    };
    tokio::time::timeout(HANG, shown).await.expect("the end is not noticed");
    on.types("use tiny__run it");
    on.sees("tiny has done it").await;
    on.prompts().await;
    on.types("/mcp");
    on.sees("tiny: connected, 1 tool").await;
    assert_eq!(tiny.starts(), 2);
}

#[tokio::test]
async fn a_program_that_serves_sessions_starts_servers_for_each_and_ends_them() {
    let model = Model::start().await;
    let (dir, tiny) = with_server("");
    let mut command = dir.command();
    command.arg("mcp").args(model.words()).arg("--yes");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = command.spawn().unwrap();
    let pipes = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
    let client = rmcp::ServiceExt::serve((), pipes).await.unwrap();
    assert_eq!(tiny.starts(), 0, "no session is open");
    for n in 1..=2 {
        let arguments = serde_json::json!({"task": "use tiny__run it"});
        let request = rmcp::model::CallToolRequestParams::new("run")
            .with_arguments(arguments.as_object().unwrap().clone());
        let result = client.call_tool(request).await.unwrap();
        let answer = result.structured_content.unwrap()["answer"].as_str().unwrap().to_owned();
        assert_eq!((answer.as_str(), tiny.starts()), ("The other one said: tiny has done it", n));
    }
    assert!(tiny.runs());
    client.cancel().await.unwrap();
    let status = tokio::time::timeout(HANG, child.wait()).await.expect("it does not end").unwrap();
    assert_eq!((status.code(), tiny.runs()), (Some(0), false));
}

/// The program itself is a server, too.
#[tokio::test]
async fn the_agent_of_another_directory_is_a_server_over_pipes() {
    let model = Model::start().await;
    let dir = Project::new();
    let (program, url) = (env!("CARGO_BIN_EXE_looptree"), model.url());
    write(
        &dir.user_config(),
        &format!(
            "[mcp_servers.peer]\ncommand = \"{program}\"\n\
             args = [\"mcp\", \"--no-mcp\", \"--base-url\", \"{url}\", \"--model\", \"local/scripted\"]\n"
        ),
    );
    let said = dir.ask(&model, &["-p", "--yes", "use peer__run say sunny"]).await;
    assert!(said.err.contains("MCP servers: peer (3 tools)\n"), "{said:?}");
    assert_eq!(said.out, "The other one said: It is sunny.\n", "{said:?}");
}

/// The server stays deaf and alive after its input has ended.
#[tokio::test]
async fn no_server_is_left_after_the_chat_was_killed() {
    let model = Model::start().await;
    let (dir, tiny) = with_server("stubborn");
    for (n, hangs) in [false, true].into_iter().enumerate() {
        let mut on = chat(&dir, &model, &["--yes"]);
        on.prompts().await;
        if hangs {
            on.types("use tiny__run hang");
            tiny.called(1).await;
        }
        assert!(tiny.runs() && tiny.starts() == n + 1);
        on.signals(Signal::KILL);
        on.ends().await;
        tiny.ended().await;
    }
}
