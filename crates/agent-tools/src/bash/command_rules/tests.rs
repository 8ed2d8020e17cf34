use serde_json::json;

use super::runs_only;

/// X5.
#[test]
fn only_lines_of_listed_commands_need_not_be_asked_about() {
    #[track_caller]
    fn check(command: &str, expect: bool) {
        let harmless = runs_only(["git status", "cargo test", "ls", "grep"]);
        assert_eq!(harmless(&json!({"command": command})), expect, "{command}");
    }
    check("ls", true);
    check("  ls -la src", true);
    check("git status --short", true);
    check("git status && cargo test -q", true);
    check("cargo test 'a name with blanks' | grep -c ok", true);
    check("git status\nls", true);
    check("ls # and rm -rf /", true);

    check("", false);
    check("   ", false);
    check("git", false);
    check("git push", false);
    check("gitstatus", false);
    check("lsof", false);
    check("git status; rm -rf ~", false);
    check("git status & rm x", false);
    check("git status || rm x", false);
    check("git status\nrm x", false);
    check("ls | xargs rm", false);
    check("ls $(rm x)", false);
    check("ls `rm x`", false);
    check("ls \"$(rm x)\"", false);
    check("ls <(rm x)", false);
    check("ls > x", false);
    check("ls 2>&1", false);
    check("ls {a,$x}", false);
    check("PATH=. ls", false);
    check("ls; A[0]=1 ls", false);
    check("sudo ls", false);
    check("env ls", false);
    check("bash -c ls", false);
    check("eval ls", false);
    check("(rm x)", false);
    check("{ rm x; }", false);
    check("if true; then rm x; fi", false);
    check("l\\s; rm x", false);
    check("'ls'; 'rm' x", false);
    check("ls() { rm x; }; ls", false);
}

#[test]
fn what_is_no_command_and_an_empty_list_are_asked_about() {
    assert!(!runs_only(["ls"])(&json!({})));
    assert!(!runs_only(["ls"])(&json!({"command": 3})));
    assert!(!runs_only(["", " "])(&json!({"command": "ls"})));
    assert!(!runs_only(Vec::<String>::new())(&json!({"command": "ls"})));
}
