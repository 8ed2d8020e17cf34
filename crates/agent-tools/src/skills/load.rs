//! Loads skills from folders.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::de::{DeserializeSeed as _, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::PathError;
use crate::bounded::BoundedFolder;
use crate::dir::Kind;
use crate::yaml::{Budget, Tree, is_affordable};

use super::{
    MAX_FRONT_MATTER_BYTES, MAX_SKILL_BYTES, MAX_SKILLS, MAX_TOTAL_BYTES, SKILL_FILE, Skill, SkillSet,
};

/// The maximum length of a name, in characters.
const MAX_NAME: usize = 64;

/// The maximum length of a description, in characters.
const MAX_DESCRIPTION: usize = 1_024;

/// The maximum length of a compatibility note, in characters.
const MAX_COMPATIBILITY: usize = 500;

/// The maximum number of values in `metadata`, after the aliases of YAML are expanded.
const MAX_METADATA_VALUES: usize = 1_000;

/// The maximum number of bytes in front of the front matter and in the lines around it.
const MARGIN: u64 = 1 << 10;

/// The maximum number of entries of a folder that are examined.
const MAX_ENTRIES: usize = 1_000;

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
    /// Further facts from the author, at most 1,000 values.
    #[serde(deserialize_with = "metadata")]
    pub metadata: BTreeMap<String, Value>,
}

/// Reads `metadata` within a budget, because a short text with aliases can describe many values.
fn metadata<'de, D: Deserializer<'de>>(source: D) -> Result<BTreeMap<String, Value>, D::Error> {
    let mut budget = Budget::new(MAX_METADATA_VALUES, MAX_FRONT_MATTER_BYTES);
    match Tree(&mut budget).deserialize(source)? {
        Value::Object(fields) => Ok(fields.into_iter().collect()),
        Value::Null => Ok(BTreeMap::new()),
        _ => Err(D::Error::custom("metadata is not a mapping")),
    }
}

/// Parses the front matter of a `SKILL.md`.
///
/// # Errors
/// Returns an error if the text does not begin with a block between two lines of `---`, if the block is not a YAML
/// mapping, exceeds [`MAX_FRONT_MATTER_BYTES`] or has more than 32 open brackets, or if `name` or `description` is missing
/// or blank.
pub fn parse_frontmatter(content: &str) -> Result<FrontMatter, SkillError> {
    parse_block(split(content)?.0)
}

fn parse_block(block: &str) -> Result<FrontMatter, SkillError> {
    if !is_affordable(block, 0) {
        return Err(SkillError::InvalidFrontmatter("it has more than 32 open brackets".to_owned()));
    }
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
            return Ok((front, body.get(line.len()..).unwrap_or_default()));
        }
        at += line.len();
        if at > MAX_FRONT_MATTER_BYTES {
            return Err(invalid(&format!("it is longer than {MAX_FRONT_MATTER_BYTES} bytes")));
        }
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
    /// The folders have too many skills, or their front matter is too long together.
    #[error(
        "there are more than {skills} skills, or more than {bytes} bytes of front matter; the others are passed over"
    )]
    TooMany {
        /// The maximum number of skills.
        skills: usize,
        /// The maximum size of all front matter in bytes.
        bytes: usize,
    },
    /// A path is or leads through a symlink, or is not a regular file.
    #[error(transparent)]
    Path(#[from] PathError),
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

/// What may still be loaded.
pub(super) struct Allowance {
    skills: usize,
    bytes: usize,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { skills: MAX_SKILLS, bytes: MAX_TOTAL_BYTES }
    }
}

/// Loads the skills of a folder, as far as `left` allows. Follows no symlink below the folder.
pub(super) fn folder(
    folder: &BoundedFolder,
    source: &str,
    left: &mut Allowance,
) -> Result<SkillSet, SkillError> {
    let mut set = SkillSet::default();
    let (items, is_complete) =
        folder.dir().first_items(Path::new(""), MAX_ENTRIES).map_err(|e| SkillError::io(folder.path(), e))?;
    if !is_complete {
        let text = format!("it has more than {MAX_ENTRIES} entries; the others are passed over");
        set.notes.push(SkillNote::new(folder.path(), text));
    }
    for item in items {
        let path = folder.path().join(&item.name);
        let found = match item.kind {
            Kind::File | Kind::Other => continue,
            Kind::Link => Err(PathError::Link { path: path.display().to_string() }.into()),
            Kind::Folder => {
                folder.folder(&item.name).map_err(SkillError::from).and_then(|own| skill(&own, source, left))
            }
        };
        match found {
            // A folder without a skill is not an error.
            Ok(None) => {}
            Ok(Some((skill, odd))) => {
                let file = skill.location.clone();
                set.notes.extend(odd.into_iter().map(|text| SkillNote::new(&file, text)));
                let mut one = SkillSet::default();
                one.skills.insert(skill.name().to_owned(), skill);
                set.merge(one);
            }
            Err(error @ SkillError::TooMany { .. }) => {
                set.notes.push(SkillNote::new(folder.path(), error.to_string()));
                break;
            }
            Err(error) => set.notes.push(SkillNote::new(&path, error.to_string())),
        }
    }
    Ok(set)
}

/// Returns the skill of a folder with its deviations from the standard; `None` without a `SKILL.md`.
fn skill(
    folder: &BoundedFolder,
    source: &str,
    left: &mut Allowance,
) -> Result<Option<(Skill, Vec<String>)>, SkillError> {
    let location = folder.path().join(SKILL_FILE);
    let io = |e| SkillError::io(&location, e);
    match folder.dir().facts(Path::new(SKILL_FILE)) {
        Ok(facts) if facts.bytes > MAX_SKILL_BYTES => {
            return Err(SkillError::TooLarge { limit: MAX_SKILL_BYTES });
        }
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io(error)),
    }
    let head = folder.read(SKILL_FILE, MAX_FRONT_MATTER_BYTES as u64 + MARGIN)?.into_text();
    let (block, _) = split(&head)?;
    let allowed = left.skills.checked_sub(1).zip(left.bytes.checked_sub(block.len()));
    (left.skills, left.bytes) =
        allowed.ok_or(SkillError::TooMany { skills: MAX_SKILLS, bytes: MAX_TOTAL_BYTES })?;
    let matter = parse_block(block)?;
    let identity = folder.dir().facts(Path::new("")).map_err(io)?.identity;
    let odd = oddities(&matter, folder.path().file_name().and_then(|name| name.to_str()));
    Ok(Some((Skill { matter, location, folder: identity, source: source.to_owned() }, odd)))
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
