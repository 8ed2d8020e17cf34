//! The rule about requirement tags in doc comments of tests.

use super::Finding;
use crate::requirements::{MAX_TAGS, Tag, tags_in};
use crate::source::tests_in;
use crate::workspace::SourceFile;

/// A test carries at most [`MAX_TAGS`] tags, each once, and each names something that exists.
pub(super) fn tags(file: &SourceFile, findings: &mut Vec<Finding>) {
    if !file.path.ends_with(".rs") {
        return;
    }
    for test in tests_in(&file.text) {
        let tags = tags_in(&test.docs);
        if tags.len() > MAX_TAGS {
            let text =
                format!("{} carries {} tags; at most {MAX_TAGS}, so split the test", test.name, tags.len());
            findings.push(Finding::error("doc-tags", &file.path, test.line, text));
        }
        for (at, tag) in tags.iter().enumerate() {
            let problem = match tag {
                Tag::Unknown(word) => format!("no requirement is called {word}"),
                Tag::Known(name) if tags.iter().take(at).any(|t| t == tag) => format!("{name} stands twice"),
                Tag::Known(_) => continue,
            };
            findings.push(Finding::error("doc-tags", &file.path, test.line, problem));
        }
    }
}
