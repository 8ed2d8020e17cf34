use serde_json::json;

use super::super::rewrite::Place;
use super::*;

fn files() -> BTreeMap<String, Rewritten> {
    let place = |number, copy, unit| Place { number, copy, unit };
    let a = vec![place(0, 11..20, 10..60), place(1, 21..30, 10..60), place(2, 41..43, 40..50)];
    let b = vec![place(3, 2..4, 1..9)];
    let file = |places| Rewritten { text: String::new(), places };
    BTreeMap::from([("a.rs".to_owned(), file(a)), ("b.rs".to_owned(), file(b))])
}

#[track_caller]
fn check(lines: &[(&str, usize)], expected: &[usize]) {
    let lines: Vec<(String, usize)> = lines.iter().map(|(file, line)| ((*file).to_owned(), *line)).collect();
    assert_eq!(blamed(&files(), &lines).into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn an_error_is_the_fault_of_the_mutants_next_to_it() {
    check(&[("a.rs", 12)], &[0]);
    check(&[("a.rs", 35), ("a.rs", 25)], &[1]);
    check(&[("a.rs", 35)], &[0, 1]);
    check(&[("a.rs", 45)], &[2]);
    check(&[("a.rs", 5)], &[0, 1, 2]);
    check(&[("b.rs", 3), ("a.rs", 5)], &[3]);
    check(&[("c.rs", 3)], &[]);
}

#[test]
fn the_lines_of_an_error_are_also_those_where_a_macro_is_used() {
    let message = json!({"spans": [
        {"file_name": "m.rs", "line_start": 3, "expansion": {"span": {"file_name": "a.rs", "line_start": 7, "expansion": null}}},
        {"file_name": "b.rs", "line_start": 9, "expansion": null},
    ]});
    let expected = [("m.rs", 3), ("a.rs", 7), ("b.rs", 9)].map(|(file, line)| (file.to_owned(), line));
    assert_eq!(lines(&message), expected);
}
