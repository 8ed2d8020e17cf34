//! The instructions of a project for the agent: AGENTS.md and skills.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use etcetera::BaseStrategy as _;
use looptree::tools::PathError;
use looptree::tools::bounded::{Bounded, BoundedFolder};
use looptree::tools::skills::SkillSet;

use super::folders::{ProjectFolders, project_folders};
use super::{Settings, platform};

/// The maximum number of bytes that are read of one file with instructions: 64 KiB.
const MAX_BYTES: u64 = 64 << 10;

/// The name of a file with instructions for agents.
const FILE: &str = "AGENTS.md";

/// The folder of a project's skills.
const SKILLS: &str = ".looptree/skills";

/// Instructions from files, and the skills.
#[derive(Debug, Clone, Default)]
pub(crate) struct Instructions {
    /// The files with instructions, the most general one first.
    pub(crate) files: Vec<PathBuf>,
    text: String,
    pub(crate) skills: SkillSet,
    /// What could not be used.
    pub(crate) notes: Vec<String>,
}

impl Instructions {
    /// Reads AGENTS.md of the user and the project, and the skills of both, on a thread for blocking work.
    pub(crate) async fn read(settings: &Settings, root: &Path) -> Result<Self> {
        let platform = platform();
        let user = platform.map(|platform| platform.config_dir().join("looptree"));
        let named = settings.skills.value.clone().unwrap_or_default();
        let root = settings.project_context.value.unwrap_or(true).then(|| root.to_owned());
        let read = move || Self::of(user.as_deref(), named, root.as_deref());
        tokio::task::spawn_blocking(read).await.context("reading the instructions failed")
    }

    fn of(user: Option<&Path>, named: Vec<PathBuf>, root: Option<&Path>) -> Self {
        let mut this = Self::default();
        if let Some(user) = user {
            let file = user.join(FILE);
            // The user can keep the own file elsewhere, and link to it.
            this.add(BoundedFolder::read_named(&file, MAX_BYTES), file);
        }
        let own = user.map(|user| user.join("skills")).into_iter().chain(named);
        this.skills = SkillSet::load(own.filter(|folder| folder.is_dir()));
        if let Some(root) = root {
            this.add_project(&project_folders(root));
        }
        this.notes.extend(this.skills.notes().iter().map(|note| format!("skills: {note}")));
        this
    }

    /// Adds what the folders of a project have. No link in them is followed: it could send any file of the user to the vendor of
    /// the model.
    fn add_project(&mut self, project: &ProjectFolders) {
        if let Some(foreign) = &project.foreign {
            self.notes.push(format!(
                "ignored: the repository above {}, because others can write to this folder; chmod go-w makes it yours",
                foreign.display()
            ));
        }
        for file in project.named(FILE).rev() {
            let folder = BoundedFolder::open(file.parent().unwrap_or(&file));
            self.add(folder.and_then(|folder| read_beside(&folder, &file)), file);
        }
        let mut skills = Vec::new();
        for path in project.named(SKILLS).rev() {
            let above = path.ancestors().nth(Path::new(SKILLS).components().count()).unwrap_or(&path);
            match BoundedFolder::open(above).and_then(|folder| folder.folder(SKILLS)) {
                Ok(folder) => skills.push(folder),
                Err(error) if error.is_not_found() => {}
                Err(error) => self.notes.push(format!("skills: {error}")),
            }
        }
        self.skills.merge(SkillSet::load_folders(&skills));
    }

    /// Adds the text of a file, if it exists and can be read.
    fn add(&mut self, read: Result<Bounded, PathError>, file: PathBuf) {
        let read = match read {
            Ok(read) => read,
            Err(error) if error.is_not_found() => return,
            Err(error) => return self.notes.push(error.to_string()),
        };
        if read.truncated {
            self.notes
                .push(format!("{} has more than {MAX_BYTES} bytes; the rest is left out", file.display()));
        }
        let text = read.into_text();
        self.text.push_str(&format!("\n\n# Instructions from {}\n\n{}", file.display(), text.trim()));
        self.files.push(file);
    }

    /// Returns a system prompt with the instructions at its end.
    pub(crate) fn after(&self, prompt: &str) -> String {
        format!("{prompt}{}", self.text)
    }
}

/// Reads the instructions of a folder. They can be a link to a file beside them, such as `CLAUDE.md`, which must be a regular one.
fn read_beside(folder: &BoundedFolder, file: &Path) -> Result<Bounded, PathError> {
    let read = folder.read(FILE, MAX_BYTES);
    let Err(PathError::Link { .. }) = &read else { return read };
    match std::fs::read_link(file) {
        Ok(target) => match target.strip_prefix(".").unwrap_or(&target) {
            name if name.components().count() == 1 && name.extension().is_some_and(|end| end == "md") => {
                folder.read(name, MAX_BYTES)
            }
            _ => read,
        },
        Err(_) => read,
    }
}
