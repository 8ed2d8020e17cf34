//! Rules about licences: which expressions the project accepts, and that each package carries the texts.

use super::Finding;
use crate::workspace::SourceFile;

/// The licence texts at the root, which each package has a copy of: a published package holds only files of its own folder.
const TEXTS: &[&str] = &["LICENSE-APACHE", "LICENSE-MIT"];

/// Checks that each folder in `crates/` has a copy of the licence texts, equal to those at the root.
pub(super) fn copies(files: &[SourceFile], findings: &mut Vec<Finding>) {
    let text_of = |path: &str| files.iter().find(|f| f.path == path).map(|f| f.text.as_str());
    let packages = files.iter().filter_map(|f| f.path.strip_suffix("/Cargo.toml"));
    for folder in packages.filter(|folder| folder.starts_with("crates/")) {
        for name in TEXTS {
            let place = format!("{folder}/{name}");
            let text = match text_of(&place) {
                None => format!(
                    "is missing; copy {name} from the root, since a package cannot refer to files outside of it"
                ),
                copy if copy != text_of(name) => format!("differs from {name} at the root; copy it again"),
                Some(_) => continue,
            };
            findings.push(Finding::error("licence-copies", &place, 0, text));
        }
    }
}

/// The licences that code in the graph may have. The same list is in deny.toml.
pub(super) const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Reads `expression` (SPDX, or the older `MIT/Apache-2.0`) and says whether it can be met with [`ALLOWED`].
pub(super) fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader { words: &words, at: 0 };
    let allowed = reader.any();
    allowed && reader.at == words.len()
}

struct Reader<'a> {
    words: &'a [&'a str],
    at: usize,
}

impl Reader<'_> {
    fn take(&mut self, word: &str) -> bool {
        let found = self.words.get(self.at).is_some_and(|w| w.eq_ignore_ascii_case(word));
        self.at += usize::from(found);
        found
    }

    fn any(&mut self) -> bool {
        let mut allowed = self.all();
        while self.take("OR") {
            allowed |= self.all();
        }
        allowed
    }

    fn all(&mut self) -> bool {
        let mut allowed = self.one();
        while self.take("AND") {
            allowed &= self.one();
        }
        allowed
    }

    fn one(&mut self) -> bool {
        if self.take("(") {
            let allowed = self.any();
            return self.take(")") && allowed;
        }
        let Some(name) = self.words.get(self.at) else { return false };
        self.at += 1;
        let name = name.trim_end_matches('+');
        if self.take("WITH") {
            let exception = self.words.get(self.at).copied().unwrap_or_default();
            self.at += 1;
            // An exception only adds to what the licence permits.
            return ALLOWED.contains(&name) || ALLOWED.contains(&format!("{name} WITH {exception}").as_str());
        }
        ALLOWED.contains(&name)
    }
}
