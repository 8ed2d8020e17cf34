//! Rules about the top-level modules of a crate: no cycle between them, and in agent-core no import from a higher layer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Item, Macro, Meta};

use super::Finding;
use crate::syntax::names::{Names, Target, imports_of};
use crate::syntax::{Crate, attributes, is_test_only};

/// The crates whose modules are checked.
const CRATES: &[&str] = &[
    "agent_core",
    "agent_providers",
    "agent_restate",
    "agent_session",
    "agent_sim",
    "agent_tools",
    "agent_view",
];

/// The crate whose modules have an order.
const CORE: &str = "agent_core";

/// The layers of agent-core, lowest first. A module may import modules of its own layer and of lower ones.
const CORE_LAYERS: &[&[&str]] = &[
    &["environment", "identity", "limits", "retry", "shared", "tagged", "value_depth", "wire"],
    &["answer", "history", "message", "model", "provider", "route", "tool"],
    &["budget", "context", "event", "fold", "prefix"],
    &["journal", "run"],
    &["drive", "hooks"],
    &["agent", "compat", "evaluation", "parallel", "recording", "testing"],
];

/// Where one top-level module first names another: file and line.
type Edges = BTreeMap<(String, String), (String, usize)>;

/// Checks all crates.
pub(super) fn modules(crates: &[Crate], findings: &mut Vec<Finding>) {
    let names = Names::new(crates);
    for krate in crates.iter().filter(|c| CRATES.contains(&c.name.as_str())) {
        let edges = edges(krate, &names);
        cycles(krate, &edges, findings);
        if krate.name == CORE {
            order(krate, &edges, CORE_LAYERS, findings);
        }
    }
}

/// Reports each group of modules that import each other in a circle, with one shortest cycle.
fn cycles(krate: &Crate, edges: &Edges, findings: &mut Vec<Finding>) {
    let reach: BTreeMap<&String, BTreeSet<&String>> =
        krate.top_level().iter().map(|module| (module, reachable(module, edges))).collect();
    let together = |a: &String, b: &String| reach[a].contains(b) && reach[b].contains(a);
    let mut reported: BTreeSet<&String> = BTreeSet::new();
    for module in krate.top_level() {
        if !together(module, module) || reported.contains(module) {
            continue;
        }
        let group: Vec<&String> = krate.top_level().iter().filter(|other| together(module, other)).collect();
        reported.extend(&group);
        let shortest = group.iter().filter_map(|start| path_back(start, edges)).min_by_key(Vec::len);
        let Some(cycle) = shortest else { continue };
        let Some((file, line)) = cycle.first().and_then(|step| edges.get(step)) else { continue };
        let steps: Vec<String> = cycle
            .iter()
            .filter_map(|step| edges.get(step).map(|(file, line)| format!("{} ({file}:{line})", step.1)))
            .collect();
        let start = cycle.first().map_or("", |step| step.0.as_str());
        let text = format!(
            "modules of {} import each other in a circle: {start} -> {}; {} modules are in such circles: {}",
            krate.name,
            steps.join(" -> "),
            group.len(),
            group.iter().map(|m| m.as_str()).collect::<Vec<_>>().join(", ")
        );
        findings.push(Finding::error("module-cycles", file, *line, text));
    }
}

/// The modules that `start` imports, directly or through others.
fn reachable<'a>(start: &str, edges: &'a Edges) -> BTreeSet<&'a String> {
    let mut found = BTreeSet::new();
    let mut open = vec![start];
    while let Some(module) = open.pop() {
        for (_, to) in edges.keys().filter(|(from, _)| from == module) {
            if found.insert(to) {
                open.push(to);
            }
        }
    }
    found
}

/// The shortest cycle through `start`, as edges.
fn path_back(start: &str, edges: &Edges) -> Option<Vec<(String, String)>> {
    let mut open: VecDeque<Vec<(String, String)>> =
        edges.keys().filter(|(from, _)| from == start).map(|edge| vec![edge.clone()]).collect();
    let mut seen = BTreeSet::new();
    while let Some(path) = open.pop_front() {
        let Some((_, last)) = path.last() else { continue };
        if last == start {
            return Some(path);
        }
        if seen.insert(last.clone()) {
            for edge in edges.keys().filter(|(from, _)| from == last) {
                open.push_back(path.iter().chain([edge]).cloned().collect());
            }
        }
    }
    None
}

