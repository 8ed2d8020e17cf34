//! Skills of the Agent Skills standard (<https://agentskills.io>): folders with a `SKILL.md` that describes a capability.
//!
//! The model receives the names and descriptions of the skills in the system prompt. It reads the instructions of a skill
//! on demand, with the tool `skill` ([`SkillSet::tool`]) or, if it can read the folder, with a file tool. If two skills
//! have the same name, the one from the later folder is used, and a note reports it. A skill that cannot be used also
//! becomes a note; the others are still loaded.
//!
//! ```
//! use agent_tools::skills::SkillSet;
//! # let home = tempfile::tempdir()?;
//! # std::fs::create_dir(home.path().join("release"))?;
//! # std::fs::write(home.path().join("release/SKILL.md"), "---\nname: release\ndescription: Makes a release.\n---\nTag it.")?;
//! let skills = SkillSet::load([home.path(), "/no/such/folder".as_ref()]);
//! assert_eq!(skills.get("release").map(|s| s.description()), Some("Makes a release."));
//! assert!(skills.notes().is_empty());
//! assert!(skills.format_for_prompt().contains("<name>release</name>"));
//! # Ok::<(), std::io::Error>(())
//! ```

mod load;
mod tool;

#[cfg(test)]
mod tests;

use agent_core::compat::SeedVerbs as _;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_core::{AgentTool, BasicAgent};

use crate::bounded::BoundedFolder;
use crate::dir::Identity;

pub use load::{FrontMatter, SkillError, SkillNote, parse_frontmatter};

/// The name of the file that describes a skill.
pub const SKILL_FILE: &str = "SKILL.md";

/// The maximum size of a `SKILL.md`, in bytes.
pub const MAX_SKILL_BYTES: u64 = 1 << 20;

/// The maximum number of skills that one call loads.
pub const MAX_SKILLS: usize = 128;

/// The maximum size of the front matter of a `SKILL.md`, in bytes: 16 KiB.
pub const MAX_FRONT_MATTER_BYTES: usize = 16 << 10;

/// The maximum size of the front matter of all skills that one call loads, in bytes: 512 KiB.
pub const MAX_TOTAL_BYTES: usize = 512 << 10;

/// A skill that was loaded.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Skill {
    matter: FrontMatter,
    /// The real path of the `SKILL.md`.
    location: PathBuf,
    /// The folder of the `SKILL.md` when it was loaded. Another folder at the same path is not the skill.
    folder: Identity,
    /// The origin, as the caller named it.
    source: String,
}

impl Skill {
    /// Returns the name of the skill.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.matter.name
    }

    /// Returns what the skill does and when to use it.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.matter.description
    }

    /// Returns the path of the `SKILL.md`.
    #[must_use]
    pub fn location(&self) -> &Path {
        &self.location
    }

    /// Returns the origin: the folder, or the name that was passed to [`SkillSet::load_dir`].
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns all fields of the front matter.
    #[must_use]
    pub fn front_matter(&self) -> &FrontMatter {
        &self.matter
    }
}

/// A set of skills, ordered by name, with the notes about problems that were found while loading.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SkillSet {
    skills: BTreeMap<String, Skill>,
    notes: Vec<SkillNote>,
}

impl SkillSet {
    /// Loads the skills of these folders, at most [`MAX_SKILLS`]. Folders that do not exist are skipped; other problems become
    /// notes. The path of a folder can lead through symlinks; a symlink below it is not followed. Blocks.
    #[must_use]
    pub fn load<P: AsRef<Path>>(folders: impl IntoIterator<Item = P>) -> Self {
        let mut notes = Vec::new();
        let mut opened = Vec::new();
        for folder in folders {
            match BoundedFolder::open(folder.as_ref()) {
                Ok(folder) => opened.push(folder),
                Err(error) if error.is_not_found() => {}
                Err(error) => notes.push(SkillNote::new(folder.as_ref(), error.to_string())),
            }
        }
        let mut all = Self::load_folders(&opened);
        all.notes.splice(..0, notes);
        all
    }

