//! Files and edits as they are met, and as they are not.

use proptest::prelude::*;
use proptest::sample::Index;

use super::model::Outcome;

/// A file and a call.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) file: Vec<u8>,
    pub(crate) edits: Vec<(String, String)>,
    /// Whether one edit is said as a list.
    pub(crate) as_list: bool,
}

/// What a line is made of.
fn piece() -> impl Strategy<Value = String> {
    let styled = prop::sample::select(vec![
        "‘", "’", "“", "”", "«", "–", "—", "−", "\u{A0}", "\u{2003}", "\u{3000}", "Ａ", "（", "…", "ﬁ", "ﬃ",
        "½", "™", "²", "'", "\"", "-", "...", "fi", "1/2", "A", "(", ".", "f", "2", "\u{2032}",
    ]);
    let other = prop::sample::select(vec![
        "é",
        "e\u{301}",
        "世",
        "界",
        "🎉",
        "👩‍💻",
        "\t",
        "  ",
        " ",
        "\r",
        "\0",
        "\u{FFFD}",
        "\u{FEFF}",
        "\u{2028}",
        "\u{85}",
    ]);
    prop_oneof![
        48 => prop::sample::select(vec!["let x = 1;", "}", "fn f() {", "aa", "a", "// note", "x", "return"]).prop_map(str::to_owned),
        24 => styled.prop_map(str::to_owned),
        18 => other.prop_map(str::to_owned),
        1 => (500_usize..3_000).prop_map(|n| "long ".repeat(n / 5)),
    ]
}

fn line() -> impl Strategy<Value = String> {
    let blanks = || prop::sample::select(vec!["", "", "", " ", "  ", "\t", "    ", " \t "]);
    (blanks(), prop::collection::vec(piece(), 0..4), blanks())
        .prop_map(|(before, pieces, after)| format!("{before}{}{after}", pieces.concat()))
}

/// Which line ends a file has.
#[derive(Debug, Clone, Copy)]
enum Ends {
    Lf,
    Crlf,
    Mixed,
}

/// How an edit says what is in the file.
#[derive(Debug, Clone, Copy)]
enum Disguise {
    Exact,
    Lf,
    Crlf,
    /// Plain quotes, dashes and spaces, no blanks at line ends, line feeds.
    Plain,
    /// Blanks at the end that the file does not have.
    Blanks,
    /// A byte order mark in front.
    Marked,
    /// Something else altogether.
    Wrong,
}

/// What an edit puts in its place.
#[derive(Debug, Clone)]
enum New {
    /// Other lines.
    Lines(Vec<String>),
    /// The same, with one line changed, put in or left out.
    Changed(Index, String),
    Inserted(Index, String),
    LeftOut(Index),
    Crlf(Vec<String>),
    Nothing,
    Same,
}

#[derive(Debug, Clone)]
struct Wish {
    from: Index,
    lines: usize,
    /// Characters that are cut from the first and from the last line.
    cut: (usize, usize),
    disguise: Disguise,
    new: New,
}

fn wish() -> impl Strategy<Value = Wish> {
    let disguise = prop_oneof![
        4 => Just(Disguise::Exact),
        4 => Just(Disguise::Lf),
        1 => Just(Disguise::Crlf),
        4 => Just(Disguise::Plain),
        1 => Just(Disguise::Blanks),
        1 => Just(Disguise::Marked),
        1 => Just(Disguise::Wrong),
    ];
    let lines = || prop::collection::vec(line(), 0..4);
    let new = prop_oneof![
        4 => lines().prop_map(New::Lines),
        3 => (any::<Index>(), line()).prop_map(|(at, line)| New::Changed(at, line)),
        2 => (any::<Index>(), line()).prop_map(|(at, line)| New::Inserted(at, line)),
        1 => any::<Index>().prop_map(New::LeftOut),
        1 => lines().prop_map(New::Crlf),
        1 => Just(New::Nothing),
        1 => Just(New::Same),
    ];
    let cut = prop_oneof![3 => Just((0, 0)), 2 => (0_usize..6, 0_usize..6)];
    (any::<Index>(), 1_usize..5, cut, disguise, new).prop_map(|(from, lines, cut, disguise, new)| Wish {
        from,
        lines,
        cut,
        disguise,
        new,
    })
}

/// Files of every kind, and calls with one edit or several.
pub(crate) fn case() -> impl Strategy<Value = Case> {
    let ends = prop::sample::select(vec![Ends::Lf, Ends::Crlf, Ends::Mixed]);
    let lines = prop::collection::vec((line(), any::<bool>(), prop::bool::weighted(0.6)), 0..14);
    // Bytes that are no UTF-8, at any place.
    let noise = prop_oneof![
        4 => Just(Vec::new()),
        1 => prop::collection::vec((any::<Index>(), prop::sample::select(vec![0xFF_u8, 0xC3, 0x80, 0xE2])), 1..3),
    ];
    let wishes =
        prop_oneof![3 => prop::collection::vec(wish(), 1..2), 2 => prop::collection::vec(wish(), 2..6)];
    (lines, ends, prop::bool::weighted(0.2), any::<bool>(), noise, wishes, any::<bool>()).prop_map(
        |(lines, ends, mark, last_end, noise, wishes, as_list)| {
            let mut file = if mark { "\u{FEFF}".as_bytes().to_vec() } else { Vec::new() };
            let count = lines.len();
            for (number, (line, crlf, numbered)) in lines.into_iter().enumerate() {
                // Numbers make most lines the only one of their kind.
                let text = if numbered { format!("{line}#{number}") } else { line };
                file.extend_from_slice(text.as_bytes());
                let is_crlf = matches!((ends, crlf), (Ends::Crlf, _) | (Ends::Mixed, true));
                if last_end || number + 1 < count {
                    file.extend_from_slice(if is_crlf { b"\r\n" } else { b"\n" });
                }
            }
            for (at, byte) in noise {
                file.insert(at.index(file.len() + 1), byte);
            }
            // Many edits of many lines would nearly always overlap.
            let most = if wishes.len() > 1 { 1 } else { usize::MAX };
            let edits = wishes.iter().map(|wish| edit(&file, wish, most)).collect();
            Case { file, edits, as_list }
        },
    )
}

