//! The block between two lines of `---` at the start of a `SKILL.md`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::SkillError;

/// The longest name, in characters.
const MAX_NAME: usize = 64;

/// The longest description, in characters.
const MAX_DESCRIPTION: usize = 1_024;

/// The longest note on compatibility, in characters.
const MAX_COMPATIBILITY: usize = 500;

/// The most bytes of the block. A YAML text of this size cannot be made into much more.
const MAX_BYTES: usize = 64 << 10;

/// What a front matter says.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[non_exhaustive]
pub struct FrontMatter {
    /// The name: letters, digits and single hyphens, all lower case, at most 64 characters, that of the folder.
    pub name: String,
    /// What it does and when to use it, at most 1,024 characters.
    pub description: String,
    /// Its licence.
    pub license: Option<String>,
    /// What it needs.
    pub compatibility: Option<String>,
    /// The tools that it is meant for, as the standard writes them. Nothing is allowed because of it.
    pub allowed_tools: Option<String>,
    /// Whether the model is not to be told of it.
    pub disable_model_invocation: bool,
    /// Whatever else its author noted.
    pub metadata: BTreeMap<String, serde_json::Value>,
}

/// Reads the front matter of a `SKILL.md` (REQ-110).
///
/// # Errors
/// When the text does not begin with a block between two lines of `---`, the block is no YAML mapping, or `name` or
/// `description` is missing or blank.
pub fn parse_frontmatter(content: &str) -> Result<FrontMatter, SkillError> {
    let (block, _) = split(content)?;
    let mut matter: FrontMatter =
        yaml_serde::from_str(block).map_err(|e| SkillError::InvalidFrontmatter(e.to_string()))?;
    for (field, value) in [("name", &mut matter.name), ("description", &mut matter.description)] {
        *value = value.trim().to_owned();
        if value.is_empty() {
            return Err(SkillError::MissingField(field));
        }
    }
    Ok(matter)
}

/// The block, and what stands below it.
pub(super) fn split(content: &str) -> Result<(&str, &str), SkillError> {
    let invalid = |text: &str| SkillError::InvalidFrontmatter(text.to_owned());
    let text = content.trim_start_matches('\u{feff}').trim_start();
    let opened =
        text.strip_prefix("---").ok_or_else(|| invalid("the file does not begin with a line of ---"))?;
    let first = opened.split_once('\n').filter(|(line, _)| line.trim().is_empty());
    let (_, block) = first.ok_or_else(|| invalid("the first line is not just ---"))?;
    let mut at = 0;
    for line in block.split_inclusive('\n') {
        if line.trim_end() == "---" {
            let (front, body) = block.split_at_checked(at).ok_or_else(|| invalid("it has no end"))?;
            if front.len() > MAX_BYTES {
                return Err(invalid("it is too long"));
            }
            return Ok((front, body.get(line.len()..).unwrap_or_default()));
        }
        at += line.len();
    }
    Err(invalid("no line of --- ends it"))
}

/// What is not as the standard wants it, and does not keep the skill from being used.
pub(super) fn oddities(matter: &FrontMatter, folder: Option<&str>) -> Vec<String> {
    let mut odd = Vec::new();
    let name = &matter.name;
    let is_word = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if !is_word || name.starts_with('-') || name.ends_with('-') || name.contains("--") {
        odd.push(format!("the name {name:?} is not of lower-case letters, digits and single hyphens"));
    }
    if folder.is_some_and(|folder| folder != name) {
        odd.push(format!("the name {name:?} is not that of its folder"));
    }
    let long = [
        ("name", Some(name), MAX_NAME),
        ("description", Some(&matter.description), MAX_DESCRIPTION),
        ("compatibility", matter.compatibility.as_ref(), MAX_COMPATIBILITY),
    ];
    for (field, value, max) in long {
        if value.is_some_and(|v| v.chars().count() > max) {
            odd.push(format!("the {field} is longer than {max} characters"));
        }
    }
    odd
}
