//! Keys in the keyring of the operating system: no keyring, and a real Secret Service where one is installed.

use super::{Model, Project, finish};
use tokio::process::Command;

/// A machine without a desktop has no keyring. The message about the missing key says so in the same line.
#[tokio::test]
async fn without_a_keyring_a_missing_key_is_one_sentence_and_no_hang() {
    let dir = Project::new();
    let mut command = dir.command();
    let nowhere = format!("unix:path={}", dir.home().join("no-bus").display());
    command.env("DBUS_SESSION_BUS_ADDRESS", nowhere).args([
        "-p",
        "--model",
        "anthropic/claude-sonnet-4-6",
        "x",
    ]);
    let said = finish(command, "").await;
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("ANTHROPIC_API_KEY is not set") && said.err.contains("keyring"), "{said:?}");
    assert_eq!(said.err.lines().count(), 1, "{said:?}");
    let model = Model::start().await;
    let mut command = dir.command();
    command.env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere").args(model.words()).args(["-p", "say x"]);
    assert_eq!(finish(command, "").await.out, "It is x.\n", "a local model needs no keyring");
}

/// Starts a session bus with an unlocked keyring, stores a key as the page describes, and runs the program there.
const SCRIPT: &str = "printf 'password' | gnome-keyring-daemon --unlock --components=secrets >/dev/null 2>&1
printf 'wrong' | secret-tool store --label=test service looptree username \"$1\" || exit 77
shift
exec \"$@\"";

#[tokio::test]
async fn a_key_of_the_keyring_is_used() {
    for program in ["dbus-run-session", "gnome-keyring-daemon", "secret-tool"] {
        let found = Command::new("sh").arg("-c").arg(format!("command -v {program}")).output().await.unwrap();
        if !found.status.success() {
            println!("skipped: {program} is not installed");
            return;
        }
    }
    let model = Model::start().await;
    // The server refuses exactly the key that is stored.
    for (provider, expect) in [("local", "Incorrect API key provided"), ("other", "")] {
        // The keyring is in the home folder.
        let dir = Project::new();
        let mut command = Command::new("dbus-run-session");
        command.current_dir(dir.path()).kill_on_drop(true).env_clear().envs(dir.environment());
        command.env("XDG_RUNTIME_DIR", dir.home());
        command.args(["--", "sh", "-c", SCRIPT, "sh", provider, env!("CARGO_BIN_EXE_looptree")]);
        command.args(model.words()).args(["-p", "say x"]);
        let said = finish(command, "").await;
        if said.code == 77 {
            println!("skipped: the keyring cannot store a key here: {}", said.err);
            return;
        }
        assert!(said.err.contains(expect), "{provider}: {said:?}");
        assert_eq!(said.code, i32::from(!expect.is_empty()), "{provider}: {said:?}");
        assert!(!said.err.contains("wrong"), "{said:?}");
    }
}
