//! What the arguments of a tool are called.

use std::collections::BTreeSet;

use oas3::spec::ParameterIn;

/// The longest name of an argument that every provider takes.
const MAX_NAME: usize = 64;

/// The names that are taken.
#[derive(Debug, Default)]
pub(super) struct Names {
    taken: BTreeSet<String>,
}

impl Names {
    /// The name of a parameter: its own, made of letters, digits, `_`, `.` and `-`; with its place before it when
    /// another one has that name, and with a number when that is not enough.
    pub(super) fn of_parameter(&mut self, name: &str, place: ParameterIn) -> String {
        let plain = valid(name);
        if self.taken.insert(plain.clone()) {
            return plain;
        }
        let placed = match place {
            ParameterIn::Path => "path",
            ParameterIn::Query => "query",
            ParameterIn::Header => "header",
            ParameterIn::Cookie => "cookie",
        };
        self.first_free(&valid(&format!("{placed}_{name}")))
    }

    /// The name of the body: `body`, or `_request_body` when a parameter has that name (REQ-153).
    pub(super) fn of_body(&mut self) -> String {
        if self.taken.insert("body".to_owned()) {
            return "body".to_owned();
        }
        self.first_free("_request_body")
    }

    fn first_free(&mut self, name: &str) -> String {
        let mut candidate = name.to_owned();
        let mut n = 2_u32;
        while !self.taken.insert(candidate.clone()) {
            let end = format!("_{n}");
            candidate = format!("{}{end}", crate::text::head(name, MAX_NAME - end.len()));
            n = n.saturating_add(1);
        }
        candidate
    }
}

fn valid(name: &str) -> String {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let valid: String = name.chars().take(MAX_NAME).map(|c| if is_valid(c) { c } else { '_' }).collect();
    if valid.is_empty() { "_".to_owned() } else { valid }
}
