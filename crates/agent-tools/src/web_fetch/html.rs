//! Makes readable text of a page.
//!
//! The tokens of the page are converted one after the other, without a tree: the time and the memory are proportional to the
//! size of the page, however deep its elements are nested.

use html5gum::{DefaultEmitter, Token, Tokenizer};
use reqwest::Url;

/// The maximum length of the address of a link that is shown.
const MAX_LINK_BYTES: usize = 500;

/// The maximum length of the title.
const MAX_TITLE_BYTES: usize = 500;

/// Elements that begin and end a line.
const BLOCKS: &[&str] = &[
    "address",
    "article",
    "aside",
    "blockquote",
    "br",
    "dd",
    "details",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "header",
    "hr",
    "main",
    "nav",
    "ol",
    "option",
    "section",
    "summary",
    "table",
    "tbody",
    "thead",
    "tr",
    "ul",
];

/// Elements whose content is not shown.
const HIDDEN: &[&str] =
    &["canvas", "iframe", "noframes", "noscript", "object", "script", "style", "svg", "template", "textarea"];

/// Converts a page to text with the marks of Markdown for headings, lists, links, tables and code. Returns the title and the
/// text.
pub(super) fn to_text(html: &str, base: &Url) -> (String, String) {
    let mut emitter = DefaultEmitter::default();
    emitter.naively_switch_states(true);
    let mut page = Page::new(base);
    for token in Tokenizer::new_with_emitter(html, emitter) {
        match token {
            Ok(Token::StartTag(tag)) => {
                let get = |name: &str| tag.attributes.get(name.as_bytes()).map(|value| lossy(&value.value));
                page.start(&lossy(&tag.name), get, tag.self_closing);
            }
            Ok(Token::EndTag(tag)) => page.end(&lossy(&tag.name)),
            Ok(Token::String(text)) => page.text(&lossy(&text.value)),
            Ok(Token::Comment(_) | Token::Doctype(_) | Token::Error(_)) => {}
            Err(never) => match never {},
        }
    }
    page.finish()
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

struct Page<'a> {
    base: &'a Url,
    out: String,
    title: String,
    in_title: bool,
    /// The hidden element, and how often an element of this name is open in it.
    hidden: Option<(String, usize)>,
    /// Where the text of the open link begins, and its address.
    link: Option<(usize, String)>,
    is_code: bool,
    blank: bool,
}

impl<'a> Page<'a> {
    fn new(base: &'a Url) -> Self {
        Self {
            base,
            out: String::new(),
            title: String::new(),
            in_title: false,
            hidden: None,
            link: None,
            is_code: false,
            blank: false,
        }
    }

    fn start(&mut self, name: &str, get: impl Fn(&str) -> Option<String>, closes: bool) {
        if let Some((hidden, open)) = &mut self.hidden {
            if hidden == name {
                *open += 1;
            }
            return;
        }
        match name {
            "title" => self.in_title = true,
            "pre" => {
                self.end_link();
                self.lines(2);
                self.out.push_str("```\n");
                self.is_code = true;
            }
            "a" => {
                self.end_link();
                if let Some(address) = get("href").and_then(|href| self.address(&href)) {
                    self.flush_blank();
                    self.link = Some((self.out.len(), address));
                }
            }
            "img" => {
                if let Some(text) = get("alt").filter(|text| !text.trim().is_empty()) {
                    self.text(&format!("[image: {}]", text.trim()));
                }
            }
            "li" => {
                self.lines(1);
                self.out.push_str("- ");
            }
            "td" | "th" => self.text(" | "),
            "p" => self.lines(2),
            "code" if !self.is_code => self.mark("`"),
            _ if heading(name).is_some() => {
                self.end_link();
                self.lines(2);
                self.out.push_str(&"#".repeat(heading(name).unwrap_or(1)));
                self.out.push(' ');
            }
            _ if HIDDEN.contains(&name) && !closes => self.hidden = Some((name.to_owned(), 1)),
            _ if BLOCKS.contains(&name) => self.lines(1),
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        if let Some((hidden, open)) = &mut self.hidden {
            if hidden == name {
                *open -= 1;
                if *open == 0 {
                    self.hidden = None;
                }
            }
            return;
        }
        match name {
            "title" => self.in_title = false,
            "pre" if self.is_code => {
                self.is_code = false;
                self.lines(1);
                self.out.push_str("```");
                self.lines(2);
            }
            "a" => self.end_link(),
            "p" => self.lines(2),
            "code" if !self.is_code => self.out.push('`'),
            _ if heading(name).is_some() => {
                self.end_link();
                self.lines(2);
            }
            _ if BLOCKS.contains(&name) || name == "li" => self.lines(1),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        if self.hidden.is_some() {
            return;
        }
        if self.in_title {
            let shown = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c });
            for c in shown.filter(|c| !c.is_control()) {
                if self.title.len() + c.len_utf8() > MAX_TITLE_BYTES {
                    break;
                }
                self.title.push(c);
            }
            return;
        }
        if self.is_code {
            self.out.extend(text.chars().filter(|c| matches!(c, '\n' | '\t') || !c.is_control()));
            return;
        }
        for c in text.chars() {
            if c.is_whitespace() {
                self.blank = true;
            } else if !c.is_control() {
                self.flush_blank();
                self.out.push(c);
            }
        }
    }

    fn mark(&mut self, mark: &str) {
        self.flush_blank();
        self.out.push_str(mark);
    }

    fn flush_blank(&mut self) {
        if self.blank && !self.out.is_empty() && !self.out.ends_with(['\n', ' ']) {
            self.out.push(' ');
        }
        self.blank = false;
    }

    /// Ends the line, and leaves `count - 1` empty lines.
    fn lines(&mut self, count: usize) {
        self.blank = false;
        if self.out.is_empty() {
            return;
        }
        let ends = self.out.bytes().rev().take(count).take_while(|byte| *byte == b'\n').count();
        (ends..count).for_each(|_| self.out.push('\n'));
    }

    /// Returns the absolute address of a link that can be fetched.
    fn address(&self, href: &str) -> Option<String> {
        if href.starts_with('#') {
            return None;
        }
        let url = self.base.join(href).ok()?;
        let is_shown = matches!(url.scheme(), "http" | "https") && url.as_str().len() <= MAX_LINK_BYTES;
        is_shown.then(|| url.to_string())
    }

    fn end_link(&mut self) {
        let Some((start, address)) = self.link.take() else { return };
        let text = self.out.get(start..).unwrap_or_default();
        if text.trim().is_empty() {
            return;
        }
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        self.out.truncate(start);
        self.out.push_str(&format!("[{text}]({address})"));
    }

    fn finish(mut self) -> (String, String) {
        self.end_link();
        let title = self.title.split_whitespace().collect::<Vec<_>>().join(" ");
        (title, self.out.trim().to_owned())
    }
}

/// Returns the level of a heading.
fn heading(name: &str) -> Option<usize> {
    match name {
        "h1" => Some(1),
        "h2" => Some(2),
        "h3" => Some(3),
        "h4" => Some(4),
        "h5" => Some(5),
        "h6" => Some(6),
        _ => None,
    }
}
