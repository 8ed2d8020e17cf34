use super::*;

/// The findings of the module rules in a crate whose files are given below `src/`.
fn findings_in(name: &str, files: &[(&str, &str)]) -> Vec<Finding> {
    let files: Vec<SourceFile> =
        files.iter().map(|(path, text)| file(&format!("crates/{name}/src/{path}"), text)).collect();
    let crates = syntax::libraries(&files).unwrap();
    let mut findings = Vec::new();
    for rule in MODULE_RULES {
        rule(&crates, &mut findings);
    }
    findings
}

/// The texts of the cycles that `a` and `b` of a crate form.
fn cycles(a: &str, b: &str) -> Vec<String> {
    let files = [("lib.rs", "mod a; mod b; pub use b::Named;"), ("a.rs", a), ("b.rs", b), ("a/tests.rs", "")];
    findings_in("agent-tools", &files).into_iter().map(|f| f.to_string()).collect()
}

#[test]
fn a_cycle_is_reported_once_with_a_line_for_each_import() {
    let found = cycles(
        "\nuse crate::b::Named;\nuse crate::b::Other;",
        "\n\npub struct Named;\nfn f() { super::a::g() }",
    );
    assert_eq!(found.len(), 1, "{found:?}");
    let expected = "a -> b (crates/agent-tools/src/a.rs:2) -> a (crates/agent-tools/src/b.rs:4)";
    assert!(
        found[0].starts_with("crates/agent-tools/src/a.rs:2: [module-cycles]") && found[0].contains(expected),
        "{found:?}"
    );
}

#[test]
fn every_way_to_name_another_module_counts() {
    for a in [
        "use crate::{b::Named};",
        "use crate::b;",
        "use super::b::{self, Named};",
        "pub use crate::b::*;",
        "use crate::Named;",
        "fn f(x: crate::b::Named) {}",
        "fn f() { g(crate::Named::new()) }",
        "fn f() { matches!(x, Some(crate::b::Named)); }",
        "mod inner { use super::super::b::Named; }",
        "struct S { #[serde(with = \"crate::b::form\")] x: u8 }",
    ] {
        assert_eq!(cycles(a, "use crate::a; pub struct Named;").len(), 1, "{a}");
    }
}

#[test]
fn tests_comments_and_visibilities_are_no_imports() {
    for a in [
        "/// [`Named`](crate::b::Named)\nfn f() {}",
        "// crate::b::Named\nfn f() { g(\"crate::b\") }",
        "#[cfg(test)] use crate::b::Named;",
        "#[cfg(test)] mod tests;",
        "#[cfg(test)] impl X { fn f() { crate::b::f() } }",
        "impl X { #[cfg(test)] fn f() { crate::b::f() } }",
        "pub(in crate::b) fn f() {}",
        "mod inner { use super::x; }",
        "use crate::a::x; use other::b;",
    ] {
        assert_eq!(cycles(a, "use crate::a; pub struct Named;"), Vec::<String>::new(), "{a}");
    }
}

#[test]
fn the_shortest_cycle_of_a_group_is_shown_with_the_size_of_the_group() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use crate::b::X;"),
        ("b.rs", "use crate::c::X;"),
        ("c.rs", "use crate::a::X; use crate::b::Y;"),
        ("d.rs", "use crate::a::X;"),
    ];
    let found = findings_in("agent-session", &files);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].text.contains("b -> c (")
            && found[0].text.contains("3 modules are in such circles: a, b, c"),
        "{found:?}"
    );
}

#[test]
fn a_module_of_agent_core_imports_no_higher_layer_and_is_in_one() {
    let rules = |lib: &str, tool: &str, run: &str| {
        let files = [("lib.rs", lib), ("tool.rs", tool), ("run.rs", run), ("novelty.rs", "")];
        findings_in("agent-core", &files).iter().map(|f| (f.rule, f.line)).collect::<Vec<_>>()
    };
    assert_eq!(rules("mod tool; mod run;", "", "use crate::tool::X;"), []);
    assert_eq!(rules("mod tool; mod run;", "\nuse crate::run::X;", ""), [("module-layers", 2)]);
    assert_eq!(rules("mod novelty;", "", ""), [("module-layers", 0)]);
}

#[test]
fn the_impl_blocks_of_a_type_are_in_at_most_four_files() {
    let names = ["a", "b", "c", "d", "e"];
    let found = |parts: usize| {
        let block = "use super::X; impl X { fn f() {} }".to_owned();
        let mods: String = names.iter().take(parts).map(|n| format!("mod {n};")).collect();
        // Traits, tests and another type of the same name do not count.
        let x = format!("{mods} pub struct X; impl Clone for X {{}} #[cfg(test)] mod tests;");
        let mut files = vec![("lib.rs".to_owned(), "mod x; mod y;".to_owned()), ("x.rs".to_owned(), x)];
        files.push(("y.rs".to_owned(), "struct X; impl X { fn g() {} }".to_owned()));
        files.extend(names.iter().take(parts).map(|n| (format!("x/{n}.rs"), block.clone())));
        let files: Vec<(&str, &str)> = files.iter().map(|(p, t)| (p.as_str(), t.as_str())).collect();
        findings_in("agent-tools", &files)
    };
    assert_eq!(found(4), []);
    let five = found(5);
    assert_eq!(five.len(), 1, "{five:?}");
    assert!(five[0].rule == "impl-files" && five[0].place.ends_with("src/x.rs"), "{five:?}");
    assert!(five[0].text.contains("`X` are in 5 files") && five[0].text.contains("x/e.rs"), "{five:?}");
}

#[test]
fn a_wrapper_that_lacks_a_method_of_its_trait_is_found() {
    let of_trait =
        "pub trait AgentTool { fn execute(&self); fn name(&self) -> u8; fn loading(&self) -> u8 { 0 } }";
    for (body, missing) in [
        ("fn execute(&self) { self.0.execute() } fn name(&self) -> u8 { 1 }", Some("loading")),
        ("fn execute(&self) { if x { (**self).execute() } }", Some("loading, name")),
        (
            "fn execute(&self) { self.0.execute() } fn name(&self) -> u8 { 1 } fn loading(&self) -> u8 { 1 }",
            None,
        ),
        // It wraps nothing, so the defaults are its own.
        ("fn execute(&self) { self.0.run() } fn name(&self) -> u8 { 1 }", None),
    ] {
        let text = format!("{of_trait} struct Wrapper(u8); impl AgentTool for Wrapper {{ {body} }}");
        let found = findings_in("agent-tools", &[("lib.rs", &text)]);
        let found: Vec<String> =
            found.iter().filter(|f| f.rule == "wrappers").map(|f| f.text.clone()).collect();
        let expected: Vec<String> = missing
            .map(|methods| format!("`Wrapper` wraps another `AgentTool` and does not forward {methods}"))
            .into_iter()
            .collect();
        assert_eq!(found, expected, "{body}");
    }
}
