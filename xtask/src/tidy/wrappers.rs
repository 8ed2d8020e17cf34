//! The rule that an implementation which wraps another one forwards every method.
//!
//! A method with a default that a wrapper lacks compiles, and then answers for the wrapper instead of the wrapped value.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::Visit;
use syn::{ExprMethodCall, ImplItem, ImplItemFn, Item, ItemImpl, TraitItem};

use super::Finding;
use crate::syntax::{Crate, is_test_only, type_name};

/// The traits with defaults, and the method by which a wrapper is recognized: it calls the same method of another value.
const TRAITS: &[(&str, &str)] = &[("AgentTool", "execute"), ("StreamProvider", "stream")];

/// Reports the wrappers that lack methods of their trait.
pub(super) fn forward_all(crates: &[Crate], findings: &mut Vec<Finding>) {
    for (name, recognized) in TRAITS {
        let methods = methods_of(crates, name);
        for (file, block) in impls_of(crates, name) {
            let own: BTreeMap<String, &ImplItemFn> = functions(block);
            if !own.get(*recognized).is_some_and(|function| calls(function, recognized)) {
                continue;
            }
            let missing: Vec<&str> =
                methods.iter().filter(|method| !own.contains_key(*method)).map(String::as_str).collect();
            if !missing.is_empty() {
                let wrapper = type_name(&block.self_ty).unwrap_or_default();
                let text =
                    format!("`{wrapper}` wraps another `{name}` and does not forward {}", missing.join(", "));
                findings.push(Finding::error("wrappers", file, block.impl_token.span.start().line, text));
            }
        }
    }
}

/// The methods that a trait declares.
fn methods_of(crates: &[Crate], name: &str) -> BTreeSet<String> {
    let items = crates.iter().flat_map(|krate| krate.modules.values()).flat_map(|module| &module.items);
    let traits = items.filter_map(|item| match item {
        Item::Trait(item) if item.ident == name => Some(item),
        _ => None,
    });
    let members = traits.flat_map(|item| &item.items);
    members
        .filter_map(|member| match member {
            TraitItem::Fn(function) => Some(function.sig.ident.to_string()),
            _ => None,
        })
        .collect()
}

fn impls_of<'a>(crates: &'a [Crate], name: &str) -> impl Iterator<Item = (&'a str, &'a ItemImpl)> {
    let modules = crates.iter().flat_map(|krate| krate.modules.values());
    let items = modules.flat_map(|module| module.items.iter().map(|item| (module.file.as_str(), item)));
    items.filter_map(move |(file, item)| match item {
        Item::Impl(block) if !is_test_only(&block.attrs) => {
            let (path, _) = block.trait_.as_ref()?;
            (path.segments.last()?.ident == name).then_some((file, block))
        }
        _ => None,
    })
}

fn functions(block: &ItemImpl) -> BTreeMap<String, &ImplItemFn> {
    let functions = block.items.iter().filter_map(|item| match item {
        ImplItem::Fn(function) => Some((function.sig.ident.to_string(), function)),
        _ => None,
    });
    functions.collect()
}

/// Whether a function calls a method of this name.
fn calls(function: &ImplItemFn, name: &str) -> bool {
    struct Calls<'a>(&'a str, bool);
    impl<'ast> Visit<'ast> for Calls<'_> {
        fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
            self.1 |= call.method == self.0;
            syn::visit::visit_expr_method_call(self, call);
        }
    }
    let mut found = Calls(name, false);
    found.visit_block(&function.block);
    found.1
}
