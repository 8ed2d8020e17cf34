//! Resolves `pub use` declarations, globs included, across the crates of the workspace.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::Span;
use syn::{Item, UseTree, Visibility};

use super::{Crate, Module};

/// The longest chain of `use` declarations that is followed, which ends the search when declarations form a cycle.
const MAX_CHAIN: usize = 32;

/// What kind of item a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Type,
    Trait,
    Function,
    Constant,
    Macro,
}

/// What a name refers to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    /// A module of a workspace crate; the empty path is the crate itself.
    Module { krate: String, path: Vec<String> },
    /// An item of a workspace crate.
    Item { krate: String, path: Vec<String>, name: String, kind: Kind },
    /// An item, a variant or a module whose definition is outside of the workspace's items.
    Other(String),
}

/// The names of a module and what each of them refers to. A name can stand for several items, such as a module and a function.
pub(crate) type Exports = BTreeMap<String, BTreeSet<Target>>;

/// The crates whose names are resolved.
pub(crate) struct Names<'a> {
    crates: BTreeMap<&'a str, &'a Crate>,
}

/// One name that a `use` declaration brings into scope.
pub(crate) struct Import {
    /// The path as it is written, without the binding.
    pub(crate) segments: Vec<String>,
    binds: Binding,
    public: bool,
    /// The line of the path's last name.
    pub(crate) line: usize,
}

enum Binding {
    Name(String),
    Glob,
    /// `as _`: the trait is in scope without a name.
    Anonymous,
}

impl<'a> Names<'a> {
    pub(crate) fn new(crates: &'a [Crate]) -> Self {
        Self { crates: crates.iter().map(|c| (c.name.as_str(), c)).collect() }
    }

