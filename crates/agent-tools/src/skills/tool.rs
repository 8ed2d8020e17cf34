//! `skill`: reads a skill and the files in its folder.

use std::path::{Component, Path, PathBuf};

use agent_core::{Effects, Tool, ToolContext, ToolError, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{SKILL_FILE, Skill, SkillSet, load};

/// The maximum number of files of a skill that are listed.
const MAX_LISTED: usize = 100;

/// The `skill` tool. It reads only files in the folders of the skills.
pub(super) struct SkillTool {
    skills: SkillSet,
}

/// The arguments of `skill`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = crate::arguments::plain)]
pub(super) struct SkillArgs {
    /// The name of the skill.
    name: String,
    /// A file of the skill, such as references/api.md; without it, the instructions.
    file: Option<String>,
}

impl SkillTool {
    pub(super) fn new(skills: SkillSet) -> Self {
        Self { skills }
    }

    fn skill(&self, name: &str) -> Result<&Skill, ToolError> {
        self.skills.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.skills.iter().map(Skill::name).collect();
            ToolError::InvalidArgs(format!("there is no skill {name:?}; there are: {}", known.join(", ")))
        })
    }
}

impl Tool for SkillTool {
    const NAME: &'static str = "skill";
    type Args = SkillArgs;
    type Output = ToolResult;

    fn description(&self) -> &str {
        "Reads the instructions of one of the available skills, or a file that belongs to it. Read a skill before you use it."
    }

    fn effects(&self, _: &SkillArgs) -> Effects {
        Effects::ReadOnly
    }

    async fn call(&self, args: SkillArgs, ctx: &ToolContext) -> Result<ToolResult, ToolError> {
        ctx.check_cancelled()?;
        let skill = self.skill(&args.name)?.clone();
        let read = tokio::task::spawn_blocking(move || match args.file {
            None => instructions(&skill),
            Some(file) => file_of(&skill, &file),
        });
        read.await?
    }
}

/// Returns the instructions and the list of files.
fn instructions(skill: &Skill) -> Result<ToolResult, ToolError> {
    let content = load::read(skill.location())?;
    let (_, body) = load::split(&content)?;
    let folder = folder(skill);
    let mut files = Vec::new();
    list(folder, Path::new(""), &mut files);
    files.sort();
    let mut text = format!("The folder of this skill is {}.\n", folder.display());
    if !files.is_empty() {
        text.push_str("Its files: ");
        text.push_str(&files.join(", "));
        text.push('\n');
    }
    text.push('\n');
    text.push_str(body.trim());
    Ok(ToolResult::text(text).with_details(json!({"skill": skill.name(), "files": files})))
}

fn folder(skill: &Skill) -> &Path {
    skill.location().parent().unwrap_or(Path::new("/"))
}

/// Lists the files below a folder, at most [`MAX_LISTED`]. Does not follow symlinks.
fn list(root: &Path, below: &Path, files: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(root.join(below)) else { return };
    for entry in entries.flatten() {
        if files.len() >= MAX_LISTED {
            return;
        }
        let path = below.join(entry.file_name());
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => list(root, &path, files),
            Ok(kind) if kind.is_file() && path != Path::new(SKILL_FILE) => {
                files.push(path.display().to_string())
            }
            _ => {}
        }
    }
}

/// Returns the text of a file in the folder of the skill.
fn file_of(skill: &Skill, file: &str) -> Result<ToolResult, ToolError> {
    let outside =
        || ToolError::InvalidArgs(format!("{file:?} is not in the folder of the skill {:?}", skill.name()));
    let path = PathBuf::from(file);
    if !path.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir)) {
        return Err(outside());
    }
    let full = folder(skill).join(&path);
    // A symlink may lead out of the folder.
    let real =
        std::fs::canonicalize(&full).map_err(|e| ToolError::Failed(format!("cannot read {file:?}: {e}")))?;
    if !real.starts_with(folder(skill)) {
        return Err(outside());
    }
    if !std::fs::metadata(&real).is_ok_and(|m| m.is_file()) {
        return Err(ToolError::InvalidArgs(format!("{file:?} is no file")));
    }
    Ok(ToolResult::text(load::read(&real)?))
}
