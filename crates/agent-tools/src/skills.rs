//! Skills, as the Agent Skills standard has them (<https://agentskills.io>): folders with a `SKILL.md` that says what it is for.
//!
//! The model is told names and descriptions in the system prompt and asks for the instructions when it wants them, by the tool
//! `skill` ([`SkillSet::tool`]) or, where it may read the folder, by reading the file. Of two skills of one name the one of the later
//! folder wins, with a note. A skill that cannot be used is a note, too, and never the end of the others (D31).
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

mod agent;
mod error;
mod front_matter;
mod prompt;
mod scan;
mod tool;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_core::AgentTool;

pub use agent::WithSkills;
pub use error::{SkillError, SkillNote};
pub use front_matter::{FrontMatter, parse_frontmatter};

/// The file that makes a folder a skill.
pub const SKILL_FILE: &str = "SKILL.md";

/// The most bytes of a `SKILL.md`.
pub const MAX_SKILL_BYTES: u64 = 1 << 20;

/// The most skills of one folder.
pub const MAX_SKILLS: usize = 1_000;

/// One skill.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Skill {
    matter: FrontMatter,
    /// Its `SKILL.md`, where it really is.
    location: PathBuf,
    /// Where it came from, as the caller named it.
    source: String,
}

impl Skill {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.matter.name
    }

    /// What it does and when to use it.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.matter.description
    }

    /// Its `SKILL.md`.
    #[must_use]
    pub fn location(&self) -> &Path {
        &self.location
    }

    /// Where it came from: the folder, or what [`SkillSet::load_dir`] was told.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Everything that its front matter says.
    #[must_use]
    pub fn front_matter(&self) -> &FrontMatter {
        &self.matter
    }
}

/// Skills by name, and what was noted while they were looked for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SkillSet {
    skills: BTreeMap<String, Skill>,
    notes: Vec<SkillNote>,
}

impl SkillSet {
    /// The skills of these folders; folders that are not there are passed over (REQ-109).
    #[must_use]
    pub fn load<P: AsRef<Path>>(folders: impl IntoIterator<Item = P>) -> Self {
        let mut all = Self::default();
        for folder in folders {
            let folder = folder.as_ref();
            match Self::load_dir(folder, folder.display().to_string()) {
                Ok(found) => all.merge(found),
                Err(SkillError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => all.notes.push(SkillNote::new(folder, error.to_string())),
            }
        }
        all
    }

    /// The skills of one folder, noted as coming from `source` (REQ-112).
    ///
    /// # Errors
    /// When the folder cannot be read. A skill in it that cannot be used is a note.
    pub fn load_dir(folder: impl AsRef<Path>, source: impl Into<String>) -> Result<Self, SkillError> {
        scan::folder(folder.as_ref(), &source.into())
    }

    /// Takes in the skills of `other`, which win over those of the same name (REQ-112).
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

    /// The skill of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Skill> {
        self.skills.get(name)
    }

    /// All skills, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Skill> {
        self.skills.values()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.skills.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.skills.is_empty()
    }

    /// What was noted: skills that cannot be used, fields that are not as the standard wants them, names that were there twice.
    #[must_use]
    pub fn notes(&self) -> &[SkillNote] {
        &self.notes
    }

    /// What the model is told; empty when there is no skill that it may use (REQ-111).
    #[must_use]
    pub fn format_for_prompt(&self) -> String {
        prompt::block(self)
    }

    /// The tool by which the model reads a skill and the files beside it, wherever they are.
    #[must_use]
    pub fn tool(&self) -> Arc<dyn AgentTool> {
        Arc::new(tool::SkillTool::new(self.clone()))
    }
}
