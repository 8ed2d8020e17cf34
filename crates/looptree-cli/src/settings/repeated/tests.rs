use clap::Parser as _;

use super::*;
use crate::args::Cli;

fn settings(words: &[&str]) -> Settings {
    let cli = Cli::try_parse_from([&["looptree"], words].concat()).unwrap();
    Settings { repeated: Repeated::of(&cli.flags), ..Settings::defaults() }
}

#[test]
fn a_command_to_paste_has_the_flags_that_select_sessions_and_model() {
    let plain = settings(&["--yes", "--budget", "0.50"]);
    assert_eq!(plain.resume("3f0c"), "looptree --resume 3f0c");
    assert_eq!(plain.command("answer 3f0c yes"), "looptree answer 3f0c yes");

    let flags = ["--sessions", "/tmp/my runs", "-m", "local/x", "--base-url", "http://[::1]:8080/v1"];
    let prices = ["--price", "0.20,0.60", "--price", "local/it's=0"];
    let full = settings(&[&flags[..], &prices].concat());
    assert_eq!(full.command("answer 3f0c yes"), "looptree --sessions '/tmp/my runs' answer 3f0c yes");
    let line = full.resume("3f0c");
    assert!(line.starts_with(
        "looptree --sessions '/tmp/my runs' --base-url 'http://[::1]:8080/v1' --model local/x --price 0.2"
    ));
    assert!(line.ends_with(" --price 'local/it'\\''s=0' --resume 3f0c"), "{line}");
}
