use super::*;

fn file(path: &str, text: &str) -> SourceFile {
    SourceFile { path: path.to_owned(), text: text.to_owned() }
}

fn texts(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(ToString::to_string).collect()
}

#[test]
fn a_page_has_anchors_links_blocks_and_rows() {
    let text = "# The loop\n\n## `Run` & [steps](x.md)\n\n## The loop\n\nSee [a](b.md#c), [`d`](../e.md) and `[no](link.md)`.\n\n\
                [ref]: f.md\n\n```rust,no_run\n[no](in-code.md)\n```\n\n| error text | what |\n|---|---|\n| `a \\| b` | c |\n";
    let page = Page::parse("docs/x.md", text);
    let anchors: Vec<&str> = page.anchors.iter().map(String::as_str).collect();
    assert_eq!(anchors, ["run--steps", "the-loop", "the-loop-1"]);
    let links: Vec<&str> = page.links.iter().map(|l| l.target.as_str()).collect();
    assert_eq!(links, ["x.md", "b.md#c", "../e.md", "f.md"]);
    assert_eq!(page.blocks.len(), 1);
    assert_eq!((page.blocks[0].info.as_str(), page.blocks[0].line), ("rust,no_run", 11));
    assert_eq!(page.rows.len(), 1);
    assert_eq!((page.rows[0].header.as_str(), page.rows[0].cells.len()), ("error text", 2));
}

#[test]
fn a_link_to_a_missing_file_or_heading_is_found() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("docs")).unwrap();
    std::fs::write(folder.path().join("docs/b.md"), "# Here\n").unwrap();
    std::fs::write(folder.path().join("docs/a.md"), "").unwrap();
    let a =
        "[1](b.md) [2](b.md#here) [3](b.md#gone) [4](c.md) [5](../../out.md) [6](https://example.org/x.md)\n";
    let blob = format!("[7]({}docs/b.md) [8]({}docs/c.md)\n", links::BLOB, links::BLOB);
    let pages = [Page::parse("docs/a.md", &(a.to_owned() + &blob)), Page::parse("docs/b.md", "# Here\n")];
    let sources =
        [file("crates/x/src/lib.rs", "//! See docs/b.md and docs/d.md.\nfn f() { g(\"docs/e.md\") }\n")];
    let mut findings = Vec::new();
    let count = links::check(folder.path(), &pages, &sources, &mut findings);
    assert_eq!(count, 9);
    let texts = texts(&findings);
    assert_eq!(texts.len(), 5, "{texts:?}");
    for (text, part) in
        texts.iter().zip(["`gone`", "no docs/c.md", "leads out", "no docs/c.md", "no docs/d.md"])
    {
        assert!(text.contains(part), "{text} lacks {part}");
    }
}

#[test]
fn a_comment_names_pages_of_this_project_only() {
    assert_eq!(links::named("see docs/a/b-c.md."), ["docs/a/b-c.md"]);
    assert_eq!(links::named(&format!("[x]({}docs/a.md#b)", links::BLOB)), ["docs/a.md"]);
    assert!(links::named("https://github.com/ollama/ollama/blob/main/docs/api.md").is_empty());
}

#[test]
fn a_rust_block_is_included_by_a_test_or_has_a_reason() {
    let pages = [
        Page::parse("docs/in.md", "```rust\n```\n\n```text\n```\n\n```\nx\n```\n"),
        Page::parse(
            "docs/out.md",
            "```rust\n```\n\n<!-- not compiled: it is a fragment -->\n```rust,ignore\n```\n\nText.\n\n```rust,ignore\n```\n",
        ),
    ];
    let sources =
        [file("crates/looptree/src/lib.rs", "#[doc = include_str!(\"../../../docs/in.md\")]\nstruct In;\n")];
    let mut findings = Vec::new();
    let blocks = blocks::check(&pages, &sources, &mut findings);
    assert_eq!(blocks.ignored, ["docs/out.md:5: it is a fragment"]);
    let texts = texts(&findings);
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert!(texts[0].starts_with("docs/in.md:7: a block without a language"), "{texts:?}");
    assert!(texts[1].starts_with("docs/out.md:1: no documentation test"), "{texts:?}");
    assert!(texts[2].starts_with("docs/out.md:10: the block is not compiled"), "{texts:?}");
}

#[test]
fn a_page_that_the_table_of_contents_lacks_or_lists_twice_is_found() {
    let summary = Page::parse(SUMMARY, "- [a](a.md)\n- [a](a.md)\n");
    let pages = [Page::parse("docs/a.md", ""), Page::parse("docs/b/c.md", ""), Page::parse("README.md", "")];
    let mut findings = Vec::new();
    coverage::summary(&summary, &pages, &mut findings);
    assert_eq!(
        texts(&findings),
        ["docs/SUMMARY.md:2: lists docs/a.md twice", "docs/b/c.md: is not in docs/SUMMARY.md; add it there"]
    );
}

#[test]
fn the_page_of_features_has_each_feature_with_its_default() {
    let manifest = "[package]\nname = \"looptree\"\n\n[features]\ndefault = [\"a\"]\n# A.\na = []\nb-c = [\"x/y\"]\n\n[dependencies]\nz = [\"q\"]\n";
    assert_eq!(
        coverage::declared_features(manifest).into_iter().collect::<Vec<_>>(),
        [("a".to_owned(), true), ("b-c".to_owned(), false)]
    );
    let page = "| feature | content | default |\n|---|---|---|\n| `a` | A. | no |\n| `d` | D. | no |\n";
    let files = [
        file("crates/looptree/Cargo.toml", manifest),
        file("docs/reference/features.md", page),
        file("README.md", "With `a`."),
    ];
    let mut findings = Vec::new();
    coverage::features(&files, &mut findings);
    let texts = texts(&findings);
    assert_eq!(
        texts,
        [
            "docs/reference/features.md:3: the default of `a` is wrong",
            "docs/reference/features.md: has no row for the feature `b-c`",
            "README.md: does not name the feature `b-c`",
            "docs/reference/features.md:4: `looptree` has no feature `d`"
        ]
    );
}

