//! Rewrites a source file so that it contains many mutants. An environment variable selects one of them at run time.
//!
//! The innermost block or closure body around a mutant is its unit. The rewritten unit is an `if` with one branch for
//! each of its mutants, which is a copy of the unit with that mutant, and a last branch with the original. Mutants of all
//! kinds are therefore only replacements of text, as they are for cargo-mutants.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::Context as _;
use proc_macro2::LineColumn;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

use super::cargo_mutants::Mutant;

/// The environment variable with the number of the mutant that is on.
pub(super) const VARIABLE: &str = "LOOPTREE_MUTANT";

/// The environment variable with the path of a file, to which a program appends the number of each mutant whose unit is
/// executed.
pub(super) const REACHED: &str = "LOOPTREE_MUTANTS_REACHED";

/// The start of the text of an error of [`uncompilable`].
pub(super) const UNCOMPILABLE: &str = "mutant ";

/// The function that the rewritten code calls. It belongs at the end of the `lib.rs` of the package.
pub(super) const IS_ON: &str = r#"
pub(crate) fn mutant_is_on(number: usize) -> bool {
    use std::io::Write as _;
    use std::sync::{Mutex, OnceLock};
    type Reached = (std::collections::BTreeSet<usize>, std::fs::File);
    static REACHED: OnceLock<Option<Mutex<Reached>>> = OnceLock::new();
    static ON: OnceLock<Option<usize>> = OnceLock::new();
    // The file is opened once, because a sandbox may refuse it later.
    let open = || {
        let path = std::env::var_os("LOOPTREE_MUTANTS_REACHED")?;
        let file = std::fs::OpenOptions::new().append(true).open(path).ok()?;
        Some(Mutex::new((std::collections::BTreeSet::new(), file)))
    };
    if let Some(reached) = REACHED.get_or_init(open) {
        let mut reached = reached.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if reached.0.insert(number) {
            let _ = reached.1.write_all(format!("{number}\n").as_bytes());
        }
    }
    let read = || std::env::var("LOOPTREE_MUTANT").ok().and_then(|number| number.parse().ok());
    *ON.get_or_init(read) == Some(number)
}
"#;

/// A rewritten file.
#[derive(Debug, Default)]
pub(super) struct Rewritten {
    pub(super) text: String,
    /// Where the mutants are in it. Mutants outside of all blocks, and in what the compiler evaluates, are not in it.
    pub(super) places: Vec<Place>,
}

/// Where a mutant is in a rewritten file, in lines from 1.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) number: usize,
    pub(super) copy: Range<usize>,
    pub(super) unit: Range<usize>,
}

/// Rewrites a file that contains these mutants, which have numbers.
///
/// # Errors
/// Returns an error if the text is not Rust, or if a mutant is not within it.
pub(super) fn rewrite(text: &str, mutants: &[(usize, &Mutant)]) -> anyhow::Result<Rewritten> {
    let ranges = ranges(text)?;
    let mut units: BTreeMap<_, Unit<'_>> = BTreeMap::new();
    for (number, mutant) in mutants {
        let Some((range, span)) = around(text, &ranges, mutant)? else { continue };
        // A unit stands before those within it.
        let unit = units.entry((range.start, std::cmp::Reverse(range.end)));
        let unit = unit.or_insert_with(|| Unit { range, mutants: Vec::new() });
        unit.mutants.push((*number, span, &mutant.replacement));
    }
    let file = File { text, units: units.into_values().collect() };
    let mut out = Rewritten::default();
    file.render(0, 0..text.len(), &mut out);
    Ok(out)
}

/// Returns the text of a file in which a unit with one of these mutants does not compile: the error of the compiler is
/// [`UNCOMPILABLE`] and the number of the mutant. Code that is not compiled at all causes no error.
///
/// # Errors
/// Returns an error if the text is not Rust, or if a mutant is not within it.
pub(super) fn uncompilable(text: &str, mutants: &[(usize, &Mutant)]) -> anyhow::Result<String> {
    let ranges = ranges(text)?;
    let mut inserted = Vec::new();
    for (number, mutant) in mutants {
        if let Some((range, _)) = around(text, &ranges, mutant)? {
            inserted.push((range.start, format!("{{ compile_error!(\"{UNCOMPILABLE}{number}\");")));
            inserted.push((range.end, "}".to_owned()));
        }
    }
    inserted.sort_by_key(|(at, _)| *at);
    let mut text = text.to_owned();
    for (at, part) in inserted.iter().rev() {
        text.insert_str(*at, part);
    }
    Ok(text)
}

