//! Ranks tools by the words of a query with BM25 over names, descriptions and arguments.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::ToolDefinition;

/// How many times a word in the name of a tool counts.
const NAME_WEIGHT: u32 = 4;

/// The parameters of BM25: how fast repetitions saturate, and how much the length matters.
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// The words of a set of tools.
#[derive(Debug)]
pub(super) struct Ranking {
    documents: Vec<Document>,
    /// The number of tools that contain each word.
    frequencies: BTreeMap<String, u32>,
    average_length: f64,
}

#[derive(Debug, Default)]
struct Document {
    counts: BTreeMap<String, u32>,
    length: u32,
}

impl Document {
    fn add(&mut self, text: &str, weight: u32) {
        for word in words(text) {
            let count = self.counts.entry(word).or_default();
            *count = count.saturating_add(weight);
            self.length = self.length.saturating_add(weight);
        }
    }
}

impl Ranking {
    pub(super) fn new(definitions: &[ToolDefinition]) -> Self {
        let documents: Vec<Document> = definitions.iter().map(document).collect();
        let mut frequencies = BTreeMap::<String, u32>::new();
        for word in documents.iter().flat_map(|document| document.counts.keys()) {
            *frequencies.entry(word.clone()).or_default() += 1;
        }
        let lengths: f64 = documents.iter().map(|document| f64::from(document.length)).sum();
        let average_length = (lengths / number(documents.len())).max(1.0);
        Self { documents, frequencies, average_length }
    }

    /// Returns the positions of the best tools, the best one first; tools of the same score in their order. A tool without
    /// a word of the query is not returned.
    pub(super) fn best(&self, query: &str, limit: usize) -> Vec<usize> {
        let mut query: Vec<String> = words(query).collect();
        query.sort_unstable();
        query.dedup();
        let mut scored: Vec<(f64, usize)> = self
            .documents
            .iter()
            .enumerate()
            .map(|(at, document)| (self.score(document, &query), at))
            .filter(|(score, _)| *score > 0.0)
            .collect();
        scored.sort_by(|(a, at), (b, other)| b.total_cmp(a).then(at.cmp(other)));
        scored.into_iter().take(limit).map(|(_, at)| at).collect()
    }

    fn score(&self, document: &Document, query: &[String]) -> f64 {
        let all = number(self.documents.len());
        let norm = K1 * (1.0 - B + B * f64::from(document.length) / self.average_length);
        let of_word = |word: &String| {
            let count = f64::from(*document.counts.get(word)?);
            let with = f64::from(*self.frequencies.get(word)?);
            let rarity = (1.0 + (all - with + 0.5) / (with + 0.5)).ln();
            Some(rarity * count * (K1 + 1.0) / (count + norm))
        };
        query.iter().filter_map(of_word).sum()
    }
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

fn document(definition: &ToolDefinition) -> Document {
    let mut document = Document::default();
    document.add(&definition.name, NAME_WEIGHT);
    document.add(&definition.description, 1);
    let properties = definition.parameters.get("properties").and_then(|p| p.as_object());
    for (name, schema) in properties.into_iter().flatten() {
        document.add(name, 1);
        document.add(schema.get("description").and_then(|d| d.as_str()).unwrap_or_default(), 1);
    }
    document
}

/// Returns the words of a text in lower case, without the `s` of a plural. A word ends at each character that is not a
/// letter or a digit, and before a capital after a small letter.
fn words(text: &str) -> impl Iterator<Item = String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut after_small = false;
    for c in text.chars() {
        if !c.is_alphanumeric() || (after_small && c.is_uppercase()) {
            words.push(std::mem::take(&mut word));
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        after_small = c.is_lowercase() || c.is_numeric();
    }
    words.push(word);
    words.into_iter().filter(|word| !word.is_empty()).map(singular)
}

fn singular(mut word: String) -> String {
    if word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") {
        word.pop();
    }
    word
}
