//! Every error text that a page quotes is in the sources.

use super::{Finding, Page};
use crate::workspace::SourceFile;

/// The first cell of the header of a table whose rows begin with an error text.
const HEADER: &str = "error text";

/// Stands for a value that is only known when the error occurs.
const VALUE: char = '…';

/// The least length of a part that identifies a text.
const LEAST: usize = 6;

/// Checks the tables of quoted errors. Returns the number of quoted texts.
pub(super) fn check(pages: &[Page], files: &[SourceFile], findings: &mut Vec<Finding>) -> usize {
    let sources: Vec<String> = files
        .iter()
        .filter(|f| f.path.ends_with(".rs") && f.path.starts_with("crates/") && f.path.contains("/src/"))
        .filter(|f| !f.path.ends_with("/tests.rs") && !f.path.contains("/tests/"))
        .map(|f| joined(&f.text))
        .collect();
    let mut count = 0;
    for page in pages {
        for row in page.rows.iter().filter(|row| row.header == HEADER) {
            let cell = row.cells.first().map_or("", String::as_str);
            for quote in cell.split('`').skip(1).step_by(2) {
                count += 1;
                let parts: Vec<&str> =
                    quote.split(VALUE).map(str::trim).filter(|p| p.len() >= LEAST).collect();
                let is_there = |source: &String| parts.iter().all(|part| source.contains(part));
                if parts.is_empty() || !sources.iter().any(is_there) {
                    let text = format!(
                        "no source file has the text `{quote}`; quote the code, with {VALUE} for values"
                    );
                    findings.push(Finding::new(&page.path, row.line, text));
                }
            }
        }
    }
    count
}

/// The source with the texts that continue on another line in one piece, and without escapes of quotation marks.
fn joined(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        let mut line = line;
        while let Some(start) = line.strip_suffix('\\') {
            out.push_str(start);
            line = lines.next().unwrap_or_default().trim_start();
        }
        out.push_str(line);
        out.push('\n');
    }
    out.replace("\\\"", "\"")
}

#[cfg(test)]
pub(super) fn join(source: &str) -> String {
    joined(source)
}
