//! Writes `docs/reference/limits.md`: every public constant that is a number or a duration, with its value and meaning.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use syn::{Attribute, Expr, Item, ItemConst, Lit, Meta, Type};

use crate::syntax::names::{Kind, Names, Target};
use crate::syntax::{Crate, type_name};
use crate::workspace::SourceFile;

/// The page that is written.
pub(super) const PAGE: &str = "docs/reference/limits.md";

/// The crates whose items `looptree` re-exports, with the path that a user writes. The others are named as they are.
const PATHS: &[(&str, &str)] = &[
    ("agent_core", "looptree"),
    ("agent_providers", "looptree::providers"),
    ("agent_session", "looptree::session"),
    ("agent_tools", "looptree::tools"),
    ("agent_restate", "looptree::restate"),
    ("agent_sim", "looptree::sim"),
    ("agent_view", "looptree::view"),
    ("agent_serve", "looptree::serve"),
    ("agent_otel", "looptree::otel"),
];

/// The crate whose modules the facade re-exports one by one.
const CORE: &str = "agent_core";

/// Crates whose constants are not the user's: the facade has none, and the command is no library.
const NOT_LISTED: &[&str] = &["looptree", "looptree_cli"];

/// Names of numbers that limit nothing: versions of forms, and marks.
const NO_LIMITS: &[&str] = &["FORM", "NO_MARK"];

/// The introduction of the page.
const INTRODUCTION: &str = "# Limits\n\n\
    `cargo xtask docs --write` writes this page from the sources, and `cargo xtask docs --check` fails if it is out of date. It lists every\n\
    public constant that is a number or a duration. A limit that a method or a field can change has its name in the description of\n\
    the constant; [configuration](configuration.md) has the defaults of fields. A limit can change in any release, and the changelog lists\n\
    the changes ([stability](../stability.md)).\n";

/// A constant of the page.
struct Limit {
    path: String,
    value: String,
    text: String,
}

/// The page as Markdown.
pub(super) fn page(crates: &[Crate], files: &[SourceFile]) -> String {
    let names = Names::new(crates);
    let mut page = INTRODUCTION.to_owned();
    for krate in crates.iter().filter(|c| !NOT_LISTED.contains(&c.name.as_str())) {
        let limits = limits(krate, &names, files);
        if limits.is_empty() {
            continue;
        }
        let title =
            PATHS.iter().find(|(name, _)| *name == krate.name).map_or(krate.name.as_str(), |(_, p)| p);
        let _ = write!(page, "\n## `{title}`\n\n| constant | value | meaning |\n|---|---|---|\n");
        for limit in limits {
            let _ = writeln!(page, "| `{}` | {} | {} |", limit.path, limit.value, limit.text);
        }
    }
    page
}

/// The limits of a crate, sorted by path. A constant with several paths is listed under the shortest.
fn limits(krate: &Crate, names: &Names<'_>, files: &[SourceFile]) -> Vec<Limit> {
    let mut paths: BTreeMap<(Vec<String>, String), String> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut open = vec![(Vec::new(), String::new())];
    while let Some((module, shown)) = open.pop() {
        if !seen.insert(module.clone()) {
            continue;
        }
        for (name, targets) in names.exports(&krate.name, &module) {
            let shown = if shown.is_empty() { name.clone() } else { format!("{shown}::{name}") };
            for target in targets {
                match target {
                    Target::Module { krate: of, path } if of == krate.name && !path.is_empty() => {
                        open.push((path, shown.clone()));
                    }
                    Target::Item { krate: of, path, name, kind: Kind::Constant } if of == krate.name => {
                        let known = paths.entry((path, name)).or_insert_with(|| shown.clone());
                        if rank(&krate.name, &shown) < rank(&krate.name, known) {
                            known.clone_from(&shown);
                        }
                    }
                    _ => {}
                }
            }
        }
    }
    let mut limits: Vec<Limit> = paths
        .into_iter()
        .filter(|((_, name), _)| !NO_LIMITS.contains(&name.as_str()) && !name.ends_with("VERSION"))
        .filter_map(|((module, name), path)| {
            let constant = constant(krate, &module, &name)?;
            let unit = unit(&constant.ty, &name)?;
            let expression = expression(krate, &module, &name, files)?;
            let value =
                value(&expression, krate, files).map_or_else(|| format!("`{expression}`"), |v| unit.show(v));
            let path =
                if krate.name == CORE && !path.contains("::") { format!("{CORE}::{path}") } else { path };
            Some(Limit { path, value, text: first_sentence(&constant.attrs) })
        })
        .collect();
    limits.sort_by(|a, b| a.path.cmp(&b.path));
    limits
}

/// The order of the paths of one constant: the least is shown. `looptree` re-exports the modules of the core, and only some
/// names of its root.
fn rank<'a>(krate: &str, path: &'a str) -> (bool, usize, &'a str) {
    let depth = path.matches("::").count();
    (krate == CORE && depth == 0, depth, path)
}

