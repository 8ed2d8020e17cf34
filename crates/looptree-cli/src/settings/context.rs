//! The instructions of a project for the agent: AGENTS.md and skills.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use etcetera::BaseStrategy as _;
use looptree::tools::skills::SkillSet;

use super::{Settings, project_folders};

/// The most that is taken from one file with instructions.
const MAX_BYTES: usize = 64 << 10;

/// The name of a file with instructions for agents.
const FILE: &str = "AGENTS.md";

/// Instructions from files, and the skills.
#[derive(Debug, Default)]
pub(crate) struct Instructions {
    /// The files with instructions, the most general one first.
    pub(crate) files: Vec<PathBuf>,
    text: String,
    pub(crate) skills: SkillSet,
    /// What could not be used.
    pub(crate) notes: Vec<String>,
}

impl Instructions {
    /// Reads AGENTS.md of the user and the project, and the skills of both.
    pub(crate) fn read(settings: &Settings, root: &Path) -> Result<Self> {
        let mut this = Self::default();
        let platform = etcetera::base_strategy::choose_native_strategy().ok();
        let user = platform.map(|platform| platform.config_dir().join("looptree"));
        let mut files: Vec<PathBuf> = user.iter().map(|folder| folder.join(FILE)).collect();
        let mut skills: Vec<PathBuf> = user.iter().map(|folder| folder.join("skills")).collect();
        skills.extend(settings.skills.value.clone().unwrap_or_default());
        if settings.project_context.value.unwrap_or(true) {
            let folders = project_folders(root);
            // A link out of the project could send any file of the user to the vendor of the model.
            let top = folders.folders.last().and_then(|top| top.canonicalize().ok());
            let inside = |path: &PathBuf| {
                path.canonicalize().is_ok_and(|real| top.as_ref().is_some_and(|top| real.starts_with(top)))
            };
            let of_project = |name: &str| folders.named(name).rev().filter(inside).collect::<Vec<_>>();
            if let Some(foreign) = &folders.foreign {
                this.notes.push(format!(
                    "ignored: the repository above {}, because others can write to this folder; chmod go-w makes it yours",
                    foreign.display()
                ));
            }
            files.extend(of_project(FILE));
            skills.extend(of_project(".looptree/skills"));
        }
        for file in files.into_iter().filter(|file| file.is_file()) {
            let bytes = std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
            let mut text = String::from_utf8_lossy(&bytes).into_owned();
            if text.len() > MAX_BYTES {
                let end = (0..=MAX_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
                text.truncate(end);
                this.notes.push(format!(
                    "{} has more than {MAX_BYTES} bytes; the rest is left out",
                    file.display()
                ));
            }
            this.text.push_str(&format!("\n\n# Instructions from {}\n\n{}", file.display(), text.trim()));
            this.files.push(file);
        }
        this.skills = SkillSet::load(skills.into_iter().filter(|folder| folder.is_dir()));
        for note in this.skills.notes() {
            this.notes.push(format!("skills: {note}"));
        }
        Ok(this)
    }

    /// Returns a system prompt with the instructions at its end.
    pub(crate) fn after(&self, prompt: &str) -> String {
        format!("{prompt}{}", self.text)
    }
}
