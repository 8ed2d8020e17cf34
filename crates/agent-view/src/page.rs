//! The document.

use std::io::{self, BufWriter, Write};

use agent_core::CostConfig;
use agent_session::{LoopRecord, Session};
use serde::Serialize;
use serde_json::Value;

use crate::costs::Prices;
use crate::escape::{self, ScriptData};
use crate::index::{Index, Numbers, Part, Source, number_of, numbers};
use crate::items::Item;
use crate::loops::{LoopView, TurnView, title};
use crate::policy::policy;

/// The first bytes of every page. A program that finds them in a file can replace the file by a newer page.
pub const PAGE_START: &str = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
                              <meta name=\"generator\" content=\"looptree view\">\n";

/// The page's own style.
const STYLE: &str = include_str!("assets/view.css");

/// The page's own script, in parts that share one scope.
const SCRIPT: &str = concat!(
    "(() => {\n'use strict';\n",
    include_str!("assets/dom.js"),
    include_str!("assets/data.js"),
    include_str!("assets/content.js"),
    include_str!("assets/timeline.js"),
    include_str!("assets/tree.js"),
    include_str!("assets/views.js"),
    include_str!("assets/compare.js"),
    include_str!("assets/search.js"),
    include_str!("assets/app.js"),
    "})();\n",
);

/// What the document shows before the script runs.
const BODY: &str = include_str!("assets/body.html");

/// One self-contained HTML page about a session, or about two sessions side by side.
///
/// The page borrows the sessions. Nothing is computed before [`render`](Self::render) or [`write`](Self::write), which take
/// time and memory proportional to the content; `write` holds the view of one loop at a time.
///
/// ```
/// use agent_core::{CostConfig, Timestamp};
/// use agent_session::Session;
/// use agent_view::Page;
///
/// let session = Session::new("s-1".into(), "agent".into(), Timestamp(1_767_225_600_000));
/// let prices = CostConfig::per_million(3_000_000, 15_000_000, 300_000, 3_750_000);
/// let html = Page::new(&session).with_title("A title").with_prices("my-model", prices).render();
/// assert!(html.starts_with("<!doctype html>"));
/// ```
#[derive(Debug, Clone)]
#[must_use = "a page does nothing until it is rendered or written"]
pub struct Page<'s> {
    sources: Vec<Source<'s>>,
    title: Option<String>,
    prices: Prices,
}

impl<'s> Page<'s> {
    /// Creates the page of one session.
    pub fn new(session: &'s Session) -> Self {
        let sources = vec![Source { session, part: Part::Main }];
        Self { sources, title: None, prices: Prices::default() }
    }

    /// Creates the page of two sessions side by side. The turns on the paths to the heads of both are aligned, and their
    /// differences are marked.
    pub fn compare(session: &'s Session, other: &'s Session) -> Self {
        let mut page = Self::new(session);
        page.sources.push(Source { session: other, part: Part::Other });
        page
    }

    /// Adds the sessions of sub-agents. Their loops are shown below the tool calls that started them. Without them, the page
    /// names the loops of sub-agents only.
    pub fn with_children(mut self, sessions: impl IntoIterator<Item = &'s Session>) -> Self {
        let children = sessions.into_iter().map(|session| Source { session, part: Part::Child });
        self.sources.extend(children);
        self
    }

    /// Sets the title of the document. Default: the beginning of the first prompt; for two sessions, their ids.
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the prices of a model by its id. They replace the recorded prices of the model. The page shows no cost for a
    /// model without prices.
    pub fn with_prices(mut self, model: impl Into<String>, prices: CostConfig) -> Self {
        self.prices.set(model.into(), prices);
        self
    }