fn constant<'a>(krate: &'a Crate, module: &[String], name: &str) -> Option<&'a ItemConst> {
    krate.modules.get(module)?.items.iter().find_map(|item| match item {
        Item::Const(constant) if constant.ident == name => Some(constant),
        _ => None,
    })
}

/// The text between `=` and `;` of a constant.
fn expression(krate: &Crate, module: &[String], name: &str, files: &[SourceFile]) -> Option<String> {
    let file = &krate.modules.get(module)?.file;
    let text = &files.iter().find(|f| f.path == *file)?.text;
    let (_, rest) = text.split_once(&format!("const {name}: "))?;
    let (_, rest) = rest.split_once('=')?;
    let (expression, _) = rest.split_once(';')?;
    Some(expression.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// How a value is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Number,
    Bytes,
    Milliseconds,
}

fn unit(ty: &Type, name: &str) -> Option<Unit> {
    match type_name(ty)?.as_str() {
        "Duration" => Some(Unit::Milliseconds),
        "usize" | "u64" | "u32" | "u16" | "u8" if name.contains("BYTES") => Some(Unit::Bytes),
        "usize" | "u64" | "u32" | "u16" | "u8" => Some(Unit::Number),
        _ => None,
    }
}

impl Unit {
    pub(super) fn show(self, value: u64) -> String {
        let units: &[(u64, &str)] = match self {
            Self::Number => &[],
            Self::Bytes => &[(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes")],
            Self::Milliseconds => &[(3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms")],
        };
        let unit = units.iter().find(|(size, _)| value >= *size && value.is_multiple_of(*size));
        unit.map_or_else(|| grouped(value), |(size, unit)| format!("{} {unit}", grouped(value / size)))
    }
}

/// The number with a comma after each three digits.
fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The value of an expression of numbers, durations (in milliseconds) and constants of the crate.
fn value(expression: &str, krate: &Crate, files: &[SourceFile]) -> Option<u64> {
    let parsed: Expr = syn::parse_str(expression).ok()?;
    evaluate(&parsed, krate, files, 0)
}

fn evaluate(expression: &Expr, krate: &Crate, files: &[SourceFile], depth: usize) -> Option<u64> {
    if depth > 16 {
        return None;
    }
    let inner = |e: &Expr| evaluate(e, krate, files, depth + 1);
    match expression {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => number.base10_parse().ok(),
            _ => None,
        },
        Expr::Paren(paren) => inner(&paren.expr),
        Expr::Group(group) => inner(&group.expr),
        Expr::Cast(cast) => inner(&cast.expr),
        Expr::Binary(binary) => {
            let (left, right) = (inner(&binary.left)?, inner(&binary.right)?);
            match binary.op {
                syn::BinOp::Add(_) => left.checked_add(right),
                syn::BinOp::Sub(_) => left.checked_sub(right),
                syn::BinOp::Mul(_) => left.checked_mul(right),
                syn::BinOp::Div(_) => left.checked_div(right),
                syn::BinOp::Shl(_) => left.checked_shl(u32::try_from(right).ok()?),
                _ => None,
            }
        }
        Expr::Call(call) => {
            let Expr::Path(function) = &*call.func else { return None };
            let amount = inner(call.args.first()?)?;
            match function.path.segments.last()?.ident.to_string().as_str() {
                "from_millis" => Some(amount),
                "from_secs" => amount.checked_mul(1_000),
                "from_mins" => amount.checked_mul(60_000),
                "from_hours" => amount.checked_mul(3_600_000),
                _ => None,
            }
        }
        Expr::Path(path) => {
            let mut segments: Vec<String> = path.path.segments.iter().map(|s| s.ident.to_string()).collect();
            let name = segments.pop()?;
            let module: Vec<String> = segments.into_iter().filter(|s| s != "crate").collect();
            let text = self::expression(krate, &module, &name, files)?;
            evaluate(&syn::parse_str(&text).ok()?, krate, files, depth + 1)
        }
        _ => None,
    }
}

/// The first sentence of a doc comment, for a cell of a table.
fn first_sentence(attributes: &[Attribute]) -> String {
    let mut text = String::new();
    for attribute in attributes.iter().filter(|a| a.path().is_ident("doc")) {
        let Meta::NameValue(pair) = &attribute.meta else { continue };
        let Expr::Lit(literal) = &pair.value else { continue };
        let Lit::Str(line) = &literal.lit else { continue };
        let line = line.value();
        if line.trim().is_empty() {
            break;
        }
        text.push_str(line.trim());
        text.push(' ');
    }
    let end = text.find(". ").map_or(text.trim_end().len(), |at| at + 1);
    without_links(text.get(..end).unwrap_or_default()).replace('|', "\\|")
}

/// The text with the links of rustdoc replaced by their texts.
pub(super) fn without_links(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        out.push_str(before);
        let Some((label, after)) = link.split_once(']') else {
            out.push('[');
            rest = link;
            continue;
        };
        out.push_str(label);
        rest = match after.strip_prefix('(') {
            Some(target) => target.split_once(')').map_or("", |(_, after)| after),
            None => after,
        };
    }
    out.push_str(rest);
    out
}
