//! Rules about the language of comments and pages: no codes, no doc comment of three words, no phrase from a list.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use syn::visit::{self, Visit};
use syn::{Attribute, Expr, Ident, ImplItem, Item, Lit, Meta, Visibility};

use super::{Finding, is_test_file, library_of};
use crate::source::comments_only;
use crate::syntax::{attributes, is_test_only};
use crate::workspace::SourceFile;

/// The phrases with their suggestions.
const PHRASES: &str = include_str!("phrases.txt");

/// The least number of words that the doc comment of a public item has.
const MIN_WORDS: usize = 4;

/// Files that have to name codes or phrases: the rules themselves and the command that reads the codes.
const ABOUT_CODES: &[&str] = &["xtask/src/tidy/", "xtask/src/requirements"];

/// Pages below `docs/` where codes are at home.
const CODED_PAGES: &[&str] = &["docs/requirements.md", "docs/schema/"];

/// Names that look like a code and are none: the window system and the standard for certificates.
const NO_CODES: &[&str] = &["X11", "X509"];

/// A code in a comment of code that is not a test, or on a page, leads a reader nowhere.
pub(super) fn codes(file: &SourceFile, findings: &mut Vec<Finding>) {
    for (number, line) in prose(file, is_page(&file.path)).iter().enumerate() {
        for code in codes_in(line) {
            let text = format!(
                "`{code}` is a code; say it in a sentence (codes belong in tests and docs/requirements.md)"
            );
            findings.push(Finding::error("language-codes", &file.path, number + 1, text));
        }
    }
}

/// The phrases of the list are refused in comments and on pages.
pub(super) fn phrases(file: &SourceFile, findings: &mut Vec<Finding>) {
    let lines = prose(file, is_page(&file.path));
    let mut at = 0;
    while at < lines.len() {
        let rest = lines.get(at..).unwrap_or_default();
        let block: Vec<&String> = rest.iter().take_while(|line| !line.trim().is_empty()).collect();
        for (offset, phrase) in phrases_in(&block) {
            let text = format!("`{}`: write {}", phrase.text, phrase.instead);
            findings.push(Finding::error("language-phrases", &file.path, at + offset + 1, text));
        }
        at += block.len() + 1;
    }
}

/// The doc comment of a public item says more than its name does.
pub(super) fn short_docs(file: &SourceFile, findings: &mut Vec<Finding>) {
    if library_of(&file.path).is_none() || is_test_file(&file.path) {
        return;
    }
    let Ok(parsed) = syn::parse_file(&file.text) else { return };
    let mut docs = Docs { found: Vec::new() };
    docs.visit_file(&parsed);
    for (line, name, text) in docs.found {
        let text = format!("the doc comment of `{name}` has fewer than {MIN_WORDS} words: `{text}`");
        findings.push(Finding::error("language-docs", &file.path, line, text));
    }
}

/// The pages that a newcomer reads first: at the root, and of each package.
fn is_guide(path: &str) -> bool {
    path == "README.md"
        || path == "CONTRIBUTING.md"
        || path.starts_with("crates/") && path.ends_with("/README.md")
}

/// The pages whose language is checked: the guides, and the book except for its tables of codes.
fn is_page(path: &str) -> bool {
    is_guide(path) || path.starts_with("docs/") && !CODED_PAGES.iter().any(|page| path.starts_with(page))
}

/// The lines of prose: comments without their slashes, or the text of a page; code blocks are blank. All lines are blank in
/// files that no rule is about.
fn prose(file: &SourceFile, is_page: bool) -> Vec<String> {
    let is_source = file.path.ends_with(".rs") && !is_test_file(&file.path);
    let exempt = ABOUT_CODES.iter().any(|own| file.path.starts_with(own));
    if exempt || !(is_source || is_page) {
        return Vec::new();
    }
    let text = if is_source { comments_only(&file.text) } else { file.text.clone() };
    let mut fenced = false;
    let mut prose = Vec::new();
    for line in text.lines().map(str::trim) {
        let bare = if is_source { line.trim_start_matches(['/', '!', '*']).trim_start() } else { line };
        let fence = bare.starts_with("```");
        // In a source file a code block ends with its comment at the latest.
        fenced = fenced ^ fence && !(is_source && line.is_empty());
        prose.push(if fence || fenced { String::new() } else { bare.to_owned() });
    }
    prose
}

/// The codes in a line. Those with a hyphen count everywhere, short ones only as words outside of backticks.
fn codes_in(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut before = "";
    for (at, part) in line.split('`').enumerate() {
        for word in part.split(|c: char| !(c.is_alphanumeric() || "-_.".contains(c))) {
            let word = word.trim_matches(|c: char| !c.is_alphanumeric());
            if word.is_empty() {
                continue;
            }
            let named =
                ["REQ-", "B-"].iter().any(|prefix| word.strip_prefix(prefix).is_some_and(starts_numeric));
            let short = at % 2 == 0 && is_short_code(word) && !NO_CODES.contains(&word);
            let invariant = before.to_lowercase().trim_end_matches('s') == "invariant" && is_number(word);
            if invariant {
                found.push(format!("{before} {word}"));
            } else if named || short {
                found.push(word.to_owned());
            }
            before = word;
        }
    }
    found
}

/// `12` and the `182..185` of a range.
fn starts_numeric(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_digit())
}

/// `D12`, `X3` and `S123`.
fn is_short_code(word: &str) -> bool {
    let digits = word.get(1..).unwrap_or_default();
    match word.chars().next() {
        Some('D' | 'X') => is_number(digits) && digits.len() <= 3,
        Some('S') => is_number(digits) && digits.len() == 3,
        _ => false,
    }
}

/// A phrase of the list.
struct Phrase {
    text: &'static str,
    words: Vec<&'static str>,
    instead: &'static str,
}

