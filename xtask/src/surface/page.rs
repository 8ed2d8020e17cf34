//! Writes `docs/surface.md`.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::Surface;

/// The longest line of a list.
const WIDTH: usize = 118;

/// The page as Markdown.
pub(super) fn write(surface: &Surface) -> String {
    let mut page = String::from(
        "# The public surface\n\n\
         `cargo xtask surface` writes this page from the sources, with all features enabled. `cargo xtask ci` fails if the page is out\n\
         of date or a count exceeds its limit. Items that macros generate are not counted.\n\n\
         | what | count | limit |\n|---|---:|---:|\n",
    );
    for (what, count, limit) in surface.figures() {
        let limit = limit.map_or(String::new(), |l| l.to_string());
        let _ = writeln!(page, "| {what} | {count} | {limit} |");
    }
    page.push_str(
        "\n## Public items per crate\n\n\
         An item counts once, however many paths lead to it. Items of a module `compat` are in the last column only.\n\n\
         | crate | items | modules | types | traits | functions | constants | macros | methods of the types | in `compat` |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for (name, i) in &surface.items {
        let _ = writeln!(
            page,
            "| {name} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            i.sum(),
            i.modules,
            i.types,
            i.traits,
            i.functions,
            i.constants,
            i.macros,
            i.methods,
            i.compat
        );
    }
    page.push_str("\n## The root of `looptree`\n");
    list(&mut page, "Modules", &surface.root_modules);
    for (origin, names) in &surface.root {
        list(&mut page, &format!("From `{origin}`"), names);
    }
    page.push_str("\n## The prelude\n");
    list(&mut page, "Names", &surface.prelude);
    list(&mut page, "Traits without a name (`as _`)", &surface.prelude_traits.iter().cloned().collect());
    for (heading, methods) in [
        ("Methods of the agent", &surface.methods),
        ("Methods in `compat`", &surface.compat_methods),
        ("Extension traits of the agent", &surface.extensions),
    ] {
        if !methods.is_empty() {
            let _ = writeln!(page, "\n## {heading}");
        }
        for (owner, names) in methods {
            list(&mut page, &format!("`{owner}` ({})", names.len()), names);
        }
    }
    page.push_str("\n## `AgentLoopConfig`\n");
    list(&mut page, "Public fields", &surface.fields.iter().cloned().collect());
    page
}

/// Appends the names behind a title, wrapped; nothing if there are none.
fn list(page: &mut String, title: &str, names: &BTreeSet<String>) {
    if names.is_empty() {
        return;
    }
    let mut line = format!("{title}:");
    page.push('\n');
    for (at, name) in names.iter().enumerate() {
        let end = if at + 1 == names.len() { '.' } else { ',' };
        let word = format!(" `{name}`{end}");
        if line.len() + word.len() > WIDTH {
            page.push_str(&line);
            page.push('\n');
            word.trim_start().clone_into(&mut line);
        } else {
            line.push_str(&word);
        }
    }
    page.push_str(&line);
    page.push('\n');
}
