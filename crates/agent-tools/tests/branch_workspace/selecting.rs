//! Branches with tools, a judge, and the winner's files.

use std::sync::Arc;

use agent_core::testing::{ScriptedProvider, ScriptedReply};
use agent_core::{BasicAgent, BranchSpec, EventSender, LlmJudgeEvaluation, ModelConfig};
use agent_tools::{BranchWorkspaces, Workspace};
use serde_json::json;

use crate::project::Project;

fn writing(text: &str) -> ScriptedProvider {
    let call = ScriptedReply::call("c", "write_file", json!({"path": "answer.txt", "content": text}));
    ScriptedProvider::new([call, ScriptedReply::text(format!("I wrote {text}."))])
}

/// X7.
#[tokio::test]
async fn branches_work_side_by_side_and_the_selected_ones_files_are_taken_over() {
    for git in [false, true] {
        let project = Project::committed(&[("answer.txt", "none")]);
        let workspaces = if git {
            BranchWorkspaces::worktrees_of(project.root()).unwrap()
        } else {
            BranchWorkspaces::copies_of(project.root()).unwrap()
        };
        let folders = workspaces.open_many(2).await.unwrap();
        let agent = BasicAgent::new(ModelConfig::default());
        let specs: Vec<_> = folders
            .iter()
            .zip(["41", "42"])
            .map(|(folder, text)| {
                let model = Arc::new(writing(text));
                BranchSpec::asking("Answer in answer.txt.")
                    .with_tools(folder.tools(Workspace::tools))
                    .configure(move |c| c.services.provider = model)
            })
            .collect();
        let mut judge = agent.config();
        judge.services.provider = Arc::new(ScriptedProvider::texts(["2"]));
        let strategy = LlmJudgeEvaluation::new(judge);
        let result = agent.explore_and_adopt(specs, strategy, EventSender::none()).await.unwrap();
        assert_eq!(project.read("answer.txt"), "none", "nobody wrote to the origin");
        folders[result.selected_index()].take_over().await.unwrap();
        assert_eq!(project.read("answer.txt"), "42");
        assert_eq!(agent.messages().last().unwrap().text(), "I wrote 42.");
    }
}