    /// Returns the document as one text.
    #[must_use]
    pub fn render(&self) -> String {
        let mut out = Vec::new();
        // Writing to a vector cannot fail, and every part of the document is UTF-8.
        let _ = self.write(&mut out);
        String::from_utf8(out).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    /// Writes the document to `out` piece by piece and flushes it.
    ///
    /// # Errors
    /// Returns the error of the writer. The document is then incomplete.
    pub fn write(&self, out: impl Write) -> io::Result<()> {
        let mut out = BufWriter::new(out);
        let title = self.title();
        let mut head = String::from(PAGE_START);
        head.push_str("<meta http-equiv=\"content-security-policy\" content=\"");
        head.push_str(&policy(STYLE, SCRIPT));
        head.push_str("\">\n<meta http-equiv=\"x-dns-prefetch-control\" content=\"off\">\n");
        head.push_str("<meta name=\"referrer\" content=\"no-referrer\">\n");
        head.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
        head.push_str("<meta name=\"color-scheme\" content=\"light dark\">\n<title>");
        escape::html(&title, &mut head);
        head.push_str("</title>\n<style>");
        out.write_all(head.as_bytes())?;
        out.write_all(STYLE.as_bytes())?;
        out.write_all(b"</style>\n</head>\n<body>\n")?;
        out.write_all(BODY.as_bytes())?;
        write_data(&mut out, "index", &Index::of(&title, &self.sources, &self.prices))?;
        out.write_all(b"<script>")?;
        out.write_all(SCRIPT.as_bytes())?;
        out.write_all(b"</script>\n")?;
        // The script runs before the content arrives, and reads the content of a loop when it is opened.
        self.write_loops(&mut out)?;
        out.write_all(b"</body>\n</html>\n")?;
        out.flush()
    }

    fn title(&self) -> String {
        if let Some(title) = &self.title {
            return title.clone();
        }
        let shown = self.sources.iter().filter(|source| source.part != Part::Child);
        let shown: Vec<&Session> = shown.map(|source| source.session).collect();
        let prompt = match shown.as_slice() {
            [session] => session.loops.first().map(title).filter(|title| !title.is_empty()),
            _ => None,
        };
        let ids =
            || shown.iter().map(|session| session.session_id.as_str()).collect::<Vec<_>>().join(" and ");
        prompt.unwrap_or_else(ids)
    }

    fn write_loops(&self, out: &mut impl Write) -> io::Result<()> {
        let numbers = numbers(&self.sources);
        let mut number = 0_usize;
        for (at, source) in self.sources.iter().enumerate() {
            for record in &source.session.loops {
                let view = LoopView::of(record, &self.prices);
                let content = Content::of(record, &view, at, &self.sources, &numbers);
                write_data(out, &format!("l{number}"), &content)?;
                number += 1;
            }
        }
        Ok(())
    }
}

/// Writes a value as JSON in an element that the browser does not run.
fn write_data(out: &mut impl Write, id: &str, value: &impl Serialize) -> io::Result<()> {
    write!(out, "<script type=\"application/json\" id=\"{id}\">")?;
    serde_json::to_writer(ScriptData::new(&mut *out), value).map_err(io::Error::from)?;
    out.write_all(b"</script>\n")
}

/// The content of a loop.
#[derive(Serialize)]
struct Content<'v, 's> {
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    before: &'v [Item<'s>],
    turns: &'v [TurnView<'s>],
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<Base<'s>>,
    config: &'s agent_core::LoopConfigSnapshot,
    #[serde(skip_serializing_if = "Value::is_null")]
    metadata: &'s Value,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    children: Vec<Child<'s>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rejection: Option<&'s str>,
}

/// The conversation before a loop, where it is not simply the one after its parent.
#[derive(Serialize)]
struct Base<'s> {
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<&'s str>,
    keep: usize,
    added: Vec<Item<'s>>,
}

/// The loop of a sub-agent.
#[derive(Serialize)]
struct Child<'s> {
    call: &'s str,
    id: &'s str,
    session: &'s str,
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<usize>,
}

impl<'v, 's> Content<'v, 's> {
    fn of(
        record: &'s LoopRecord,
        view: &'v LoopView<'s>,
        session: usize,
        sources: &[Source<'s>],
        numbers: &Numbers<'s>,
    ) -> Self {
        let children = record.child_loop_refs.iter().map(|child| Child {
            call: child.tool_call_id.as_str(),
            id: child.child_loop_id.as_str(),
            session: child.child_session_id.as_str(),
            n: number_of(numbers, sources, session, child.child_loop_id.as_str()),
        });
        let item =
            |entry: &'s agent_core::Entry| Item::of(entry.message(), crate::costs::Amount::default(), false);
        Self {
            before: &view.before,
            turns: &view.turns,
            base: record.base.as_ref().map(|base| Base {
                after: base.after_loop.as_ref().map(agent_core::LoopId::as_str),
                keep: base.keep,
                added: base.added.iter().filter_map(item).collect(),
            }),
            config: &record.config,
            metadata: &record.metadata,
            children: children.collect(),
            rejection: record.rejection.as_deref(),
        }
    }
}
