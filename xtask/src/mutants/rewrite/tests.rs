use super::super::cargo_mutants::mutant;
use super::*;

/// A text and the text that replaces it.
type Replacement<'a> = (&'a str, &'a str);

/// Returns the mutant that replaces the only occurrence of a text.
fn replace(source: &str, old: &str, new: &str) -> Mutant {
    let position = |at: usize| {
        let before = &source[..at];
        let line = before.rsplit('\n').next().unwrap_or_default();
        (before.matches('\n').count() + 1, line.chars().count() + 1)
    };
    let start = source.find(old).unwrap();
    assert_eq!(source.matches(old).count(), 1, "{old}");
    mutant("a.rs", position(start), position(start + old.len()), new)
}

fn rewritten(source: &str, replacements: &[Replacement<'_>]) -> Rewritten {
    let mutants: Vec<Mutant> = replacements.iter().map(|(old, new)| replace(source, old, new)).collect();
    let numbered: Vec<(usize, &Mutant)> = mutants.iter().enumerate().collect();
    let out = rewrite(source, &numbered).unwrap();
    syn::parse_file(&out.text).unwrap();
    out
}

#[test]
fn a_unit_is_repeated_for_each_of_its_mutants() {
    let table: &[(&str, &[Replacement<'_>], &str)] = &[
        // The body of a function.
        (
            "fn f() -> u8 { let x = 1; x }",
            &[("let x = 1; x", "0")],
            "fn f() -> u8 {if crate::mutant_is_on(0) {\n 0 \n} else {\n let x = 1; x \n}}",
        ),
        // Two operators, one of which assigns.
        (
            "fn f(n: &mut u8) { if *n < 3 { *n += 1; } }",
            &[("<", "<="), ("+=", "-=")],
            "fn f(n: &mut u8) {if crate::mutant_is_on(0) {\n if *n <= 3 { *n += 1; } \n} else {\n \
            if *n < 3 {if crate::mutant_is_on(1) {\n *n -= 1; \n} else {\n *n += 1; \n}} \n}}",
        ),
        // Two mutants of one unit, and characters of more than one byte in front of them.
        (
            "fn f() {\n    g(\"äöü\", !a, b == c); // ö\n}",
            &[("!", ""), ("==", "!=")],
            "fn f() {if crate::mutant_is_on(0) {\n\n    g(\"äöü\", a, b == c); // ö\n\n} else \
            if crate::mutant_is_on(1) {\n\n    g(\"äöü\", !a, b != c); // ö\n\n} else {\n\n    \
            g(\"äöü\", !a, b == c); // ö\n\n}}",
        ),
        // An arm and a guard of a match.
        (
            "fn f() { match x { 1 => a(), 2 if b => c(), _ => {} } }",
            &[("1 => a(),", ""), ("b", "true")],
            "fn f() {if crate::mutant_is_on(0) {\n match x {  2 if b => c(), _ => {} } \n} else \
            if crate::mutant_is_on(1) {\n match x { 1 => a(), 2 if true => c(), _ => {} } \n} else {\n \
            match x { 1 => a(), 2 if b => c(), _ => {} } \n}}",
        ),
        // The body of a closure.
        (
            "fn f() { v.map(|x| x + 1) }",
            &[("+", "-")],
            "fn f() { v.map(|x| if crate::mutant_is_on(0) {\nx - 1\n} else {\nx + 1\n}) }",
        ),
        // A method and one without a mutant.
        (
            "impl A { fn g() {} async fn f() { a && b } }",
            &[("&&", "||")],
            "impl A { fn g() {} async fn f() {if crate::mutant_is_on(0) {\n a || b \n} else {\n a && b \n}} }",
        ),
    ];
    for (source, replacements, expected) in table {
        assert_eq!(rewritten(source, replacements).text, *expected, "{source}");
    }
}

#[test]
fn units_with_mutants_do_not_compile_and_others_stay() {
    for (source, replacements, expected) in [
        (
            "fn f() { a == b }",
            &[("==", "!=")] as &[Replacement<'_>],
            "fn f() {{ compile_error!(\"mutant 0\"); a == b }}",
        ),
        (
            "fn f() { if a == b { v.map(|x| x + 1) } } fn g() {}",
            &[("==", "!="), ("+", "-")],
            "fn f() {{ compile_error!(\"mutant 0\"); if a == b { v.map(|x| { compile_error!(\"mutant 1\");x + 1}) } }} \
            fn g() {}",
        ),
        ("const A: u8 = 1 + 2;", &[("+", "-")], "const A: u8 = 1 + 2;"),
    ] {
        let mutants: Vec<Mutant> = replacements.iter().map(|(old, new)| replace(source, old, new)).collect();
        let numbered: Vec<(usize, &Mutant)> = mutants.iter().enumerate().collect();
        assert_eq!(uncompilable(source, &numbered).unwrap(), expected);
    }
}

#[test]
fn what_the_compiler_evaluates_is_left_as_it_is() {
    for source in [
        "const A: u8 = { 1 + 2 };",
        "static A: u8 = { 1 + 2 };",
        "const fn f() -> u8 { 1 + 2 }",
        "impl A { const fn f() -> u8 { 1 + 2 } }",
        "impl A { const B: u8 = { 1 + 2 }; }",
        "enum A { B = { 1 + 2 } }",
        "type A = [u8; { 1 + 2 }];",
    ] {
        let out = rewritten(source, &[("+", "-")]);
        assert_eq!((out.text.as_str(), out.places.len()), (source, 0));
    }
    let out = rewritten("fn f() { const { 1 + 2 } }", &[("+", "-")]);
    assert!(out.text.contains("const { 1 - 2 } \n} else {\n const { 1 + 2 }"), "{}", out.text);
}

#[test]
fn places_are_the_lines_of_copies_and_units() {
    let out = rewritten("fn f() {\n    a == b;\n    g(|| c < d)\n}\n", &[("==", "!="), ("<", ">")]);
    let lines: Vec<&str> = out.text.lines().collect();
    for (place, mutated) in out.places.iter().zip(["a != b", "c > d"]) {
        let copy = lines[place.copy.start - 1..place.copy.end - 1].join("\n");
        assert!(copy.contains(mutated) && !copy.contains("mutant_is_on"), "{copy}");
        let unit = lines[place.unit.start - 1..place.unit.end - 1].join("\n");
        assert!(unit.contains(&format!("mutant_is_on({})", place.number)), "{unit}");
    }
    assert_eq!(out.places.iter().map(|place| place.number).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn the_function_reads_the_variables() {
    for name in [VARIABLE, REACHED] {
        assert!(IS_ON.contains(&format!("\"{name}\"")), "{name}");
    }
    syn::parse_file(IS_ON).unwrap();
}

#[test]
fn a_place_outside_of_the_file_is_an_error() {
    let mutant = mutant("a.rs", (9, 1), (9, 2), "");
    let error = rewrite("fn f() {}", &[(0, &mutant)]).unwrap_err();
    assert!(error.to_string().contains("is not in its file"), "{error}");
    assert!(rewrite("fn f( {}", &[]).is_err());
}
