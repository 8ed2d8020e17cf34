//! Reading the tables of `docs/requirements.md`.

use std::fmt;

use super::DOCUMENT;
use super::known::{LAST_DECISION, Requirement};

/// The issues that a later row may name.
const ISSUES: std::ops::RangeInclusive<u16> = 14..=20;

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) requirement: Requirement,
    pub(crate) status: Status,
    /// The row's line, from 1.
    pub(crate) line: usize,
}

/// What a row claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Status {
    /// It holds, and a test shows it.
    Tested,
    /// An open issue will bring it.
    Later(u16),
    /// Something else holds by these decisions, and a test shows that.
    Deviates(Vec<u16>),
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tested => f.write_str("tested"),
            Self::Later(issue) => write!(f, "later #{issue}"),
            Self::Deviates(decisions) => {
                f.write_str("deviates")?;
                decisions.iter().try_for_each(|d| write!(f, " D{d}"))
            }
        }
    }
}

/// The rows, and what is wrong with them.
pub(crate) fn parse(document: &str) -> (Vec<Row>, Vec<String>) {
    let mut rows = Vec::new();
    let mut problems = Vec::new();
    for (index, line) in document.lines().enumerate() {
        let number = index + 1;
        let Some(cells) = line.trim().strip_prefix('|') else { continue };
        let cells: Vec<&str> = cells.trim_end_matches('|').split('|').map(str::trim).collect();
        let Some(name) = cells.first().filter(|n| n.starts_with("REQ-") || n.starts_with("B-")) else {
            continue;
        };
        let Some(requirement) = Requirement::parse(name) else {
            problems.push(format!("{DOCUMENT}:{number}: no requirement is called {name}"));
            continue;
        };
        let note = cells.get(2).copied().unwrap_or_default();
        if cells.len() != 3 || note.is_empty() {
            problems.push(format!("{DOCUMENT}:{number}: {name} needs three cells: name, status, note"));
        }
        match status(cells.get(1).copied().unwrap_or_default()) {
            Ok(status) => rows.push(Row { requirement, status, line: number }),
            Err(problem) => problems.push(format!("{DOCUMENT}:{number}: {name}: {problem}")),
        }
    }
    (rows, problems)
}

fn status(text: &str) -> Result<Status, String> {
    let mut words = text.split_whitespace();
    match words.next() {
        Some("tested") if words.next().is_none() => Ok(Status::Tested),
        Some("later") => {
            let issue = words.next().and_then(|w| w.strip_prefix('#')).and_then(|n| n.parse().ok());
            match (issue.filter(|n| ISSUES.contains(n)), words.next()) {
                (Some(issue), None) => Ok(Status::Later(issue)),
                _ => Err(format!("`{text}` names no issue; write `later #n`")),
            }
        }
        Some("deviates") => {
            let decisions: Option<Vec<u16>> = words
                .map(|w| w.trim_end_matches(',').strip_prefix('D').and_then(|n| n.parse().ok()))
                .map(|n| n.filter(|n| (1..=LAST_DECISION).contains(n)))
                .collect();
            match decisions {
                Some(decisions) if !decisions.is_empty() => Ok(Status::Deviates(decisions)),
                _ => Err(format!("`{text}` names no decision; write `deviates Dn`")),
            }
        }
        _ => Err(format!("`{text}` is none of `tested`, `later #n`, `deviates Dn`")),
    }
}
