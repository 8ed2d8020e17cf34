//! The rule that the methods of one type are found in few places.

use std::collections::{BTreeMap, BTreeSet};

use syn::Item;

use super::Finding;
use crate::syntax::{Crate, is_test_only, type_name};

/// The most files that hold inherent impl blocks of one type.
const MAX_FILES: usize = 4;

/// Reports the types whose inherent impl blocks are in too many files. An impl block belongs to the nearest type of its name.
pub(super) fn in_few_files(crates: &[Crate], findings: &mut Vec<Finding>) {
    for krate in crates {
        let mut homes: BTreeMap<&str, BTreeSet<&Vec<String>>> = BTreeMap::new();
        let names: Vec<(String, &Vec<String>)> = definitions(krate);
        for (name, path) in &names {
            homes.entry(name).or_default().insert(path);
        }
        let mut files: BTreeMap<(String, Vec<String>), BTreeSet<&str>> = BTreeMap::new();
        for (path, module) in &krate.modules {
            for item in &module.items {
                let Item::Impl(block) = item else { continue };
                if block.trait_.is_some() || is_test_only(&block.attrs) {
                    continue;
                }
                let Some(name) = type_name(&block.self_ty) else { continue };
                let Some(home) = homes.get(name.as_str()).and_then(|all| nearest(path, all)) else {
                    continue;
                };
                files.entry((name, home.clone())).or_default().insert(&module.file);
            }
        }
        for ((name, home), files) in files.iter().filter(|(_, files)| files.len() > MAX_FILES) {
            let place = krate.modules.get(home).map_or("", |m| m.file.as_str());
            let list: Vec<&str> = files.iter().copied().collect();
            let text = format!(
                "the inherent impl blocks of `{name}` are in {} files, more than {MAX_FILES}: {}",
                files.len(),
                list.join(", ")
            );
            findings.push(Finding::error("impl-files", place, 0, text));
        }
    }
}

/// The types that a crate defines, each with the path of its module.
fn definitions(krate: &Crate) -> Vec<(String, &Vec<String>)> {
    let mut found = Vec::new();
    for (path, module) in &krate.modules {
        found.extend(module.items.iter().filter_map(|item| match item {
            Item::Struct(i) => Some((i.ident.to_string(), path)),
            Item::Enum(i) => Some((i.ident.to_string(), path)),
            Item::Union(i) => Some((i.ident.to_string(), path)),
            _ => None,
        }));
    }
    found
}

/// Of several modules that define a type of one name, the one that shares the longest beginning with `path`.
fn nearest<'a>(path: &[String], homes: &BTreeSet<&'a Vec<String>>) -> Option<&'a Vec<String>> {
    let shared = |home: &[String]| home.iter().zip(path).take_while(|(a, b)| a == b).count();
    homes.iter().copied().max_by_key(|home| (shared(home), std::cmp::Reverse(home.len())))
}
