//! The syntax tree of a crate: its modules with their parsed items, read from the source files without a compiler.
//!
//! Features are assumed to be enabled; what only tests compile is left out.

pub(crate) mod names;

use std::collections::BTreeMap;

use anyhow::Context as _;
use syn::punctuated::Punctuated;
use syn::{Attribute, Item, Meta, Token, Visibility};

use crate::workspace::SourceFile;

/// A library crate of the workspace.
pub(crate) struct Crate {
    /// The name that `use` declarations have for it, such as `agent_core`.
    pub(crate) name: String,
    /// Its modules by path; the root module has the empty path.
    pub(crate) modules: BTreeMap<Vec<String>, Module>,
}

/// One module without its child modules.
pub(crate) struct Module {
    /// The file that holds it.
    pub(crate) file: String,
    /// Whether its declaration says `pub`.
    pub(crate) public: bool,
    /// Its items. Declarations of child modules are not among them.
    pub(crate) items: Vec<Item>,
    /// The names of its child modules.
    pub(crate) children: Vec<String>,
}

impl Crate {
    /// Reads the library in `folder`, for example `crates/agent-core`, beginning at its `src/lib.rs`.
    pub(crate) fn read(folder: &str, files: &[SourceFile]) -> anyhow::Result<Self> {
        let texts: BTreeMap<&str, &str> = files.iter().map(|f| (f.path.as_str(), f.text.as_str())).collect();
        let name = folder.rsplit('/').next().unwrap_or(folder).replace('-', "_");
        let mut modules = BTreeMap::new();
        let root = format!("{folder}/src/lib.rs");
        let text = texts.get(root.as_str()).with_context(|| format!("{root} is missing"))?;
        let mut reader = Reader { texts: &texts, modules: &mut modules };
        reader.module(Vec::new(), &root, &format!("{folder}/src"), true, parse(&root, text)?)?;
        Ok(Self { name, modules })
    }

    /// The root module's children: the top-level modules.
    pub(crate) fn top_level(&self) -> &[String] {
        self.modules.get(&Vec::new()).map_or(&[], |root| &root.children)
    }
}

/// The library crates in `crates/`, sorted by folder.
pub(crate) fn libraries(files: &[SourceFile]) -> anyhow::Result<Vec<Crate>> {
    let folders: Vec<&str> = files
        .iter()
        .filter_map(|f| f.path.strip_suffix("/src/lib.rs"))
        .filter(|folder| folder.starts_with("crates/"))
        .collect();
    folders.into_iter().map(|folder| Crate::read(folder, files)).collect()
}

struct Reader<'a> {
    texts: &'a BTreeMap<&'a str, &'a str>,
    modules: &'a mut BTreeMap<Vec<String>, Module>,
}

impl Reader<'_> {
    /// Adds a module and its descendants. `folder` is where the files of its children are.
    fn module(
        &mut self,
        path: Vec<String>,
        file: &str,
        folder: &str,
        public: bool,
        items: Vec<Item>,
    ) -> anyhow::Result<()> {
        let mut own = Vec::new();
        let mut children = Vec::new();
        for item in items {
            if is_test_only(attributes(&item)) {
                continue;
            }
            let Item::Mod(child) = item else {
                own.push(item);
                continue;
            };
            let name = child.ident.to_string();
            let child_path: Vec<String> = path.iter().cloned().chain([name.clone()]).collect();
            let child_folder = format!("{folder}/{name}");
            let child_public = matches!(child.vis, Visibility::Public(_));
            if let Some((_, items)) = child.content {
                self.module(child_path, file, &child_folder, child_public, items)?;
            } else {
                let candidates = [format!("{child_folder}.rs"), format!("{child_folder}/mod.rs")];
                let found = candidates.iter().find_map(|c| Some((c, *self.texts.get(c.as_str())?)));
                let (child_file, text) = found.with_context(|| {
                    format!("{file} declares `mod {name}`, but {} is missing", candidates[0])
                })?;
                self.module(child_path, child_file, &child_folder, child_public, parse(child_file, text)?)?;
            }
            children.push(name);
        }
        self.modules.insert(path, Module { file: file.to_owned(), public, items: own, children });
        Ok(())
    }
}

/// The items of a file, or none if the file as a whole is compiled for tests only.
fn parse(path: &str, text: &str) -> anyhow::Result<Vec<Item>> {
    let file = syn::parse_file(text).with_context(|| format!("{path} cannot be parsed"))?;
    Ok(if is_test_only(&file.attrs) { Vec::new() } else { file.items })
}

/// Whether one of the attributes is a `cfg` that only tests or documentation tests satisfy.
pub(crate) fn is_test_only(attributes: &[Attribute]) -> bool {
    attributes
        .iter()
        .filter(|a| a.path().is_ident("cfg"))
        .any(|a| a.parse_args::<Meta>().is_ok_and(|meta| needs_test(&meta)))
}

fn needs_test(meta: &Meta) -> bool {
    match meta {
        Meta::Path(path) => path.is_ident("test") || path.is_ident("doctest"),
        Meta::List(list) => {
            let Ok(parts) = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated) else {
                return false;
            };
            if list.path.is_ident("all") {
                parts.iter().any(needs_test)
            } else {
                list.path.is_ident("any") && !parts.is_empty() && parts.iter().all(needs_test)
            }
        }
        Meta::NameValue(_) => false,
    }
}

/// The attributes of an item; none for syntax that syn does not know.
pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(i) => &i.attrs,
        Item::Enum(i) => &i.attrs,
        Item::ExternCrate(i) => &i.attrs,
        Item::Fn(i) => &i.attrs,
        Item::ForeignMod(i) => &i.attrs,
        Item::Impl(i) => &i.attrs,
        Item::Macro(i) => &i.attrs,
        Item::Mod(i) => &i.attrs,
        Item::Static(i) => &i.attrs,
        Item::Struct(i) => &i.attrs,
        Item::Trait(i) => &i.attrs,
        Item::TraitAlias(i) => &i.attrs,
        Item::Type(i) => &i.attrs,
        Item::Union(i) => &i.attrs,
        Item::Use(i) => &i.attrs,
        _ => &[],
    }
}

/// The last segment of a type's path, such as `BasicAgent` of `super::BasicAgent<T>`.
pub(crate) fn type_name(ty: &syn::Type) -> Option<String> {
    match ty {
        syn::Type::Path(path) => path.path.segments.last().map(|s| s.ident.to_string()),
        syn::Type::Group(group) => type_name(&group.elem),
        syn::Type::Paren(paren) => type_name(&paren.elem),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
