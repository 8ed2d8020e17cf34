//! Text for the screen. What it is made from is escaped, so only the program sets styles and ends lines.

use std::ops::Add;

use looptree::Question;
use looptree::event::{ApprovalView, Printable};
use unicode_width::UnicodeWidthStr as _;

use crate::text::{cut, fold, one_line, tail, wrap};

/// Characters of arguments and results that one line shows.
const SHOWN: usize = 100;

/// Text that the screen shows: escaped texts, line ends and codes of styles.
///
/// A conversion from a string makes one line of it: names, paths and messages of models, files and servers cannot add another line,
/// move the cursor or hide something. `Display` is missing on purpose, so that no escaped text is put into a string and escaped again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Styled(String);

impl Styled {
    /// Text of several lines, such as a reply of the model.
    pub(crate) fn prose(text: &str) -> Self {
        Self(Printable::prose(text).into())
    }

    /// A line of a file or of the output of a program, whose tabs become blanks.
    pub(crate) fn row(text: &str) -> Self {
        Self::from(text.replace('\t', "    "))
    }

    /// Text that was escaped before a renderer added the codes of styles.
    pub(super) fn rendered(text: String) -> Self {
        Self(text)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The columns of a text without styles.
    pub(crate) fn width(&self) -> usize {
        self.0.width()
    }

    /// The beginning of a text without styles that takes at most `columns`.
    pub(crate) fn cut(&self, columns: usize) -> Self {
        Self(cut(&self.0, columns))
    }

    /// The end of a text without styles that takes at most `columns`.
    pub(crate) fn tail(&self, columns: usize) -> Self {
        Self(tail(&self.0, columns))
    }

    /// The lines of a text without styles, broken between words.
    pub(crate) fn wrap(&self, columns: usize) -> Vec<Self> {
        wrap(&self.0, columns).into_iter().map(Self).collect()
    }

    pub(crate) fn lines(&self) -> impl Iterator<Item = Self> {
        self.0.lines().map(|line| Self(line.to_owned()))
    }

    pub(crate) fn trim_end(&self) -> Self {
        Self(self.0.trim_end().to_owned())
    }

    /// The rows on a terminal: no row is wider than `columns`, and words are broken only if they are.
    pub(super) fn rows(&self, columns: usize) -> Vec<Self> {
        let rows = self.0.split('\n').flat_map(|line| {
            let line = line.trim_end_matches(' ');
            fold(line, columns, &lead_of(line))
        });
        rows.map(|row| Self(row.trim_end_matches(' ').to_owned())).collect()
    }

    /// Joins lines with line ends between them.
    pub(crate) fn join(lines: impl IntoIterator<Item = Self>) -> Self {
        Self(lines.into_iter().map(|line| line.0).collect::<Vec<_>>().join("\n"))
    }
}

/// Returns how the further rows of a line begin that is wider than the terminal: indented, and behind the mark of a text in the
/// question of a call.
fn lead_of(line: &str) -> String {
    let text = line.trim_start_matches(' ');
    let indent = line.strip_suffix(text).unwrap_or_default();
    let is_quoted = ["| ", "+ ", "= "].iter().any(|mark| text.starts_with(mark));
    format!("{indent}{}", if is_quoted { "+ " } else { "  " })
}

impl From<&str> for Styled {
    fn from(text: &str) -> Self {
        Self(Printable::line(text).into())
    }
}

impl From<String> for Styled {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<&String> for Styled {
    fn from(text: &String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<&Self> for Styled {
    fn from(text: &Self) -> Self {
        text.clone()
    }
}

/// The whole call, which the view escapes itself.
impl From<&ApprovalView> for Styled {
    fn from(view: &ApprovalView) -> Self {
        Self(view.to_string())
    }
}

impl<T: Into<Self>> Add<T> for Styled {
    type Output = Self;

    fn add(mut self, more: T) -> Self {
        self.0.push_str(&more.into().0);
        self
    }
}

/// Returns a question with the whole call that waits for the answer.
pub(crate) fn question(question: &Question) -> Styled {
    let text = match question.approval() {
        Some(view) => Styled::from(&view),
        None => Styled::from(&question.text),
    };
    Styled::join(text.lines().map(|line| Styled::from("  ") + line))
}

/// Shortens a text of a model, a tool or the user to a part of a line.
pub(crate) fn brief(text: &str) -> Styled {
    Styled::from(one_line(text)).cut(SHOWN)
}
