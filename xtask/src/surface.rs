//! `cargo xtask surface`: counts and lists the public API that a user meets first, and checks it against limits.
//!
//! The sources are parsed with all features enabled. Items that macros generate are not seen.

mod page;
mod std_names;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail};
use syn::{ImplItem, Item, TraitItem};

use crate::features::FACADE;
use crate::syntax::names::{Exports, Kind, Names, Target, is_public};
use crate::syntax::{self, Crate};
use crate::workspace::Workspace;

/// The page that is written.
const PAGE: &str = "docs/surface.md";

/// The types whose methods are counted together: the owner of an agent and the handle to it.
const AGENTS: [&str; 2] = ["BasicAgent", "AgentHandle"];

/// The type whose public fields are counted.
const CONFIG: &str = "AgentLoopConfig";

/// The module of names from before 0.1, which is counted apart.
const COMPAT: &str = "compat";

/// The most names at the root of `looptree` besides modules.
const MAX_ROOT: usize = 50;
/// The most names in the prelude.
const MAX_PRELUDE: usize = 32;
/// The most public methods of the two agent types together.
const MAX_METHODS: usize = 60;
/// The most public fields of the loop's configuration.
const MAX_FIELDS: usize = 6;

/// What the sources offer to a user.
#[derive(Debug, Default, PartialEq, Eq)]
struct Surface {
    /// The names at the root of `looptree` that are not modules, by the crate that defines them.
    root: BTreeMap<String, BTreeSet<String>>,
    /// The modules at the root of `looptree`.
    root_modules: BTreeSet<String>,
    /// The names of the prelude.
    prelude: BTreeSet<String>,
    /// The traits that the prelude brings into scope without a name.
    prelude_traits: Vec<String>,
    /// The names of the prelude that the standard library has too, with the place where it has them.
    hidden: BTreeMap<String, &'static str>,
    /// The public methods of each agent type.
    methods: BTreeMap<String, BTreeSet<String>>,
    /// Those of impl blocks and of traits in a module `compat`, by type or trait.
    compat_methods: BTreeMap<String, BTreeSet<String>>,
    /// The methods of the workspace's public traits that an agent type implements, by trait.
    extensions: BTreeMap<String, BTreeSet<String>>,
    /// The public fields of the loop's configuration.
    fields: Vec<String>,
    /// The items that a user can reach, by crate.
    items: BTreeMap<String, Items>,
}

/// How many public items of each kind a crate has.
#[derive(Debug, Default, PartialEq, Eq)]
struct Items {
    modules: usize,
    types: usize,
    traits: usize,
    functions: usize,
    constants: usize,
    macros: usize,
    /// Public methods and associated functions of the types.
    methods: usize,
    /// Items whose module path has a segment `compat`; they are in no other column.
    compat: usize,
}

impl Items {
    /// All but the methods and what is in `compat`.
    fn sum(&self) -> usize {
        self.modules + self.types + self.traits + self.functions + self.constants + self.macros
    }
}

/// Writes the page, or with `--check` compares it. `false` if it is out of date or a limit is exceeded.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<bool> {
    let check = match arguments {
        [] => false,
        [one] if one == "--check" => true,
        _ => bail!("`cargo xtask surface` takes `--check` or nothing"),
    };
    let surface = measure(&syntax::libraries(&workspace.texts()?)?)?;
    let page = page::write(&surface);
    let path = workspace.root.join(PAGE);
    let mut good = true;
    if check {
        if std::fs::read_to_string(&path).unwrap_or_default() != page {
            say!("{PAGE} is out of date; run `cargo xtask surface`");
            good = false;
        }
    } else {
        std::fs::write(&path, &page).with_context(|| format!("cannot write {PAGE}"))?;
    }
    for (what, count, limit) in surface.figures() {
        say!("{what}: {count}{}", limit.map_or(String::new(), |l| format!(" (at most {l})")));
    }
    let exceeded = surface.exceeded();
    for line in &exceeded {
        say!("{line}");
    }
    Ok(good && exceeded.is_empty())
}