/// An edit of the file as a model reads it.
fn edit(file: &[u8], wish: &Wish, most: usize) -> (String, String) {
    let read = String::from_utf8_lossy(file);
    let lines: Vec<&str> = read.split_inclusive('\n').collect();
    let chosen: String = if lines.is_empty() {
        String::new()
    } else {
        let from = wish.from.index(lines.len());
        lines.iter().skip(from).take(wish.lines.min(most)).copied().collect()
    };
    let kept = chosen.chars().count().saturating_sub(wish.cut.0 + wish.cut.1);
    let chosen: String = chosen.chars().skip(wish.cut.0).take(kept).collect();
    let lf = chosen.replace("\r\n", "\n");
    let old = match wish.disguise {
        Disguise::Exact => chosen,
        Disguise::Lf => lf,
        Disguise::Crlf => lf.replace('\n', "\r\n"),
        Disguise::Plain => plain(&lf),
        Disguise::Blanks => format!("{} ", lf.trim_end()),
        Disguise::Marked => format!("\u{FEFF}{lf}"),
        Disguise::Wrong => format!("{lf}nowhere"),
    };
    (old.clone(), new_text(&old, &wish.new))
}

fn new_text(old: &str, new: &New) -> String {
    let mut lines: Vec<&str> = old.split_inclusive('\n').collect();
    match new {
        New::Lines(new) => new.join("\n"),
        New::Crlf(new) => new.join("\r\n"),
        New::Nothing => String::new(),
        New::Same => old.to_owned(),
        New::Changed(at, line) if !lines.is_empty() => {
            let at = at.index(lines.len());
            let line = if lines[at].ends_with('\n') { format!("{line}\n") } else { line.clone() };
            lines[at] = &line;
            lines.concat()
        }
        New::Inserted(at, line) => {
            let line = format!("{line}\n");
            lines.insert(at.index(lines.len() + 1), &line);
            lines.concat()
        }
        New::LeftOut(at) if !lines.is_empty() => {
            lines.remove(at.index(lines.len()));
            lines.concat()
        }
        New::Changed(..) | New::LeftOut(_) => "new".to_owned(),
    }
}

/// As a model writes what it has read.
fn plain(text: &str) -> String {
    let lines: Vec<String> = text
        .split('\n')
        .map(|line| {
            let line = line.trim_end_matches([' ', '\t']);
            line.chars().fold(String::new(), |out, c| {
                out + &match c {
                    '‘' | '’' => "'".to_owned(),
                    '“' | '”' => "\"".to_owned(),
                    '–' | '—' => "-".to_owned(),
                    '\u{A0}' => " ".to_owned(),
                    '…' => "...".to_owned(),
                    'ﬁ' => "fi".to_owned(),
                    c => c.to_string(),
                }
            })
        })
        .collect();
    lines.join("\n")
}

/// How many cases were of which kind.
#[derive(Debug, Default)]
pub(crate) struct Coverage {
    changed: u32,
    /// Of these, by more than one edit.
    many_changed: u32,
    /// Of these, where the file has none of the `old_text`s letter for letter.
    by_likeness: u32,
    crlf: u32,
    marked: u32,
    not_text: u32,
    without_last_end: u32,
    unchanged: u32,
    nowhere: u32,
    ambiguous: u32,
    overlapping: u32,
}

impl Coverage {
    pub(crate) fn note(&mut self, case: &Case, outcome: &Outcome) {
        let has = |needle: &[u8]| case.file.windows(needle.len()).any(|w| w == needle);
        match outcome {
            Outcome::Changed { places, .. } => {
                self.changed += 1;
                self.many_changed += u32::from(places.len() > 1);
                self.by_likeness +=
                    u32::from(case.edits.iter().all(|(old, _)| !old.is_empty() && !has(old.as_bytes())));
                self.crlf += u32::from(has(b"\r\n"));
                self.marked += u32::from(case.file.starts_with("\u{FEFF}".as_bytes()));
                self.not_text += u32::from(std::str::from_utf8(&case.file).is_err());
                self.without_last_end += u32::from(!case.file.ends_with(b"\n"));
            }
            Outcome::Unchanged => self.unchanged += 1,
            Outcome::Nowhere { .. } | Outcome::Empty { .. } => self.nowhere += 1,
            Outcome::Many { .. } => self.ambiguous += 1,
            Outcome::Overlap { .. } => self.overlapping += 1,
        }
    }

    /// Every kind was there often.
    #[track_caller]
    pub(crate) fn check(&self, cases: u32) {
        assert!(self.changed > cases / 3, "{self:?}");
        let kinds = [
            self.many_changed,
            self.by_likeness,
            self.crlf,
            self.marked,
            self.not_text,
            self.without_last_end,
            self.unchanged,
            self.nowhere,
            self.ambiguous,
            self.overlapping,
        ];
        assert!(kinds.iter().all(|count| *count > cases / 100), "{self:?}");
    }
}
