//! A Markdown page: its headings, links, code blocks and table rows.

use std::collections::{BTreeMap, BTreeSet};

/// A page, as far as the rules need it.
#[derive(Debug)]
pub(super) struct Page {
    /// The path from the root of the project.
    pub(super) path: String,
    /// The anchors that a link to this page can name.
    pub(super) anchors: BTreeSet<String>,
    /// The targets of all links, as they are written.
    pub(super) links: Vec<Link>,
    /// The code blocks with a fence.
    pub(super) blocks: Vec<Block>,
    /// The lines of prose, with inline code blanked; lines of code blocks are empty.
    prose: Vec<String>,
    /// The rows of tables, with the header of their table.
    pub(super) rows: Vec<Row>,
}

/// A link and its line, from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) line: usize,
    pub(super) target: String,
}

/// A code block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    /// The line of the opening fence, from 1.
    pub(super) line: usize,
    /// The text behind the fence, such as `rust,no_run`.
    pub(super) info: String,
    /// The last line with text before the block.
    pub(super) before: String,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) line: usize,
    /// The first cell of the header.
    pub(super) header: String,
    /// The cells without the blanks around them.
    pub(super) cells: Vec<String>,
}

impl Page {
    pub(super) fn parse(path: &str, text: &str) -> Self {
        let mut page = Self {
            path: path.to_owned(),
            anchors: BTreeSet::new(),
            links: Vec::new(),
            blocks: Vec::new(),
            prose: Vec::new(),
            rows: Vec::new(),
        };
        let mut slugs: BTreeMap<String, usize> = BTreeMap::new();
        let mut fence: Option<String> = None;
        let mut before = String::new();
        let mut header: Option<String> = None;
        for (at, line) in text.lines().enumerate() {
            let bare = line.trim();
            if let Some(open) = &fence {
                if bare.starts_with(open.as_str()) && bare.trim_matches(['`', '~']).is_empty() {
                    fence = None;
                }
                page.prose.push(String::new());
                continue;
            }
            if bare.starts_with("```") || bare.starts_with("~~~") {
                let mark: String = bare.chars().take_while(|c| *c == '`' || *c == '~').collect();
                let info = bare.trim_start_matches(['`', '~']).trim().to_owned();
                page.blocks.push(Block { line: at + 1, info, before: before.clone() });
                fence = Some(mark);
                page.prose.push(String::new());
                continue;
            }
            if let Some(heading) = heading(line) {
                let slug = slug(heading);
                let count = slugs.entry(slug.clone()).or_default();
                page.anchors.insert(if *count == 0 { slug } else { format!("{slug}-{count}") });
                *count += 1;
            }
            page.anchors.extend(ids(line));
            if bare.starts_with('|') {
                let cells = cells(bare);
                match &header {
                    None => header = Some(cells.first().cloned().unwrap_or_default()),
                    Some(_) if cells.iter().all(|c| c.trim_matches(['-', ':']).is_empty()) => {}
                    Some(header) => page.rows.push(Row { line: at + 1, header: header.clone(), cells }),
                }
            } else {
                header = None;
            }
            if !bare.is_empty() {
                bare.clone_into(&mut before);
            }
            let prose = without_code(line);
            page.links.extend(targets(&prose).into_iter().map(|target| Link { line: at + 1, target }));
            page.prose.push(prose);
        }
        page
    }
}

fn heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    ((1..=6).contains(&level) && text.starts_with(' ')).then(|| text.trim())
}

/// The anchor of a heading, as GitHub and mdBook form it.
fn slug(heading: &str) -> String {
    let mut text = String::new();
    let mut rest = heading;
    // The text of a link counts, its target does not.
    while let Some(at) = rest.find("](") {
        text.push_str(rest.get(..at).unwrap_or_default());
        rest = rest.get(at..).and_then(|r| r.split_once(')')).map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    let kept = text.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c if c.is_alphanumeric() => Some(c),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

/// The values of `id="..."` and `name="..."` in HTML tags.
fn ids(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for attribute in ["id=\"", "name=\""] {
        for (at, _) in line.match_indices(attribute).filter(|_| line.contains('<')) {
            let value = line.get(at + attribute.len()..).and_then(|rest| rest.split('"').next());
            found.extend(value.map(str::to_owned));
        }
    }
    found
}

/// The cells of a table row. A pipe behind a backslash does not end a cell.
fn cells(row: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut escaped = false;
    for c in row.trim_start_matches('|').chars() {
        match c {
            '|' if !escaped => cells.push(String::new()),
            _ => {
                if let Some(cell) = cells.last_mut() {
                    cell.push(c);
                }
            }
        }
        escaped = c == '\\';
    }
    if cells.last().is_some_and(|c| c.trim().is_empty()) {
        cells.pop();
    }
    cells.into_iter().map(|c| c.trim().to_owned()).collect()
}

/// The line with the inside of inline code blanked.
fn without_code(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        let (text, code) = rest.split_at(start);
        out.push_str(text);
        let ticks: String = code.chars().take_while(|c| *c == '`').collect();
        let inner = code.get(ticks.len()..).unwrap_or_default();
        match inner.find(ticks.as_str()) {
            Some(end) => {
                out.push(' ');
                rest = inner.get(end + ticks.len()..).unwrap_or_default();
            }
            None => {
                rest = inner;
            }
        }
    }
    out.push_str(rest);
    out
}

/// The targets of the links in a line: `[text](target)`, `[text](target "title")` and `[name]: target`.
fn targets(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices("](") {
        let rest = line.get(at + 2..).unwrap_or_default();
        let target: String = rest.chars().take_while(|c| !matches!(c, ')' | ' ')).collect();
        found.push(target.trim_matches(['<', '>']).to_owned());
    }
    let trimmed = line.trim_start();
    if trimmed.starts_with('[')
        && let Some((_, target)) = trimmed.split_once("]: ")
        && !trimmed.contains("](")
        && let Some(target) = target.split_whitespace().next()
    {
        found.push(target.trim_matches(['<', '>']).to_owned());
    }
    found
}