/// Measures the libraries of the workspace, of which one is `looptree`.
fn measure(crates: &[Crate]) -> anyhow::Result<Surface> {
    let names = Names::new(crates);
    let mut surface = Surface::default();
    for (name, targets) in names.exports(FACADE, &[]) {
        if targets.iter().any(|t| is_module(t, crates)) {
            surface.root_modules.insert(name.clone());
        }
        if let Some(target) = targets.iter().find(|t| !is_module(t, crates)) {
            surface.root.entry(origin(target)).or_default().insert(name);
        }
    }
    let prelude = ["prelude".to_owned()];
    for (name, targets) in names.exports(FACADE, &prelude) {
        let is_macro = targets.iter().all(|t| matches!(t, Target::Item { kind: Kind::Macro, .. }));
        if let Some(home) = std_names::home_of(&name, is_macro) {
            surface.hidden.insert(name.clone(), home);
        }
        surface.prelude.insert(name);
    }
    surface.prelude_traits = names.anonymous(FACADE, &prelude);
    for krate in crates {
        surface.items.insert(krate.name.clone(), items(krate, &names));
    }
    methods(crates, &mut surface);
    surface.fields = fields(crates).with_context(|| format!("no crate has a public struct {CONFIG}"))?;
    if surface.root.is_empty() || surface.prelude.is_empty() || !surface.methods.contains_key(AGENTS[0]) {
        bail!("{FACADE} has no names, no prelude or no methods of {}; the sources were not read", AGENTS[0]);
    }
    Ok(surface)
}

/// Whether the target is a module. An outside crate as a whole is one; a longer path into an outside crate counts as an item.
fn is_module(target: &Target, crates: &[Crate]) -> bool {
    match target {
        Target::Module { krate, .. } => crates.iter().any(|c| c.name == *krate),
        Target::Item { .. } => false,
        Target::Other(path) => !path.contains("::"),
    }
}

/// The crate that defines the target.
fn origin(target: &Target) -> String {
    match target {
        Target::Module { krate, .. } | Target::Item { krate, .. } => krate.clone(),
        Target::Other(path) => path.split("::").next().unwrap_or_default().to_owned(),
    }
}

/// Counts the items of one crate that its users can reach.
fn items(krate: &Crate, names: &Names<'_>) -> Items {
    let mut reached: BTreeSet<Target> = BTreeSet::new();
    let mut open: Vec<Exports> = vec![names.exports(&krate.name, &[])];
    while let Some(exports) = open.pop() {
        for target in exports.into_values().flatten() {
            let of_this_crate = match &target {
                Target::Module { krate: k, path } => k == &krate.name && !path.is_empty(),
                Target::Item { krate: k, .. } => k == &krate.name,
                Target::Other(_) => false,
            };
            if !of_this_crate || !reached.insert(target.clone()) {
                continue;
            }
            if let Target::Module { krate, path } = &target {
                open.push(names.exports(krate, path));
            }
        }
    }
    let mut counts = Items::default();
    let mut types = BTreeSet::new();
    for target in &reached {
        match target {
            Target::Module { path, .. } | Target::Item { path, .. } if in_compat(path) => counts.compat += 1,
            Target::Module { .. } => counts.modules += 1,
            Target::Item { kind, name, .. } => match kind {
                Kind::Type => {
                    counts.types += 1;
                    types.insert(name.clone());
                }
                Kind::Trait => counts.traits += 1,
                Kind::Function => counts.functions += 1,
                Kind::Constant => counts.constants += 1,
                Kind::Macro => counts.macros += 1,
            },
            Target::Other(_) => {}
        }
    }
    let modules = krate.modules.iter().filter(|(path, _)| !in_compat(path));
    let methods = modules.flat_map(|(_, module)| &module.items).flat_map(inherent_methods);
    counts.methods = methods.filter(|(name, _)| types.contains(name)).count();
    counts
}

fn in_compat(path: &[String]) -> bool {
    path.iter().any(|p| p == COMPAT)
}

/// The type and the name of each public method of an inherent impl block.
fn inherent_methods(item: &Item) -> Vec<(String, String)> {
    let Item::Impl(block) = item else { return Vec::new() };
    let (None, Some(name)) = (&block.trait_, syntax::type_name(&block.self_ty)) else { return Vec::new() };
    let methods = block.items.iter().filter_map(|part| match part {
        ImplItem::Fn(method) if is_public(&method.vis) && !syntax::is_test_only(&method.attrs) => {
            Some((name.clone(), method.sig.ident.to_string()))
        }
        _ => None,
    });
    methods.collect()
}

