//! Loads skills from folders.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::dir::Dir;

use super::{MAX_SKILL_BYTES, MAX_SKILLS, SKILL_FILE, Skill, SkillSet};

/// The maximum length of a name, in characters.
const MAX_NAME: usize = 64;

/// The maximum length of a description, in characters.
const MAX_DESCRIPTION: usize = 1_024;

/// The maximum length of a compatibility note, in characters.
const MAX_COMPATIBILITY: usize = 500;

/// The maximum size of the front matter, in bytes. It also limits what YAML aliases can expand to.
const MAX_BYTES: usize = 64 << 10;

/// The front matter of a `SKILL.md`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[non_exhaustive]
pub struct FrontMatter {
    /// The name: lower-case letters, digits and single hyphens, at most 64 characters, the same as that of the folder.
    pub name: String,
    /// What the skill does and when to use it, at most 1,024 characters.
    pub description: String,
    /// The license of the skill.
    pub license: Option<String>,
    /// The requirements of the skill, at most 500 characters.
    pub compatibility: Option<String>,
    /// The tools that the skill uses, in the syntax of the standard. It does not grant any permission.
    pub allowed_tools: Option<String>,
    /// Whether the skill is hidden from the model.
    pub disable_model_invocation: bool,
    /// Further facts from the author.
    pub metadata: BTreeMap<String, serde_json::Value>,
}

/// Parses the front matter of a `SKILL.md`.
///
/// # Errors
/// Returns an error if the text does not begin with a block between two lines of `---`, if the block is not a YAML
/// mapping, or if `name` or `description` is missing or blank.
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

/// Splits a `SKILL.md` into the front matter and the instructions.
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

/// Returns the deviations from the standard that do not prevent the use of the skill.
fn oddities(matter: &FrontMatter, folder: Option<&str>) -> Vec<String> {
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

/// The reason why a skill cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SkillError {
    /// The file does not begin with a block between two lines of `---`, or the block is not a YAML mapping.
    #[error("invalid front matter: {0}")]
    InvalidFrontmatter(String),
    /// A required field is missing or empty.
    #[error("the front matter lacks the field {0:?}")]
    MissingField(&'static str),
    /// The file is too large.
    #[error("the file is larger than {limit} bytes")]
    TooLarge {
        /// The maximum size in bytes.
        limit: u64,
    },
    /// A file or folder could not be read.
    #[error("cannot read {path}: {source}", path = path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
}

impl SkillError {
    pub(super) fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }
}

/// A note about a problem with a skill, for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillNote {
    /// The file or folder.
    pub path: PathBuf,
    /// The text of the note.
    pub text: String,
}

impl SkillNote {
    pub(super) fn new(path: &Path, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), text: text.into() }
    }
}

impl fmt::Display for SkillNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.text)
    }
}

pub(super) fn folder(folder: &Path, source: &str) -> Result<SkillSet, SkillError> {
    let mut set = SkillSet::default();
    let entries = fs::read_dir(folder).map_err(|e| SkillError::io(folder, e))?;
    let mut names = BTreeSet::new();
    for entry in entries {
        let entry = entry.map_err(|e| SkillError::io(folder, e))?;
        names.insert(entry.path());
        if names.len() > MAX_SKILLS {
            let text = format!("it holds more than {MAX_SKILLS} entries; the others are passed over");
            set.notes.push(SkillNote::new(folder, text));
            break;
        }
    }
    let mut seen = BTreeSet::new();
    for path in names {
        let file = path.join(SKILL_FILE);
        // A folder without a skill is not an error. Reading something other than a regular file, such as a pipe, could block.
        if !fs::metadata(&file).is_ok_and(|m| m.is_file()) {
            continue;
        }
        match skill(&file, source, &mut set.notes) {
            Ok(skill) => {
                // A symlink may lead to the same skill.
                if seen.insert(skill.location.clone()) {
                    let mut one = SkillSet::default();
                    one.skills.insert(skill.name().to_owned(), skill);
                    set.merge(one);
                }
            }
            Err(error) => set.notes.push(SkillNote::new(&file, error.to_string())),
        }
    }
    Ok(set)
}

fn skill(file: &Path, source: &str, notes: &mut Vec<SkillNote>) -> Result<Skill, SkillError> {
    let io = |e| SkillError::io(file, e);
    // Links are resolved once, when the skill is loaded. The folder at the end is the folder of the skill.
    let location = fs::canonicalize(file).map_err(io)?;
    let (system, below) = Dir::whole_system(&location).map_err(io)?;
    let folder = system.open_dir(below.parent().unwrap_or(Path::new(""))).map_err(io)?;
    let name = location.file_name().map(Path::new).unwrap_or(Path::new(SKILL_FILE));
    let matter = parse_frontmatter(&text(&location, folder.open_file(name).map_err(io)?.0)?)?;
    let identity = folder.facts(Path::new("")).map_err(io)?.identity;
    let named = file.parent().and_then(Path::file_name).and_then(|n| n.to_str());
    notes.extend(oddities(&matter, named).into_iter().map(|text| SkillNote::new(file, text)));
    Ok(Skill { matter, location, folder: identity, source: source.to_owned() })
}

/// Reads a text file up to the size limit.
pub(super) fn text(path: &Path, file: fs::File) -> Result<String, SkillError> {
    let mut bytes = Vec::new();
    file.take(MAX_SKILL_BYTES + 1).read_to_end(&mut bytes).map_err(|e| SkillError::io(path, e))?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX_SKILL_BYTES {
        return Err(SkillError::TooLarge { limit: MAX_SKILL_BYTES });
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