    fn module_at(&self, krate: &str, path: &[String]) -> Option<&'a Module> {
        self.crates.get(krate)?.modules.get(path)
    }

    /// The public names of a module.
    pub(crate) fn exports(&self, krate: &str, path: &[String]) -> Exports {
        self.public_names(krate, path, &mut BTreeSet::new())
    }

    /// The traits that a module re-exports with `as _`.
    pub(crate) fn anonymous(&self, krate: &str, path: &[String]) -> Vec<String> {
        let imports = self.module_at(krate, path).map(imports).unwrap_or_default();
        let anonymous = imports.into_iter().filter(|i| i.public && matches!(i.binds, Binding::Anonymous));
        anonymous.filter_map(|mut i| i.segments.pop()).collect()
    }

    fn public_names(
        &self,
        krate: &str,
        path: &[String],
        seen: &mut BTreeSet<(String, Vec<String>)>,
    ) -> Exports {
        let mut exports = Exports::new();
        let Some(module) = self.module_at(krate, path) else { return exports };
        if !seen.insert((krate.to_owned(), path.to_vec())) {
            return exports;
        }
        for child in &module.children {
            let child_path = joined(path, child);
            if self.module_at(krate, &child_path).is_some_and(|m| m.public) {
                let target = Target::Module { krate: krate.to_owned(), path: child_path };
                exports.entry(child.clone()).or_default().insert(target);
            }
        }
        for (name, kind) in module.items.iter().filter_map(public_item) {
            exports.entry(name.clone()).or_default().insert(item(krate, path, &name, kind));
        }
        if path.is_empty() {
            exports.extend(self.exported_macros(krate));
        }
        for import in imports(module).into_iter().filter(|i| i.public) {
            match import.binds {
                Binding::Anonymous => {}
                Binding::Name(name) => {
                    let targets = self.resolve(krate, path, &import.segments, 0);
                    exports.entry(name).or_default().extend(targets);
                }
                Binding::Glob => {
                    for target in self.resolve(krate, path, &import.segments, 0) {
                        if let Target::Module { krate, path } = target {
                            for (name, targets) in self.public_names(&krate, &path, seen) {
                                exports.entry(name).or_default().extend(targets);
                            }
                        }
                    }
                }
            }
        }
        seen.remove(&(krate.to_owned(), path.to_vec()));
        exports
    }

    /// `#[macro_export]` puts a macro of any module at the root.
    fn exported_macros(&self, krate: &str) -> Exports {
        let mut exports = Exports::new();
        for (path, module) in self.crates.get(krate).into_iter().flat_map(|c| &c.modules) {
            for found in &module.items {
                if let Item::Macro(definition) = found
                    && let Some(name) = &definition.ident
                    && definition.attrs.iter().any(|a| a.path().is_ident("macro_export"))
                {
                    let name = name.to_string();
                    let target = item(krate, path, &name, Kind::Macro);
                    exports.entry(name).or_default().insert(target);
                }
            }
        }
        exports
    }

    /// The modules and items that a path of names inside the module `path` refers to.
    pub(crate) fn targets(&self, krate: &str, path: &[String], segments: &[String]) -> BTreeSet<Target> {
        self.resolve(krate, path, segments, 0)
    }

    fn resolve(&self, krate: &str, path: &[String], segments: &[String], depth: usize) -> BTreeSet<Target> {
        let root = |krate: &str| Target::Module { krate: krate.to_owned(), path: Vec::new() };
        let here = Target::Module { krate: krate.to_owned(), path: path.to_vec() };
        let Some((first, rest)) = segments.split_first() else { return BTreeSet::from([here]) };
        let parent = |path: &[String]| path.split_last().map_or(Vec::new(), |(_, p)| p.to_vec());
        let mut current: BTreeSet<Target> = match first.as_str() {
            "crate" => BTreeSet::from([root(krate)]),
            "self" => BTreeSet::from([here]),
            "super" => BTreeSet::from([Target::Module { krate: krate.to_owned(), path: parent(path) }]),
            name => self.in_scope(krate, path, name, !rest.is_empty(), depth),
        };
        if current.is_empty() {
            if !self.crates.contains_key(first.as_str()) {
                return BTreeSet::from([Target::Other(segments.join("::"))]);
            }
            current.insert(root(first));
        }
        for (at, segment) in rest.iter().enumerate() {
            let last = at + 1 == rest.len();
            let mut next = BTreeSet::new();
            for target in current {
                match target {
                    Target::Module { krate, path } if segment == "super" => {
                        next.insert(Target::Module { path: parent(&path), krate });
                    }
                    Target::Module { krate, path } if segment == "self" => {
                        next.insert(Target::Module { krate, path });
                    }
                    Target::Module { krate, path } => {
                        next.extend(self.in_scope(&krate, &path, segment, !last, depth));
                    }
                    Target::Item { name, .. } => {
                        next.insert(Target::Other(format!("{name}::{segment}")));
                    }
                    Target::Other(path) => {
                        next.insert(Target::Other(format!("{path}::{segment}")));
                    }
                }
            }
            current = next;
        }
        current
    }

    /// What `name` refers to inside a module, private items and imports included. `leads_on` says that another segment
    /// follows, so that a child module of this name is the one that is meant.
    fn in_scope(
        &self,
        krate: &str,
        path: &[String],
        name: &str,
        leads_on: bool,
        depth: usize,
    ) -> BTreeSet<Target> {
        let mut found = BTreeSet::new();
        let Some(module) = self.module_at(krate, path).filter(|_| depth < MAX_CHAIN) else { return found };
        if module.children.iter().any(|c| c == name) {
            found.insert(Target::Module { krate: krate.to_owned(), path: joined(path, name) });
            if leads_on {
                return found;
            }
        }
        for (found_name, kind, _) in module.items.iter().filter_map(named_item) {
            if found_name == name {
                found.insert(item(krate, path, name, kind));
            }
        }
        let imports = imports(module);
        for import in &imports {
            if matches!(&import.binds, Binding::Name(bound) if bound == name) {
                found.extend(self.resolve(krate, path, &import.segments, depth + 1));
            }
        }
        if found.is_empty() {
            for import in imports.iter().filter(|i| matches!(i.binds, Binding::Glob)) {
                for target in self.resolve(krate, path, &import.segments, depth + 1) {
                    if let Target::Module { krate, path } = target {
                        found.extend(self.exports(&krate, &path).remove(name).unwrap_or_default());
                    }
                }
            }
        }
        found
    }
}