/// Collects the methods of the agent types: inherent ones, those in `compat`, and those of the workspace's traits.
fn methods(crates: &[Crate], surface: &mut Surface) {
    let mut traits: BTreeMap<String, (bool, BTreeSet<String>)> = BTreeMap::new();
    let all =
        || crates.iter().flat_map(|c| &c.modules).flat_map(|(p, m)| m.items.iter().map(move |i| (p, i)));
    for (path, item) in all() {
        if let Item::Trait(definition) = item
            && is_public(&definition.vis)
        {
            let methods = definition.items.iter().filter_map(|part| match part {
                TraitItem::Fn(method) => Some(method.sig.ident.to_string()),
                _ => None,
            });
            let (compat, known) = traits.entry(definition.ident.to_string()).or_default();
            *compat |= in_compat(path);
            known.extend(methods);
        }
    }
    for (path, item) in all() {
        for (name, method) in inherent_methods(item).into_iter().filter(|(name, _)| AGENTS.contains(&&**name))
        {
            let list = if in_compat(path) { &mut surface.compat_methods } else { &mut surface.methods };
            list.entry(name).or_default().insert(method);
        }
        if let Item::Impl(block) = item
            && let Some((implemented, _)) = &block.trait_
            && syntax::type_name(&block.self_ty).is_some_and(|name| AGENTS.contains(&name.as_str()))
            && let Some(name) = implemented.segments.last().map(|s| s.ident.to_string())
            && let Some((compat, methods)) = traits.get(&name)
        {
            let list = if *compat { &mut surface.compat_methods } else { &mut surface.extensions };
            list.insert(name, methods.clone());
        }
    }
}

/// The public fields of the loop's configuration; `None` if there is no such type.
fn fields(crates: &[Crate]) -> Option<Vec<String>> {
    let mut items = crates.iter().flat_map(|c| c.modules.values()).flat_map(|m| &m.items);
    items.find_map(|item| match item {
        Item::Struct(definition) if definition.ident == CONFIG && is_public(&definition.vis) => {
            let public = definition.fields.iter().filter(|f| is_public(&f.vis));
            Some(public.filter_map(|f| f.ident.as_ref().map(ToString::to_string)).collect())
        }
        _ => None,
    })
}

impl Surface {
    /// Each figure with its limit.
    fn figures(&self) -> Vec<(&'static str, usize, Option<usize>)> {
        let sum = |map: &BTreeMap<String, BTreeSet<String>>| map.values().map(BTreeSet::len).sum();
        vec![
            ("names at the root of `looptree` besides modules", sum(&self.root), Some(MAX_ROOT)),
            ("modules at the root of `looptree`", self.root_modules.len(), None),
            ("names in `looptree::prelude`", self.prelude.len(), Some(MAX_PRELUDE)),
            ("traits without a name (`as _`) in `looptree::prelude`", self.prelude_traits.len(), None),
            ("prelude names that the standard library has too", self.hidden.len(), Some(0)),
            ("public methods of `BasicAgent` and `AgentHandle`", sum(&self.methods), Some(MAX_METHODS)),
            ("public methods of both in `compat`", sum(&self.compat_methods), None),
            ("methods of extension traits of both", sum(&self.extensions), None),
            ("public fields of `AgentLoopConfig`", self.fields.len(), Some(MAX_FIELDS)),
        ]
    }

    /// A line for each limit that is exceeded.
    fn exceeded(&self) -> Vec<String> {
        let too_many = self.figures().into_iter().filter_map(|(what, count, limit)| {
            let limit = limit.filter(|limit| count > *limit)?;
            Some(format!("limit exceeded: {count} {what}; at most {limit} are allowed"))
        });
        let hidden = self.hidden.iter().map(|(name, home)| format!("the prelude hides `{name}` of {home}"));
        too_many.chain(hidden).collect()
    }
}

#[cfg(test)]
mod tests;
