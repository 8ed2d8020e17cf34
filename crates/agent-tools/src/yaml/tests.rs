use super::brackets;

fn is_affordable(text: &str) -> bool {
    super::is_affordable(text, 500_000_000)
}

#[track_caller]
fn check(line: &str, open: usize) {
    assert_eq!(brackets(line.as_bytes()).left, open, "{line}");
}

#[test]
fn what_is_closed_on_its_line_does_not_count() {
    check("plain: text", 0);
    check("a: [1, 2, {b: c}]", 0);
    check("- {a: 'b', \"c\": \"d]\", e: [\"f\", 'it''s']}", 0);
    check("- {$ref: '#/components/x'} # a comment", 0);
    check("  {\"a\":\"b\"}", 0);
    check("/pets/{petId}/x-{y}:", 0);
}

#[test]
fn what_may_be_open_counts() {
    check("a: [", 1);
    check("a: [\"]\", [\"]\", [\"]\",", 3);
    check("a: ['], [']', [", 3);
    check("a: [ # ]", 1);
    check("a: [!<]> x, [", 2);
    // In the middle of a plain text a quote is none.
    check("[don't ]', [don't ]', [", 3);
    check("k, \"x: [[[[\"", 4);
    check("k [ \"x: [[[[\"", 5);
    check("[a:\"[[[[\", b]", 5);
    // From inside of a text the quotes are the other way round.
    check("\" , [\"],\", [\"],\", \"", 2);
}

#[test]
fn what_is_open_within_a_line_counts() {
    let most = |line: &str| brackets(line.as_bytes()).most;
    assert_eq!(most("a: [[[]]]"), 3);
    assert_eq!(most("a: [[]], [\"[[[[\"]"), 2);
    assert_eq!(most("a: {b: [c]} # ]["), 2);
    assert_eq!(most("plain: text"), 0);
}

#[test]
fn brackets_that_are_closed_on_their_line_are_not_affordable_either() {
    let nested = |open: &str, close: &str, n: usize| {
        format!("openapi: 3.1.0\nx: {}{}\n", open.repeat(n), close.repeat(n))
    };
    assert!(is_affordable(&nested("[", "]", 1_000)));
    assert!(!is_affordable(&nested("[", "]", 20_000)));
    assert!(!is_affordable(&nested("{a: ", "}", 20_000)));
    assert!(!is_affordable(&nested("[\"]\", ", "]", 20_000)));
    // The brackets of earlier lines count for later lines.
    let lines = format!("x: {}\n{}", "[[[[[]\n".repeat(2_000), "a, b, c\n".repeat(100_000));
    assert!(!is_affordable(&lines));
    // Many lines with a few brackets, and a long line without many, are fine.
    assert!(is_affordable(&format!("x: [{}]\n", "{a: [b]}, ".repeat(1_000_000))));
}

#[test]
fn brackets_in_brackets_are_not_affordable_when_there_are_many() {
    let nested = |inner: &str, n: usize| format!("openapi: {}", inner.repeat(n));
    assert!(is_affordable(&nested("[", 1_000)));
    assert!(!is_affordable(&nested("[", 100_000)));
    assert!(!is_affordable(&nested("[\"]\", ", 20_000)));
    assert!(!is_affordable(&format!("{}{}", "[".repeat(1000), "x, ".repeat(1_000_000))));
    let flat = "- {name: a, in: query, schema: {type: 'string', enum: [\"a\", \"b\"]}}\n".repeat(200_000);
    assert!(is_affordable(&flat));
}
