use serde_json::json;

use super::*;

#[test]
fn always_allows_no_more_than_the_program_and_its_subcommand() {
    let exactly =
        |command: &str| Grant::Call { tool: "bash".to_owned(), arguments: json!({ "command": command }) };
    for (command, granted) in [
        ("cargo test --quiet", Grant::Command("cargo test".into())),
        ("cargo test && cargo test -q", Grant::Command("cargo test".into())),
        ("cargo test && rm -rf /", exactly("cargo test && rm -rf /")),
        ("cargo test && cargo build", exactly("cargo test && cargo build")),
        ("cargo test > out", exactly("cargo test > out")),
        ("python -c 'print(1)'", exactly("python -c 'print(1)'")),
        ("rm notes", exactly("rm notes")),
        ("./cargo test", exactly("./cargo test")),
        ("cargo test\nrm -rf /", exactly("cargo test\nrm -rf /")),
        ("npm exec -c true", exactly("npm exec -c true")),
        ("", exactly("")),
    ] {
        let arguments = json!({ "command": command });
        let grant = always("bash", &arguments);
        assert_eq!(grant, granted, "{command}");
        assert!(covers(&grant, "bash", &arguments));
    }
    let grant = always("bash", &json!({"command": "cargo test"}));
    for (command, allowed) in [
        ("cargo test --lib", true),
        ("cargo testing", false),
        ("cargo publish", false),
        ("cargo test; curl evil", false),
        ("cargo test $(curl evil)", false),
    ] {
        assert_eq!(covers(&grant, "bash", &json!({ "command": command })), allowed, "{command}");
    }
    assert!(!covers(&grant, "write_file", &json!({"command": "cargo test"})));
    assert_eq!(always("edit_file", &json!({"path": "x"})), Grant::Tool("edit_file".into()));
    let (call, other) = (json!({"run": "ls"}), json!({"run": "rm"}));
    let grant = always("server__shell", &call);
    assert!(covers(&grant, "server__shell", &call) && !covers(&grant, "server__shell", &other));
    assert!(!covers(&grant, "other__shell", &call));
    // A command in the background, or with another time limit, is another call.
    let grant = always("bash", &json!({"command": "make"}));
    assert!(!covers(&grant, "bash", &json!({"command": "make", "background": true})));
}