    /// Loads the skills of open folders as [`load`](Self::load) does. Use it for a folder below one that others can
    /// change, which [`BoundedFolder::folder`] opens without following a symlink. Blocks.
    #[must_use]
    pub fn load_folders<'a>(folders: impl IntoIterator<Item = &'a BoundedFolder>) -> Self {
        let mut all = Self::default();
        let mut left = load::Allowance::default();
        for folder in folders {
            match load::folder(folder, &folder.path().display().to_string(), &mut left) {
                Ok(found) => all.merge(found),
                Err(error) => all.notes.push(SkillNote::new(folder.path(), error.to_string())),
            }
        }
        all
    }

    /// Loads the skills of one folder, with `source` as their origin. A skill that cannot be used becomes a note. Blocks.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read.
    pub fn load_dir(folder: impl AsRef<Path>, source: impl Into<String>) -> Result<Self, SkillError> {
        load::folder(&BoundedFolder::open(folder)?, &source.into(), &mut load::Allowance::default())
    }

    /// Adds the skills of `other`. They replace skills with the same name, and a note reports each replacement.
    pub fn merge(&mut self, other: Self) {
        self.notes.extend(other.notes);
        for (name, skill) in other.skills {
            if let Some(old) = self.skills.get(&name).filter(|old| old.location != skill.location) {
                let text = format!("the skill {name:?} of {} is used instead", skill.location.display());
                self.notes.push(SkillNote::new(&old.location, text));
            }
            self.skills.insert(name, skill);
        }
    }

    /// Returns the skill with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Skill> {
        self.skills.get(name)
    }

    /// Returns all skills, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = &Skill> {
        self.skills.values()
    }

    /// Returns the number of skills.
    #[must_use]
    pub fn len(&self) -> usize {
        self.skills.len()
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.skills.is_empty()
    }

    /// Returns the notes: skills that cannot be used, fields that do not conform to the standard, and duplicate names.
    #[must_use]
    pub fn notes(&self) -> &[SkillNote] {
        &self.notes
    }

    /// Returns the block for the system prompt. It is empty if the model may not use any of the skills.
    #[must_use]
    pub fn format_for_prompt(&self) -> String {
        prompt_block(self)
    }

    /// Returns the tool with which the model reads a skill and the files in its folder, also outside of the workspace.
    #[must_use]
    pub fn tool(&self) -> Arc<dyn AgentTool> {
        Arc::new(tool::SkillTool::new(self.clone()))
    }
}

/// Adds skills to an agent.
pub trait WithSkills: Sized {
    /// Appends the skills to the system prompt and adds the tool `skill` to read them. An empty set changes nothing. Call it
    /// once, with sets joined by [`SkillSet::merge`]: a second tool `skill` makes a run fail with
    /// [`AgentError::DuplicateTool`](agent_core::AgentError::DuplicateTool).
    #[must_use]
    fn with_skills(self, skills: &SkillSet) -> Self;
}

impl WithSkills for BasicAgent {
    fn with_skills(self, skills: &SkillSet) -> Self {
        let block = skills.format_for_prompt();
        if block.is_empty() {
            return self;
        }
        let prompt = self.system_prompt();
        let prompt = if prompt.is_empty() { block } else { format!("{prompt}\n\n{block}") };
        self.with_system_prompt(prompt).with_tool(skills.tool())
    }
}

/// Returns the block for the system prompt, ordered by name. Skills with `disable-model-invocation` are not in it.
fn prompt_block(skills: &SkillSet) -> String {
    let mut visible = skills.iter().filter(|s| !s.front_matter().disable_model_invocation).peekable();
    if visible.peek().is_none() {
        return String::new();
    }
    let mut out = String::from("<available_skills>\n");
    for skill in visible {
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

/// Escapes text for XML. Control characters, which XML does not allow, become spaces.
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