/// Reports imports from a higher layer, and modules that are in no layer.
fn order(krate: &Crate, edges: &Edges, layers: &[&[&str]], findings: &mut Vec<Finding>) {
    let layer = |module: &str| layers.iter().position(|names| names.contains(&module));
    let root = krate.modules.get(&Vec::new()).map_or("", |m| m.file.as_str());
    for module in krate.top_level() {
        if layer(module).is_none() {
            let text = format!("the module `{module}` is in no layer; add it to xtask/src/tidy/layers.rs");
            findings.push(Finding::error("module-layers", root, 0, text));
        }
    }
    for ((from, to), (file, line)) in edges {
        if let (Some(low), Some(high)) = (layer(from), layer(to))
            && low < high
        {
            let text = format!("`{from}` (layer {low}) imports `{to}` of the higher layer {high}");
            findings.push(Finding::error("module-layers", file, *line, text));
        }
    }
}

/// Collects the imports between top-level modules, from `use` declarations, paths, macro calls and serde's `with`.
fn edges(krate: &Crate, names: &Names<'_>) -> Edges {
    let mut edges = Edges::new();
    for (path, module) in &krate.modules {
        let Some(own) = path.first() else { continue };
        let mut uses = Uses { path, found: Vec::new() };
        for item in &module.items {
            uses.visit_item(item);
        }
        for (segments, line) in uses.found {
            for to in top_level_of(krate, names, &segments).into_iter().filter(|to| to != own) {
                edges.entry((own.clone(), to)).or_insert_with(|| (module.file.clone(), line));
            }
        }
    }
    edges
}

/// The top-level modules that a path from the crate's root leads into. A name that the root re-exports leads to the
/// module that defines it.
fn top_level_of(krate: &Crate, names: &Names<'_>, segments: &[String]) -> BTreeSet<String> {
    let Some(first) = segments.first() else { return BTreeSet::new() };
    if krate.top_level().contains(first) {
        return BTreeSet::from([first.clone()]);
    }
    let root = ["crate".to_owned(), first.clone()];
    let targets = names.targets(&krate.name, &[], &root).into_iter();
    let paths = targets.filter_map(|target| match target {
        Target::Module { krate: k, path } | Target::Item { krate: k, path, .. } if k == krate.name => {
            Some(path)
        }
        _ => None,
    });
    paths.filter_map(|path| path.into_iter().next()).collect()
}

/// The paths that a module's items name, each from the crate's root and with its line.
struct Uses<'a> {
    path: &'a [String],
    found: Vec<(Vec<String>, usize)>,
}

impl Uses<'_> {
    /// Adds a path that begins with `crate`, `self` or `super`; others stay inside the module or lead to other crates.
    fn add(&mut self, segments: &[String], line: usize) {
        let mut absolute: Vec<String> = match segments.first().map(String::as_str) {
            Some("crate") => Vec::new(),
            Some("super" | "self") => self.path.to_vec(),
            _ => return,
        };
        for segment in segments {
            match segment.as_str() {
                "crate" | "self" => {}
                "super" => {
                    absolute.pop();
                }
                name => absolute.push(name.to_owned()),
            }
        }
        self.found.push((absolute, line));
    }

    /// Finds paths in tokens that are not parsed, such as the arguments of a macro.
    fn scan(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            at += 1;
            match token {
                TokenTree::Group(group) => self.scan(group.stream()),
                TokenTree::Ident(ident) if *ident == "crate" || *ident == "super" => {
                    let mut segments = vec![ident.to_string()];
                    while let (
                        Some(TokenTree::Punct(a)),
                        Some(TokenTree::Punct(b)),
                        Some(TokenTree::Ident(next)),
                    ) = (tokens.get(at), tokens.get(at + 1), tokens.get(at + 2))
                        && a.as_char() == ':'
                        && b.as_char() == ':'
                    {
                        segments.push(next.to_string());
                        at += 3;
                    }
                    self.add(&segments, ident.span().start().line);
                }
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Uses<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test_only(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let test_only = matches!(item, ImplItem::Fn(method) if is_test_only(&method.attrs));
        if !test_only {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_use(&mut self, declaration: &'ast syn::ItemUse) {
        for import in imports_of(declaration) {
            self.add(&import.segments, import.line);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        let line = path.segments.first().map_or(0, |first| first.ident.span().start().line);
        self.add(&segments, line);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.scan(call.tokens.clone());
        visit::visit_macro(self, call);
    }

    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        let Meta::List(list) = &attribute.meta else { return };
        for token in list.tokens.clone() {
            let text = token.to_string();
            let path = text.trim_matches('"');
            if path.starts_with("crate::") || path.starts_with("super::") {
                let segments: Vec<String> = path.split("::").map(str::to_owned).collect();
                self.add(&segments, token.span().start().line);
            }
        }
    }
}