#[test]
fn the_page_of_limits_has_public_numbers_and_durations() {
    let lib = "//! X.\n/// The most [`Bytes`](x) of a thing. More.\npub const MAX_BYTES: usize = 64 << 20;\npub const WAIT: std::time::Duration = Duration::from_secs(2 * 60);\n\
               pub const OF: usize = crate::inner::N;\npub const TEXT: &str = \"x\";\npub const FORM: u32 = 1;\nconst HIDDEN: u32 = 1;\nmod inner;\n";
    let files = [
        file("crates/agent-x/src/lib.rs", lib),
        file("crates/agent-x/src/inner.rs", "//! Y.\npub const N: usize = 4_096;\n"),
    ];
    let crates = syntax::libraries(&files).unwrap();
    let page = limits::page(&crates, &files);
    assert!(page.contains("## `agent_x`"), "{page}");
    assert!(page.contains("| `MAX_BYTES` | 64 MiB | The most `Bytes` of a thing. |"), "{page}");
    assert!(page.contains("| `WAIT` | 2 min |"), "{page}");
    assert!(page.contains("| `OF` | 4,096 |"), "{page}");
    assert!(!page.contains("TEXT") && !page.contains("FORM") && !page.contains("HIDDEN"), "{page}");
    assert_eq!(limits::Unit::Milliseconds.show(1_500), "1,500 ms");
    assert_eq!(limits::Unit::Bytes.show(131_071), "131,071 bytes");
}

#[test]
fn a_quoted_error_is_in_the_sources() {
    let source = "#[error(\n    \"the budget {name} is \\\n     used up: {n} is spent\"\n)]\n";
    assert!(quotes::join(source).contains("is used up: {n}"));
    let page = "| error text | do |\n|---|---|\n| `the budget … is used up` | a |\n| `the wallet is used up` | b |\n";
    let pages = [Page::parse("docs/t.md", page)];
    let mut findings = Vec::new();
    let count = quotes::check(&pages, &[file("crates/x/src/a.rs", source)], &mut findings);
    assert_eq!(count, 2);
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].line, 4);
}

#[test]
fn links_that_leave_the_book_become_addresses() {
    let text = "[a](../../crates/x.rs#L1) [b](../c.md#d) [e](https://f) [g](../../docs/providers)";
    let expected =
        format!("[a]({0}crates/x.rs#L1) [b](../c.md#d) [e](https://f) [g]({0}docs/providers)", links::BLOB);
    assert_eq!(book::outward("docs/guides/x.md", text), expected);
    let definition = "Text: a.\n\n[`A`]: ../../crates/x.rs\n[b]: c.md\n";
    let expected = format!("Text: a.\n\n[`A`]: {}crates/x.rs\n[b]: c.md\n", links::BLOB);
    assert_eq!(book::outward("docs/guides/x.md", definition), expected);
}

#[test]
fn an_unknown_argument_is_an_error() {
    let mode = |list: &[&str]| mode(&list.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
    assert_eq!(mode(&[]).unwrap(), Mode::Build);
    assert_eq!(mode(&["--check"]).unwrap(), Mode::Check);
    assert!(mode(&["--chek"]).is_err());
}

/// REQ-179.
#[test]
fn the_runbook_has_a_decision_tree_for_each_case_and_names_what_to_tune() {
    let workspace = Workspace::find().unwrap();
    let folder = workspace.root.join("docs/runbook");
    for (page, subjects) in [
        (
            "providers.md",
            &["RetryConfig", "with_route", "RouteChanged", "max_context_tokens", "with_limits"][..],
        ),
        ("costs.md", &["Budget::raise", "CacheBroken"]),
        ("stuck-runs.md", &["abort()", "max turns exceeded"]),
        ("sessions.md", &["salvage_session", "Locked"]),
        ("mcp.md", &["MCP connection closed", "McpServers::failures()"]),
        ("performance.md", &["cargo xtask bench memory", "perf record", "callgrind"]),
        ("durable.md", &["sys_invocation", "with_lease"]),
    ] {
        let text = std::fs::read_to_string(folder.join(page)).unwrap();
        assert!(text.contains("```text\n") && text.contains("├─"), "{page} has no decision tree");
        for subject in subjects {
            assert!(text.contains(subject), "{page} lacks {subject}");
        }
        for number in
            text.lines().filter_map(|line| line.strip_prefix("## ")?.split_once(". ")).map(|(n, _)| n)
        {
            assert!(
                text.matches(&format!(" {number}\n")).count() > 0,
                "{page}: no branch of the tree leads to step {number}"
            );
        }
    }
}

#[test]
fn the_guide_to_a_web_service_shows_the_example() {
    let root = Workspace::find().unwrap().root;
    let page = std::fs::read_to_string(root.join("docs/guides/web-service.md")).unwrap();
    let example = std::fs::read_to_string(root.join("examples/web_service/main.rs")).unwrap();
    assert!(
        page.contains(example.trim_end()),
        "docs/guides/web-service.md differs from examples/web_service/main.rs"
    );
}