fn joined(path: &[String], name: &str) -> Vec<String> {
    path.iter().cloned().chain([name.to_owned()]).collect()
}

fn item(krate: &str, path: &[String], name: &str, kind: Kind) -> Target {
    Target::Item { krate: krate.to_owned(), path: path.to_vec(), name: name.to_owned(), kind }
}

/// The name and kind of an item that has both, and whether it is public.
fn named_item(item: &Item) -> Option<(String, Kind, bool)> {
    let (ident, kind, vis) = match item {
        Item::Const(i) => (&i.ident, Kind::Constant, &i.vis),
        Item::Enum(i) => (&i.ident, Kind::Type, &i.vis),
        Item::Fn(i) => (&i.sig.ident, Kind::Function, &i.vis),
        Item::Static(i) => (&i.ident, Kind::Constant, &i.vis),
        Item::Struct(i) => (&i.ident, Kind::Type, &i.vis),
        Item::Trait(i) => (&i.ident, Kind::Trait, &i.vis),
        Item::TraitAlias(i) => (&i.ident, Kind::Trait, &i.vis),
        Item::Type(i) => (&i.ident, Kind::Type, &i.vis),
        Item::Union(i) => (&i.ident, Kind::Type, &i.vis),
        _ => return None,
    };
    Some((ident.to_string(), kind, is_public(vis)))
}

fn public_item(item: &Item) -> Option<(String, Kind)> {
    named_item(item).filter(|(_, _, public)| *public).map(|(name, kind, _)| (name, kind))
}

/// Whether the visibility is `pub` without a restriction.
pub(crate) fn is_public(vis: &Visibility) -> bool {
    matches!(vis, Visibility::Public(_))
}

/// The names that the `use` declarations of a module bring into scope.
fn imports(module: &Module) -> Vec<Import> {
    let declarations = module.items.iter().filter_map(|item| match item {
        Item::Use(declaration) => Some(declaration),
        _ => None,
    });
    declarations.flat_map(imports_of).collect()
}

/// The names that one declaration brings into scope.
pub(crate) fn imports_of(declaration: &syn::ItemUse) -> Vec<Import> {
    let mut found = Vec::new();
    flatten(&declaration.tree, &mut Vec::new(), is_public(&declaration.vis), &mut found);
    found
}

fn flatten(tree: &UseTree, prefix: &mut Vec<String>, public: bool, found: &mut Vec<Import>) {
    let mut add = |segments: Vec<String>, binds, span: Span| {
        found.push(Import { segments, binds, public, line: span.start().line });
    };
    match tree {
        UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            flatten(&path.tree, prefix, public, found);
            prefix.pop();
        }
        UseTree::Group(group) => {
            for part in &group.items {
                flatten(part, prefix, public, found);
            }
        }
        UseTree::Glob(glob) => add(prefix.clone(), Binding::Glob, glob.star_token.spans[0]),
        UseTree::Name(name) if name.ident == "self" => {
            if let Some(last) = prefix.last().cloned() {
                add(prefix.clone(), Binding::Name(last), name.ident.span());
            }
        }
        UseTree::Name(name) => {
            let text = name.ident.to_string();
            add(joined(prefix, &text), Binding::Name(text), name.ident.span());
        }
        UseTree::Rename(rename) => {
            let segments = if rename.ident == "self" {
                prefix.clone()
            } else {
                joined(prefix, &rename.ident.to_string())
            };
            let new = rename.rename.to_string();
            let binds = if new == "_" { Binding::Anonymous } else { Binding::Name(new) };
            add(segments, binds, rename.ident.span());
        }
    }
}
