use super::*;
use crate::workspace::SourceFile;

/// The libraries of a workspace whose files are given as path (below `crates/`) and text.
fn libraries(files: &[(&str, &str)]) -> Vec<Crate> {
    let files: Vec<SourceFile> = files
        .iter()
        .map(|(path, text)| SourceFile { path: format!("crates/{path}"), text: (*text).to_owned() })
        .collect();
    syntax::libraries(&files).unwrap()
}

/// A workspace in which `core` is the root file of agent-core and `facade` that of looptree, with what `measure` requires.
fn surface(core: &str, facade: &str) -> Surface {
    let core = format!("{core}\npub mod base;");
    let base = "pub struct BasicAgent; impl BasicAgent { pub fn new() {} } pub struct AgentLoopConfig { pub one: u8 }";
    let facade = format!("{facade}\npub use agent_core::base::BasicAgent; ");
    measure(&libraries(&[
        ("agent-core/src/lib.rs", &core),
        ("agent-core/src/base.rs", base),
        ("looptree/src/lib.rs", &facade),
    ]))
    .unwrap()
}

const PRELUDE: &str = "pub mod prelude { pub use agent_core::base::BasicAgent; }";

fn names(set: &BTreeSet<String>) -> Vec<&str> {
    set.iter().map(String::as_str).collect()
}

#[test]
fn a_glob_of_another_crate_brings_its_public_names_and_modules_stay_apart() {
    let core =
        "mod a { pub struct Shown; pub struct Hidden; pub fn f() {} } pub use a::{Shown, f as renamed};
        pub mod open { pub struct Inner; } use a::Hidden; pub(crate) use a::Hidden as Other;
        pub use other_crate::sync::Token; const PRIVATE: u8 = 1; pub const PUBLIC: u8 = 1;";
    let found = surface(core, &format!("pub use agent_core::*; pub use agent_core as core; {PRELUDE}"));
    assert_eq!(names(&found.root["agent_core"]), ["BasicAgent", "PUBLIC", "Shown", "renamed"]);
    assert_eq!(names(&found.root["other_crate"]), ["Token"]);
    assert_eq!(names(&found.root_modules), ["base", "core", "open", "prelude"]);
}

#[test]
fn a_name_that_is_a_module_and_a_function_counts_as_both() {
    let core = "pub mod agent { pub fn agent() {} } pub use agent::agent;";
    let found = surface(core, &format!("pub use agent_core::*; {PRELUDE}"));
    assert_eq!(names(&found.root["agent_core"]), ["BasicAgent", "agent"]);
    assert_eq!(names(&found.root_modules), ["agent", "base", "prelude"]);
}

#[test]
fn chains_cycles_and_paths_through_self_and_super_are_followed() {
    let core = "pub mod a { pub use super::b::*; pub use self::c::C; mod c { pub struct C; } }
        pub mod b { pub use crate::a::*; pub struct B; } pub use a::*;";
    let found = surface(core, &format!("pub use agent_core::{{B, C as D, a::{{self, C}}}}; {PRELUDE}"));
    assert_eq!(names(&found.root["agent_core"]), ["B", "BasicAgent", "C", "D"]);
    assert_eq!(names(&found.root_modules), ["a", "prelude"]);
}

#[test]
fn what_only_tests_compile_is_not_counted() {
    let core = "#[cfg(test)] pub struct Fixture; #[cfg(feature = \"testing\")] pub struct Scripted;
        #[macro_export] macro_rules! shout { () => {} }";
    let found = surface(core, &format!("pub use agent_core::*; {PRELUDE}"));
    assert_eq!(names(&found.root["agent_core"]), ["BasicAgent", "Scripted", "shout"]);
}

#[test]
fn a_prelude_that_hides_names_of_std_is_reported_with_their_home() {
    let facade = "pub mod prelude { pub use agent_core::{Result, Write, f as drop, Fine, Method as _}; pub use x::Vec; }";
    let core = "pub struct Result; pub trait Write {} pub fn f() {} pub struct Fine; pub trait Method {}";
    let found = surface(core, facade);
    let homes: Vec<_> = found.hidden.iter().map(|(name, home)| (name.as_str(), *home)).collect();
    let std = "the prelude of std";
    assert_eq!(homes, [("Result", std), ("Vec", std), ("Write", "std::io"), ("drop", std)]);
    assert_eq!(names(&found.prelude), ["Fine", "Result", "Vec", "Write", "drop"]);
    assert_eq!(found.prelude_traits, ["Method"]);
    assert!(found.exceeded().iter().any(|l| l.contains("`Write` of std::io")), "{:?}", found.exceeded());
}

