use super::tags::{Tag, tags_in};
use super::*;

fn file(path: &str, text: &str) -> SourceFile {
    SourceFile { path: path.to_owned(), text: text.to_owned() }
}

#[track_caller]
fn check_tags(text: &str, expected: &[&str]) {
    let shown: Vec<String> = tags_in(text)
        .into_iter()
        .map(|tag| match tag {
            Tag::Known(requirement) => requirement.to_string(),
            Tag::Unknown(word) => format!("?{word}"),
        })
        .collect();
    assert_eq!(shown, expected, "{text}");
}

#[test]
fn tags_are_read_from_running_text() {
    check_tags("REQ-055, B-087.", &["REQ-055", "B-087"]);
    check_tags("shows (REQ-001): also é B-190", &["REQ-001", "B-190"]);
    check_tags("ABC-001, aREQ-001, plan B - and B-tree", &[]);
}

#[test]
fn numbers_that_do_not_exist_and_odd_spellings_are_reported() {
    check_tags("REQ-222 REQ-000 B-032 B-110", &["?REQ-222", "?REQ-000", "?B-032", "?B-110"]);
    check_tags("REQ-55, REQ 055, B-7", &["?REQ-55", "?REQ 055", "?B-7"]);
    check_tags("REQ-056..059", &["?REQ-056.."]);
}

#[test]
fn there_are_221_requirements_and_each_behaviour_once() {
    let all: Vec<_> = known::all().collect();
    assert_eq!(all.iter().filter(|r| matches!(r, Requirement::Req(_))).count(), 221);
    assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(all.iter().all(|r| Requirement::parse(&r.to_string()) == Some(*r)));
}

#[track_caller]
fn check_rows(document: &str, rows: &[&str], problems: &[&str]) {
    let (read, found) = rows::parse(document);
    let read: Vec<String> = read.iter().map(|r| format!("{} {}", r.requirement, r.status)).collect();
    assert_eq!(read, rows);
    assert_eq!(found.len(), problems.len(), "{found:?}");
    for (found, wanted) in found.iter().zip(problems) {
        assert!(found.contains(wanted), "{found} should say {wanted}");
    }
}

#[test]
fn rows_are_read_and_other_lines_left_alone() {
    check_rows(
        "# Title\n| name | status | note |\n|---|---|---|\n| REQ-001 | tested | a |\n| B-001 | later #14 | b |\n\
         | REQ-107 | deviates D5, D6 | c |\n",
        &["REQ-001 tested", "B-001 later #14", "REQ-107 deviates D5 D6"],
        &[],
    );
}

#[test]
fn a_row_must_say_something_that_can_be_checked() {
    check_rows("| REQ-001 | later | a |", &[], &["names no issue"]);
    check_rows("| REQ-001 | later #2 | a |", &[], &["names no issue"]);
    check_rows("| REQ-001 | deviates | a |", &[], &["names no decision"]);
    check_rows("| REQ-001 | deviates D99 | a |", &[], &["names no decision"]);
    check_rows("| REQ-001 | done | a |", &[], &["is none of"]);
    check_rows("| REQ-999 | tested | a |", &[], &["no requirement is called"]);
    check_rows("| REQ-001 | tested | |", &["REQ-001 tested"], &["three cells"]);
}

#[test]
fn a_tag_counts_on_a_test_in_crates_examples_and_xtask_only() {
    let tagged = "/// REQ-001.\n#[test]\nfn t() {}\n";
    let (places, problems) = collect(&[
        file("crates/a/src/x/tests.rs", tagged),
        file("docs/x.rs", tagged),
        file("crates/a/src/y.rs", "/// REQ-002.\npub fn not_a_test() {}\n"),
    ]);
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(places.len(), 1);
    let place = &places[&Requirement::Req(1)][0];
    assert_eq!((place.path.as_str(), place.line, place.name.as_str()), ("crates/a/src/x/tests.rs", 3, "t"));
}

#[test]
fn a_row_without_a_test_is_a_problem_unless_it_is_later() {
    let row = |n, status| Row { requirement: Requirement::Req(n), status, line: 1 };
    let rows = [row(1, Status::Tested), row(2, Status::Deviates(vec![5])), row(3, Status::Later(4))];
    let problems = compare(&rows, &BTreeMap::new());
    assert!(problems.iter().any(|p| p.contains("REQ-001 has no test")));
    assert!(problems.iter().any(|p| p.contains("REQ-002 has no test")));
    assert!(!problems.iter().any(|p| p.contains("REQ-003")));
    assert!(problems.iter().any(|p| p.contains("no row for REQ-004")));
}

#[test]
fn an_unknown_number_on_a_test_is_a_problem() {
    let (_, problems) = collect(&[file("crates/a/tests/t.rs", "/// REQ-300.\n#[test]\nfn t() {}\n")]);
    assert_eq!(problems, ["crates/a/tests/t.rs:3: no requirement is called REQ-300"]);
}