/// Returns the ranges of the units of a file.
fn ranges(text: &str) -> anyhow::Result<Vec<Range<usize>>> {
    let mut found = Units::default();
    found.visit_file(&syn::parse_file(text).context("not Rust")?);
    let offset = |at: LineColumn| offset(text, at.line, at.column).context("a position outside of the file");
    found.0.into_iter().map(|(start, end)| Ok(offset(start)?..offset(end)?)).collect()
}

/// Returns the unit of a mutant and the range that it replaces. `None` if the mutant is in no unit.
fn around(
    text: &str,
    ranges: &[Range<usize>],
    mutant: &Mutant,
) -> anyhow::Result<Option<(Range<usize>, Range<usize>)>> {
    let span = mutant.range(text).with_context(|| format!("{} is not in its file", mutant.name))?;
    let around = ranges.iter().filter(|unit| unit.start <= span.start && span.end <= unit.end);
    Ok(around.min_by_key(|unit| unit.len()).map(|unit| (unit.clone(), span)))
}

/// Returns the offset of a character: the line counts from 1 and the column from 0.
pub(super) fn offset(text: &str, line: usize, column: usize) -> Option<usize> {
    let before: usize = text.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum();
    let rest = text.get(before..)?;
    rest.char_indices().map(|(at, _)| at).chain([rest.len()]).nth(column).map(|at| before + at)
}

/// A block or closure body with mutants, each with its number, its place and its replacement.
struct Unit<'a> {
    range: Range<usize>,
    mutants: Vec<(usize, Range<usize>, &'a str)>,
}

struct File<'a> {
    text: &'a str,
    units: Vec<Unit<'a>>,
}

impl File<'_> {
    /// Writes a part of the file, in which the units begin with the one at index `next`. Returns the index of the unit
    /// after the part.
    fn render(&self, mut next: usize, part: Range<usize>, out: &mut Rewritten) -> usize {
        let mut at = part.start;
        while let Some(unit) = self.units.get(next).filter(|unit| unit.range.start < part.end) {
            out.text.push_str(self.text(at..unit.range.start));
            let (first_line, first_place) = (out.line(), out.places.len());
            for (number, span, replacement) in &unit.mutants {
                out.text.push_str(&format!("if crate::mutant_is_on({number}) {{\n"));
                let start = out.line();
                for part in [
                    self.text(unit.range.start..span.start),
                    replacement,
                    self.text(span.end..unit.range.end),
                ] {
                    out.text.push_str(part);
                }
                out.text.push('\n');
                out.places.push(Place { number: *number, copy: start..out.line(), unit: 0..0 });
                out.text.push_str("} else ");
            }
            let own = first_place..out.places.len();
            out.text.push_str("{\n");
            next = self.render(next + 1, unit.range.clone(), out);
            out.text.push_str("\n}");
            let lines = first_line..out.line() + 1;
            for place in out.places.get_mut(own).into_iter().flatten() {
                place.unit = lines.clone();
            }
            at = unit.range.end;
        }
        out.text.push_str(self.text(at..part.end));
        next
    }

    fn text(&self, range: Range<usize>) -> &str {
        self.text.get(range).unwrap_or_default()
    }
}

impl Rewritten {
    /// The line that the next character is in.
    fn line(&self) -> usize {
        self.text.matches('\n').count() + 1
    }
}

/// The starts and ends of the blocks, without their braces, and of the bodies of closures. What the compiler evaluates is
/// left out, because it cannot read an environment variable.
#[derive(Default)]
struct Units(Vec<(LineColumn, LineColumn)>);

impl<'ast> Visit<'ast> for Units {
    fn visit_block(&mut self, block: &'ast syn::Block) {
        let braces = block.brace_token.span;
        self.0.push((braces.open().end(), braces.close().start()));
        visit::visit_block(self, block);
    }

    fn visit_expr_closure(&mut self, closure: &'ast syn::ExprClosure) {
        if !matches!(*closure.body, syn::Expr::Block(_)) {
            let span = closure.body.span();
            self.0.push((span.start(), span.end()));
        }
        visit::visit_expr_closure(self, closure);
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        if function.sig.constness.is_none() {
            visit::visit_item_fn(self, function);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if function.sig.constness.is_none() {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
}

#[cfg(test)]
mod tests;
