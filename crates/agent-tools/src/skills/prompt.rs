//! What the model is told.

use std::fmt::Write as _;

use super::SkillSet;

/// The block for the system prompt, by name; hidden skills are not in it.
pub(super) fn block(skills: &SkillSet) -> String {
    let mut told = skills.iter().filter(|s| !s.front_matter().disable_model_invocation).peekable();
    if told.peek().is_none() {
        return String::new();
    }
    let mut out = String::from("<available_skills>\n");
    for skill in told {
        let location = skill.location().display().to_string();
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "  <skill>\n    <name>{}</name>\n    <description>{}</description>\n    <location>{}</location>\n  </skill>",
            escaped(skill.name()),
            escaped(skill.description()),
            escaped(&location)
        );
    }
    out.push_str("</available_skills>");
    out
}

/// Text as it may stand in XML. Control characters may not stand there at all.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
