//! `skill`: reading a skill and the files beside it.

use std::path::{Component, Path, PathBuf};

use agent_core::{AgentTool, Effects, ToolContext, ToolError, ToolResult};
use async_trait::async_trait;
use serde_json::{Value, json};

use super::{SKILL_FILE, Skill, SkillSet, front_matter, scan};

/// The most files beside a skill that are listed.
const MAX_LISTED: usize = 100;

/// Reads skills, and nothing outside of their folders.
pub(super) struct SkillTool {
    skills: SkillSet,
}

impl SkillTool {
    pub(super) fn new(skills: SkillSet) -> Self {
        Self { skills }
    }

    fn skill(&self, arguments: &Value) -> Result<&Skill, ToolError> {
        let name = arguments.get("name").and_then(Value::as_str).unwrap_or_default();
        self.skills.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.skills.iter().map(Skill::name).collect();
            ToolError::InvalidArgs(format!("there is no skill {name:?}; there are: {}", known.join(", ")))
        })
    }
}

#[async_trait]
impl AgentTool for SkillTool {
    fn name(&self) -> &'static str {
        "skill"
    }

    fn description(&self) -> &'static str {
        "Reads the instructions of one of the available skills, or a file that belongs to it. Read a skill before you use it."
    }

    fn parameters_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "The skill's name."},
                "file": {"type": "string", "description": "A file of the skill, such as references/api.md; without it, the instructions."},
            },
            "required": ["name"],
            "additionalProperties": false,
        })
    }

    fn effects(&self, _arguments: &Value) -> Effects {
        Effects::ReadOnly
    }

    async fn execute(&self, arguments: Value, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        ctx.check_cancelled()?;
        let skill = self.skill(&arguments)?.clone();
        let file = arguments.get("file").and_then(Value::as_str).map(str::to_owned);
        let read = tokio::task::spawn_blocking(move || match file {
            None => instructions(&skill),
            Some(file) => beside(&skill, &file),
        });
        read.await.map_err(ToolError::failed)?
    }
}

/// The text below the front matter, and which files there are.
fn instructions(skill: &Skill) -> Result<ToolResult, ToolError> {
    let content = scan::read(skill.location()).map_err(ToolError::failed)?;
    let (_, body) = front_matter::split(&content).map_err(ToolError::failed)?;
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

/// Files below a folder, at most [`MAX_LISTED`]; symlinks are not followed.
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

/// A file of the skill.
fn beside(skill: &Skill, file: &str) -> Result<ToolResult, ToolError> {
    let outside =
        || ToolError::InvalidArgs(format!("{file:?} is not in the folder of the skill {:?}", skill.name()));
    let path = PathBuf::from(file);
    if !path.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir)) {
        return Err(outside());
    }
    let full = folder(skill).join(&path);
    // Where it really leads: a symlink may point elsewhere.
    let real =
        std::fs::canonicalize(&full).map_err(|e| ToolError::Failed(format!("cannot read {file:?}: {e}")))?;
    if !real.starts_with(folder(skill)) {
        return Err(outside());
    }
    if !std::fs::metadata(&real).is_ok_and(|m| m.is_file()) {
        return Err(ToolError::InvalidArgs(format!("{file:?} is no file")));
    }
    Ok(ToolResult::text(scan::read(&real).map_err(ToolError::failed)?))
}