#[test]
fn inherent_methods_compat_and_extension_traits_are_counted_apart() {
    let core = "use base::BasicAgent; pub struct AgentHandle;
        impl AgentHandle { pub fn abort(&self) {} fn hidden(&self) {} pub(crate) fn inner(&self) {} }
        impl BasicAgent { pub fn prompt(&self) {} #[cfg(test)] pub fn peek(&self) {} }
        pub trait Restore { fn restore(&self); } impl Restore for BasicAgent { fn restore(&self) {} }
        impl Clone for AgentHandle { fn clone(&self) -> Self { AgentHandle } }
        pub mod compat { use crate::base::BasicAgent; pub struct Old; impl BasicAgent { pub fn old_name(&self) {} }
        pub trait Verbs { fn old_verb(&self); } impl Verbs for BasicAgent { fn old_verb(&self) {} } }";
    let found = surface(core, PRELUDE);
    assert_eq!(names(&found.methods["BasicAgent"]), ["new", "prompt"]);
    assert_eq!(names(&found.methods["AgentHandle"]), ["abort"]);
    assert_eq!(names(&found.compat_methods["BasicAgent"]), ["old_name"]);
    assert_eq!(names(&found.compat_methods["Verbs"]), ["old_verb"]);
    assert_eq!(found.extensions.keys().collect::<Vec<_>>(), ["Restore"]);
    assert_eq!(found.items["agent_core"].compat, 3, "the module, the type and the trait in it");
    assert_eq!(found.items["agent_core"].types, 3);
    assert_eq!(found.items["agent_core"].methods, 3);
}

#[test]
fn each_limit_holds_at_its_value_and_fails_one_above() {
    let core = |n: usize| (0..n).map(|i| format!("pub struct S{i};")).collect::<String>();
    // `BasicAgent` is at the root as well.
    let at = surface(&core(MAX_ROOT - 1), &format!("pub use agent_core::*; {PRELUDE}"));
    assert_eq!(at.exceeded(), Vec::<String>::new());
    let above = surface(&core(MAX_ROOT), &format!("pub use agent_core::*; {PRELUDE}"));
    assert!(above.exceeded()[0].contains("51 names at the root"), "{:?}", above.exceeded());

    let prelude = |n: usize| surface(&core(n), "pub mod prelude { pub use agent_core::*; }").exceeded();
    // The module `base` is a name of the prelude too.
    assert_eq!(prelude(MAX_PRELUDE - 1), Vec::<String>::new());
    assert_eq!(prelude(MAX_PRELUDE).len(), 1);

    let methods = |n: usize| {
        let many: String = (0..n).map(|i| format!("pub fn m{i}() {{}}")).collect();
        surface(&format!("pub struct AgentHandle; impl AgentHandle {{ {many} }}"), PRELUDE).exceeded()
    };
    // `BasicAgent::new` counts with them.
    assert_eq!(methods(MAX_METHODS - 1), Vec::<String>::new());
    assert_eq!(methods(MAX_METHODS).len(), 1);
}

#[test]
fn private_fields_of_the_configuration_do_not_count() {
    let files = |fields: &str| {
        let core = format!(
            "pub struct BasicAgent; impl BasicAgent {{ pub fn new() {{}} }} pub struct AgentLoopConfig {{ {fields} }}"
        );
        let facade = "pub use agent_core::BasicAgent; pub mod prelude { pub use agent_core::BasicAgent; }";
        measure(&libraries(&[("agent-core/src/lib.rs", &core), ("looptree/src/lib.rs", facade)])).unwrap()
    };
    let six: String = (0..MAX_FIELDS).map(|i| format!("pub f{i}: u8,")).collect();
    assert_eq!(files(&format!("{six} hidden: u8, pub(crate) inner: u8")).exceeded(), Vec::<String>::new());
    assert_eq!(files(&format!("{six} pub seventh: u8")).exceeded().len(), 1);
}

#[test]
fn sources_without_the_types_that_are_counted_are_an_error() {
    let crates = libraries(&[("looptree/src/lib.rs", "pub struct BasicAgent; pub mod prelude {}")]);
    assert!(measure(&crates).unwrap_err().to_string().contains("AgentLoopConfig"));
}

#[test]
fn the_page_has_the_counts_and_wraps_its_lists() {
    let core: String = (0..40).map(|i| format!("pub struct Name{i};")).collect();
    let page = page::write(&surface(&core, &format!("pub use agent_core::*; {PRELUDE}")));
    assert!(page.contains("| names at the root of `looptree` besides modules | 41 | 50 |"), "{page}");
    assert!(page.contains("`BasicAgent` (1): `new`."), "{page}");
    let lists = page.lines().filter(|l| l.contains("`Name"));
    assert!(lists.clone().count() > 2 && lists.clone().all(|l| l.len() <= 118), "{page}");
}
