use super::*;

fn file(path: &str, text: &str) -> SourceFile {
    SourceFile { path: path.to_owned(), text: text.to_owned() }
}

fn attribute(text: &str) -> Vec<Attribute> {
    match syn::parse_str::<Item>(&format!("{text} struct X;")).unwrap() {
        Item::Struct(item) => item.attrs,
        _ => unreachable!(),
    }
}

#[test]
fn modules_are_read_from_files_and_from_braces() {
    let files = [
        file("crates/a-b/src/lib.rs", "pub mod x; mod y { pub mod z; fn f() {} }"),
        file("crates/a-b/src/x.rs", "pub struct X;"),
        file("crates/a-b/src/y/z.rs", "pub struct Z;"),
    ];
    let read = Crate::read("crates/a-b", &files).unwrap();
    assert_eq!(read.name, "a_b");
    let seen: Vec<_> =
        read.modules.iter().map(|(p, m)| (p.join("::"), m.file.as_str(), m.public, m.items.len())).collect();
    assert_eq!(
        seen,
        [
            (String::new(), "crates/a-b/src/lib.rs", true, 0),
            ("x".to_owned(), "crates/a-b/src/x.rs", true, 1),
            ("y".to_owned(), "crates/a-b/src/lib.rs", false, 1),
            ("y::z".to_owned(), "crates/a-b/src/y/z.rs", true, 1),
        ]
    );
    assert_eq!(read.top_level(), ["x", "y"]);
}

#[test]
fn modules_of_tests_are_left_out_and_a_missing_file_is_an_error() {
    let tests =
        [file("crates/a/src/lib.rs", "#[cfg(test)] mod tests; #[cfg(doctest)] struct Page; fn f() {}")];
    assert_eq!(Crate::read("crates/a", &tests).unwrap().modules[&Vec::new()].items.len(), 1);
    let missing = Crate::read("crates/a", &[file("crates/a/src/lib.rs", "mod x;")]).map(|_| ()).unwrap_err();
    assert!(missing.to_string().contains("crates/a/src/x.rs is missing"), "{missing}");
}

#[test]
fn only_a_condition_that_needs_tests_makes_an_item_test_only() {
    for (text, expected) in [
        ("#[cfg(test)]", true),
        ("#[cfg(all(test, unix))]", true),
        ("#[cfg(all(doctest, feature = \"tools\"))]", true),
        ("#[cfg(any(test, feature = \"testing\"))]", false),
        ("#[cfg(not(test))]", false),
        ("#[cfg(feature = \"test\")]", false),
        ("", false),
    ] {
        assert_eq!(is_test_only(&attribute(text)), expected, "{text}");
    }
}