/// The phrases of the list by their first word.
static LIST: LazyLock<BTreeMap<&str, Vec<Phrase>>> = LazyLock::new(|| {
    let mut list: BTreeMap<&str, Vec<Phrase>> = BTreeMap::new();
    for (text, instead) in
        PHRASES.lines().filter(|l| !l.starts_with('#')).filter_map(|l| l.split_once(" => "))
    {
        let words: Vec<&str> = text.split(' ').collect();
        list.entry(words[0]).or_default().push(Phrase { text, words, instead });
    }
    list
});

/// The phrases in a block of lines, each with its line from 0. Of several that begin at one word the longest counts.
fn phrases_in(block: &[&String]) -> Vec<(usize, &'static Phrase)> {
    let lower: Vec<String> = block.iter().map(|line| line.to_lowercase()).collect();
    let mut words: Vec<(usize, &str)> = Vec::new();
    for (number, line) in lower.iter().enumerate() {
        let parts = line.split(|c: char| c.is_whitespace() || "()[]`*_\"|".contains(c));
        words.extend(parts.filter(|w| !w.is_empty()).map(|w| (number, w)));
    }
    let mut found = Vec::new();
    let mut start = 0;
    while let Some((line, word)) = words.get(start) {
        let candidates = LIST.get::<str>(word).or_else(|| LIST.get::<str>(bare(word))).into_iter().flatten();
        let matches = candidates.filter(|phrase| {
            let last = phrase.words.len() - 1;
            let here = words.get(start..=start + last).unwrap_or_default().iter().map(|(_, word)| *word);
            // Punctuation ends a phrase: it may follow its last word only.
            let here = here.enumerate().map(|(at, word)| if at == last { bare(word) } else { word });
            here.eq(phrase.words.iter().copied())
        });
        match matches.max_by_key(|phrase| phrase.words.len()) {
            Some(phrase) => {
                found.push((*line, phrase));
                start += phrase.words.len();
            }
            None => start += 1,
        }
    }
    found
}

/// The word without punctuation behind it and without a genitive `'s`.
fn bare(word: &str) -> &str {
    let word = word.trim_end_matches([',', '.', ';', ':', '?', '!']);
    word.strip_suffix("'s").unwrap_or(word)
}

/// The public items whose doc comment is too short: line, name and text.
struct Docs {
    found: Vec<(usize, String, String)>,
}

impl Docs {
    fn check(&mut self, attributes: &[Attribute], name: &Ident) {
        let Some((line, text)) = doc_text(attributes) else { return };
        let words = text.split_whitespace().filter(|w| w.contains(char::is_alphanumeric)).count();
        if words < MIN_WORDS {
            self.found.push((line, name.to_string(), text));
        }
    }

    fn check_public(&mut self, vis: &Visibility, attributes: &[Attribute], name: &Ident) {
        if matches!(vis, Visibility::Public(_)) {
            self.check(attributes, name);
        }
    }
}

impl<'ast> Visit<'ast> for Docs {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_test_only(attributes(item)) {
            return;
        }
        match item {
            Item::Const(i) => self.check_public(&i.vis, &i.attrs, &i.ident),
            Item::Fn(i) => self.check_public(&i.vis, &i.attrs, &i.sig.ident),
            Item::Static(i) => self.check_public(&i.vis, &i.attrs, &i.ident),
            Item::Type(i) => self.check_public(&i.vis, &i.attrs, &i.ident),
            Item::Struct(i) => {
                self.check_public(&i.vis, &i.attrs, &i.ident);
                for field in &i.fields {
                    if let Some(name) = &field.ident {
                        self.check_public(&field.vis, &field.attrs, name);
                    }
                }
            }
            Item::Enum(i) if matches!(i.vis, Visibility::Public(_)) => {
                self.check(&i.attrs, &i.ident);
                for variant in &i.variants {
                    self.check(&variant.attrs, &variant.ident);
                    for field in &variant.fields {
                        if let Some(name) = &field.ident {
                            self.check(&field.attrs, name);
                        }
                    }
                }
            }
            Item::Trait(i) if matches!(i.vis, Visibility::Public(_)) => {
                self.check(&i.attrs, &i.ident);
                for part in &i.items {
                    match part {
                        syn::TraitItem::Fn(f) => self.check(&f.attrs, &f.sig.ident),
                        syn::TraitItem::Const(c) => self.check(&c.attrs, &c.ident),
                        syn::TraitItem::Type(t) => self.check(&t.attrs, &t.ident),
                        _ => {}
                    }
                }
            }
            Item::Impl(block) if block.trait_.is_none() => {
                for part in &block.items {
                    match part {
                        ImplItem::Fn(f) => self.check_public(&f.vis, &f.attrs, &f.sig.ident),
                        ImplItem::Const(c) => self.check_public(&c.vis, &c.attrs, &c.ident),
                        _ => {}
                    }
                }
            }
            Item::Mod(_) => visit::visit_item(self, item),
            _ => {}
        }
    }
}

/// The text of a doc comment and its line; `None` without one, or when it comes from a file.
fn doc_text(attributes: &[Attribute]) -> Option<(usize, String)> {
    let mut found: Option<(usize, String)> = None;
    for attribute in attributes.iter().filter(|a| a.path().is_ident("doc")) {
        let Meta::NameValue(pair) = &attribute.meta else { continue };
        let Expr::Lit(literal) = &pair.value else { return None };
        let Lit::Str(text) = &literal.lit else { return None };
        let (_, all) = found.get_or_insert_with(|| (text.span().start().line, String::new()));
        all.push_str(&text.value());
        all.push('\n');
    }
    found.map(|(line, text)| (line, text.trim().to_owned()))
}
