use serde_json::json;

use super::*;

#[test]
fn always_allows_no_more_than_the_program_and_its_subcommand() {
    for (command, granted) in [
        ("cargo test --quiet", Grant::Command("cargo test".into())),
        ("cargo test && cargo test -q", Grant::Command("cargo test".into())),
        ("cargo test && rm -rf /", Grant::Line("cargo test && rm -rf /".into())),
        ("cargo test > out", Grant::Line("cargo test > out".into())),
        ("python -c 'print(1)'", Grant::Line("python -c 'print(1)'".into())),
        ("python ./x.py", Grant::Line("python ./x.py".into())),
        ("ls", Grant::Line("ls".into())),
        ("rm notes", Grant::Line("rm notes".into())),
        ("sudo ls -l", Grant::Line("sudo ls -l".into())),
        ("ssh host uptime", Grant::Line("ssh host uptime".into())),
        ("xargs rm", Grant::Line("xargs rm".into())),
        ("./cargo test", Grant::Line("./cargo test".into())),
        ("cargo test\nrm -rf /", Grant::Line("cargo test\nrm -rf /".into())),
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
}
