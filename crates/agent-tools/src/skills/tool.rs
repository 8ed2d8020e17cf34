//! `skill`: reads a skill and the files in its folder.

use std::path::{Component, Path};

use agent_core::{Effects, Tool, ToolContext, ToolError, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{SKILL_FILE, Skill, SkillSet, load};
use crate::dir::Kind;
use crate::walk::{IgnoreFiles, Walk};
use crate::workspace::{Access, Intent};
use crate::{PathError, Workspace};

/// The maximum number of files of a skill that are listed.
const MAX_LISTED: usize = 100;

/// The maximum number of files and folders that are visited for the list.
const MAX_VISITED: usize = 10_000;

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
        let ctx = ctx.clone();
        let read = tokio::task::spawn_blocking(move || {
            let folder = open(&skill)?;
            match args.file {
                None => instructions(&skill, &folder.access(&ctx)),
                Some(file) => file_of(&skill, &folder.access(&ctx), &file),
            }
        });
        read.await?
    }
}

fn folder(skill: &Skill) -> &Path {
    skill.location().parent().unwrap_or(Path::new("/"))
}

/// Opens the folder of a skill, if it is the one that was loaded.
fn open(skill: &Skill) -> Result<Workspace, ToolError> {
    let workspace = Workspace::open(folder(skill))?;
    let found = workspace.root_dir().and_then(|dir| dir.facts(Path::new("")).ok());
    if workspace.root() == Some(folder(skill)) && found.is_some_and(|facts| facts.identity == skill.folder) {
        return Ok(workspace);
    }
    let text = format!(
        "another folder has replaced the folder of the skill {:?}; load the skills again",
        skill.name()
    );
    Err(ToolError::Failed(text))
}

/// Returns the instructions and the list of files.
fn instructions(skill: &Skill, access: &Access) -> Result<ToolResult, ToolError> {
    let (file, _) = access.locate(SKILL_FILE, Intent::Read)?.open_file()?;
    let content = load::text(skill.location(), file)?;
    let (_, body) = load::split(&content)?;
    let files = files(access)?;
    let mut text = format!("The folder of this skill is {}.\n", folder(skill).display());
    if !files.is_empty() {
        text.push_str("Its files: ");
        text.push_str(&files.join(", "));
        text.push('\n');
    }
    text.push('\n');
    text.push_str(body.trim());
    Ok(ToolResult::text(text).with_details(json!({"skill": skill.name(), "files": files})))
}

/// Lists the files below the folder, at most [`MAX_LISTED`]. Does not follow symlinks.
fn files(access: &Access) -> Result<Vec<String>, ToolError> {
    let folder = access.locate(".", Intent::List)?;
    let walk = Walk::new(folder.dir(), folder.below(), IgnoreFiles::Disregarded);
    let files = walk.take(MAX_VISITED).flatten().filter(|found| found.kind == Kind::File);
    let files = files.filter(|file| file.below != Path::new(SKILL_FILE)).take(MAX_LISTED);
    let mut files: Vec<String> = files.map(|file| file.below.display().to_string()).collect();
    files.sort();
    Ok(files)
}

/// Returns the text of a file in the folder of the skill.
fn file_of(skill: &Skill, access: &Access, file: &str) -> Result<ToolResult, ToolError> {
    let outside =
        || ToolError::InvalidArgs(format!("{file:?} is not in the folder of the skill {:?}", skill.name()));
    if !Path::new(file).components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir)) {
        return Err(outside());
    }
    let opened = access.locate(file, Intent::Read).and_then(|place| place.open_file());
    let (opened, _) = opened.map_err(|error| match error {
        PathError::Outside { .. } => outside(),
        PathError::IsADirectory { .. } | PathError::NotRegular { .. } => {
            ToolError::InvalidArgs(format!("{file:?} is no file"))
        }
        error => ToolError::Failed(format!("cannot read {file:?}: {error}")),
    })?;
    Ok(ToolResult::text(load::text(Path::new(file), opened)?))
}
