//! The sources of a reply: annotations of its text, and the pages that a search engine read.

use agent_core::{Citation, CitationSource, EventSink};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::annotation;
use crate::blocks::Blocks;

/// The maximum number of annotations of a reply that are read.
const MAX_SOURCES: usize = 1_024;

/// The sources so far. Some servers repeat them in each chunk.
#[derive(Debug, Default)]
pub(super) struct Sources {
    annotations: Vec<Citation>,
    /// The pages with titles, and their addresses. The last lists apply.
    pages: Vec<Citation>,
    addresses: Vec<Citation>,
}

impl Sources {
    /// Adds the annotations of a delta.
    pub(super) fn annotate(&mut self, list: Option<&RawValue>) {
        for citation in values(list).into_iter().map(annotation::read) {
            if self.annotations.len() < MAX_SOURCES && !self.annotations.contains(&citation) {
                self.annotations.push(citation);
            }
        }
    }

    /// Replaces the pages by those of a chunk.
    pub(super) fn search(&mut self, results: Option<&RawValue>, addresses: Option<&RawValue>) {
        let pages: Vec<Citation> =
            values(results).into_iter().take(MAX_SOURCES).map(annotation::read).collect();
        if !pages.is_empty() {
            self.pages = pages;
        }
        let address = |data: Value| match data.as_str() {
            Some(url) => Citation::new(CitationSource::Url { url: url.to_owned() }).with_data(data),
            None => annotation::read(data),
        };
        let addresses: Vec<Citation> = values(addresses).into_iter().take(MAX_SOURCES).map(address).collect();
        if !addresses.is_empty() {
            self.addresses = addresses;
        }
    }

    /// Emits the sources at the end of the reply, as those of its last text.
    pub(super) fn emit(&mut self, blocks: &Blocks, sink: &mut EventSink<'_>) {
        let pages = if self.pages.is_empty() { &self.addresses } else { &self.pages };
        for citation in self.annotations.iter().chain(pages) {
            blocks.cite(citation, sink);
        }
    }
}

fn values(list: Option<&RawValue>) -> Vec<Value> {
    list.and_then(|list| serde_json::from_str(list.get()).ok()).unwrap_or_default()
}
