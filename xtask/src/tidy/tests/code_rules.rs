use super::*;

const CORE: &str = "crates/agent-core/src/run.rs";

#[test]
fn agent_core_names_no_io_outside_of_one_file() {
    check(CORE, "use std::fs;\n", &[("core-does-no-io", 1)]);
    check(CORE, "fn f() {}\nlet t = std::time::Instant::now();\n", &[("core-does-no-io", 2)]);
    check(CORE, "let x = tokio::net::TcpStream::connect(a);", &[("core-does-no-io", 1)]);
    check("crates/agent-core/src/environment/system.rs", "let t = std::time::SystemTime::now();", &[]);
    check("crates/agent-tools/src/read.rs", "use std::fs;\n", &[]);
    check("crates/agent-core/src/run/tests.rs", "tokio::time::pause();\n", &[]);
}

#[test]
fn an_import_in_braces_hides_nothing() {
    check(CORE, "use std::{\n    fmt,\n    fs::File,\n};\n", &[("core-does-no-io", 1)]);
    check(CORE, "use std::{fmt, sync::{Arc, Mutex}};\n", &[]);
    check(CORE, "use tokio::{sync::mpsc, process};\n", &[("core-does-no-io", 1)]);
}

#[test]
fn words_in_comments_and_texts_are_not_code() {
    check(CORE, "// std::fs is not used\n/// `std::env`\nconst A: &str = \"std::process\";\n", &[]);
}

#[test]
fn encoders_and_decoders_wait_for_nothing() {
    let encoder = "crates/agent-providers/src/google/encode/contents.rs";
    check(encoder, "async fn f() {}\n", &[("protocols-are-pure", 1)]);
    check(encoder, "let now = std::time::Instant::now();\n", &[("protocols-are-pure", 1)]);
    check("crates/agent-providers/src/ollama/decode.rs", "x.await\n", &[("protocols-are-pure", 1)]);
    check("crates/agent-providers/src/ollama/decode/tests.rs", "x.await\n", &[]);
    check("crates/agent-providers/src/vertex/token.rs", "x.await\n", &[]);
}

#[test]
fn connections_are_opened_in_few_places() {
    let opens = "let client = reqwest::Client::new();\n";
    check("crates/agent-providers/src/google.rs", opens, &[("sockets-in-few-places", 1)]);
    check(
        "crates/agent-providers/src/registry.rs",
        "use gcp_auth::Token;\n",
        &[("sockets-in-few-places", 1)],
    );
    check("crates/agent-providers/src/transport/client.rs", opens, &[]);
    check("crates/agent-providers/src/vertex/token.rs", "use gcp_auth::Token;\n", &[]);
    check("crates/agent-tools/src/mcp/http.rs", opens, &[]);
}

#[test]
fn the_command_writes_to_the_terminal_by_its_screen_only() {
    let writes = "fn f() {\n    println!(\"{x}\");\n}\n";
    check("crates/looptree-cli/src/lists.rs", writes, &[("terminal", 2)]);
    check("crates/looptree-cli/src/lists.rs", "std::io::stderr().write_all(b)?;\n", &[("terminal", 1)]);
    check("crates/looptree-cli/src/lists.rs", "let live = std::io::stdout().is_terminal();\n", &[]);
    check("crates/looptree-cli/src/screen/status.rs", writes, &[]);
    check("crates/looptree-cli/src/lists/tests.rs", writes, &[]);
    check("crates/looptree/src/x.rs", "", &[]);
}

#[test]
fn the_facade_holds_re_exports_only() {
    let facade = "crates/looptree/src/lib.rs";
    check(
        facade,
        "//! Docs with fn and struct.\npub use agent_core::*;\npub mod prelude {\n pub use a::b;\n}\n",
        &[],
    );
    check(facade, "pub fn agent() {}\n", &[("facade-only-re-exports", 1)]);
    check(facade, "#[cfg(all(doctest, unix))]\n#[doc = include_str!(\"x.md\")]\nstruct Readme;\n", &[]);
    check(facade, "pub use a::B;\nimpl B {}\n", &[("facade-only-re-exports", 2)]);
}

#[test]
fn a_long_file_is_named_and_a_very_long_one_refused() {
    check("crates/a/src/x.rs", &"a();\n".repeat(401), &[("file-size", 0)]);
    assert_eq!(check_files(&[file("crates/a/src/x.rs", &"a();\n".repeat(401))])[0].weight, Weight::Warning);
    check("crates/a/src/x/tests.rs", &"a();\n".repeat(800), &[]);
    check("crates/a/src/x/tests.rs", &"a();\n".repeat(801), &[("file-size", 0)]);
    assert_eq!(check_files(&[file("xtask/src/x.rs", &"a();\n".repeat(801))])[0].weight, Weight::Error);
}

#[test]
fn tests_stand_in_a_file_of_their_own() {
    check("crates/a/src/x.rs", "#[cfg(test)]\nmod tests {\n}\n", &[("inline-tests", 2)]);
    check("crates/a/src/x.rs", "#[cfg(test)]\nmod tests;\n", &[]);
}

#[test]
fn unordered_maps_are_refused_in_libraries() {
    check("crates/a/src/x.rs", "use std::collections::HashMap;\n", &[("unordered-maps", 1)]);
    check("crates/a/src/x.rs", "use std::collections::BTreeMap; // not HashMap\n", &[]);
    check("xtask/src/x.rs", "use std::collections::HashMap;\n", &[]);
}

#[test]
fn library_code_does_not_panic_unless_it_says_why() {
    check("crates/a/src/x.rs", "let a = b.unwrap();\n", &[("panics", 1)]);
    check("crates/a/src/x.rs", "let a = b.unwrap_or(1);\n", &[]);
    check("crates/a/src/x.rs", "panic!(\"no\");\n", &[("panics", 1)]);
    let excused =
        "#[expect(clippy::expect_used, reason = \"the literal parses\")]\nlet a = b.expect(\"x\");\n";
    check("crates/a/src/x.rs", excused, &[]);
    check("crates/a/src/x/tests.rs", "a.unwrap();\n", &[]);
    check("crates/agent-core/src/testing/events.rs", "panic!(\"an assertion\");\n", &[]);
    check("examples/src/a.rs", "a.unwrap();\n", &[]);
}

#[test]
fn modules_are_named_for_what_they_hold() {
    check("crates/a/src/utils.rs", "", &[("module-names", 0)]);
    check("crates/a/src/misc/x.rs", "", &[("module-names", 0)]);
    check("crates/a/src/utilities_of_war.rs", "", &[]);
}

#[test]
fn a_public_module_says_what_it_is_and_shows_it() {
    let rules = |child: &str| {
        let files = [file("crates/a/src/lib.rs", "pub mod x;\nmod y;\n"), file("crates/a/src/x.rs", child)];
        check_files(&files).iter().map(|f| (f.rule, f.weight)).collect::<Vec<_>>()
    };
    assert_eq!(rules("use a;\n"), [("module-docs", Weight::Error)]);
    assert_eq!(rules("//! What it is.\n"), [("module-docs", Weight::Warning)]);
    assert_eq!(rules("//! What it is.\n//!\n//! ```\n//! a();\n//! ```\n"), []);
}
