//! `looptree acp`, driven by the client side of the crate `agent-client-protocol` and by raw lines.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    CancelNotification, CloseSessionRequest, ContentBlock, Diff, EmbeddedResource, EmbeddedResourceResource,
    EnvVariable, ImageContent, InitializeRequest, ListSessionsRequest, LoadSessionRequest, McpServer,
    McpServerStdio, NewSessionRequest, PermissionOptionKind, PlanEntryStatus, PromptRequest,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse, ResourceLink,
    ResumeSessionRequest, SelectedPermissionOutcome, SessionId, SessionNotification, SessionUpdate,
    SetSessionModeRequest, StopReason, TextContent, TextResourceContents, ToolCallContent, ToolCallStatus,
    ToolKind,
};
use agent_client_protocol::{Agent, ByteStreams, Client, Error};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio_util::compat::{TokioAsyncReadCompatExt as _, TokioAsyncWriteCompatExt as _};

use super::model::Model;
use super::{HANG, Project};

type Connection = ConnectionTo<Agent>;

/// What the client decides about a request for a permission.
type Decide = fn(&RequestPermissionRequest) -> RequestPermissionOutcome;

/// What arrived at the client.
#[derive(Clone, Default)]
struct Seen {
    updates: Arc<Mutex<Vec<SessionUpdate>>>,
    asked: Arc<Mutex<Vec<RequestPermissionRequest>>>,
}

impl Seen {
    fn updates(&self) -> Vec<SessionUpdate> {
        self.updates.lock().unwrap().clone()
    }

    fn asked(&self) -> Vec<RequestPermissionRequest> {
        self.asked.lock().unwrap().clone()
    }

    /// Forgets what has arrived.
    fn clear(&self) {
        self.updates.lock().unwrap().clear();
        self.asked.lock().unwrap().clear();
    }

    /// The text of the agent's messages.
    fn said(&self) -> String {
        let updates = self.updates();
        updates.iter().filter_map(|update| chunk(update, "agent_message_chunk")).collect()
    }

    /// The last status of the calls, by their ids in the order of their first update.
    fn statuses(&self) -> Vec<(String, ToolCallStatus)> {
        let mut all: Vec<(String, ToolCallStatus)> = Vec::new();
        for update in self.updates() {
            let (id, status) = match update {
                SessionUpdate::ToolCall(call) => (call.tool_call_id, Some(call.status)),
                SessionUpdate::ToolCallUpdate(update) => (update.tool_call_id, update.fields.status),
                _ => continue,
            };
            let (id, Some(status)) = (id.to_string(), status) else { continue };
            match all.iter_mut().find(|known| known.0 == id) {
                Some(known) => known.1 = status,
                None => all.push((id, status)),
            }
        }
        all
    }

    /// Every status that was sent, in its order.
    fn all_statuses(&self) -> Vec<ToolCallStatus> {
        let updates = self.updates().into_iter().filter_map(|update| match update {
            SessionUpdate::ToolCall(call) => Some(call.status),
            SessionUpdate::ToolCallUpdate(update) => update.fields.status,
            _ => None,
        });
        updates.collect()
    }

    /// The diffs of the last update with content.
    fn diffs(&self) -> Vec<Diff> {
        let updates = self.updates();
        let last = updates.iter().rev().find_map(|update| match update {
            SessionUpdate::ToolCallUpdate(update) => update.fields.content.clone(),
            _ => None,
        });
        diffs(&last.unwrap_or_default())
    }
}

/// The text of an update of a kind.
fn chunk(update: &SessionUpdate, kind: &str) -> Option<String> {
    let update = serde_json::to_value(update).unwrap();
    (update["sessionUpdate"] == kind)
        .then(|| update["content"]["text"].as_str().unwrap_or_default().to_owned())
}

fn diffs(content: &[ToolCallContent]) -> Vec<Diff> {
    content
        .iter()
        .filter_map(|c| if let ToolCallContent::Diff(diff) = c { Some(diff.clone()) } else { None })
        .collect()
}

fn select(request: &RequestPermissionRequest, kind: PermissionOptionKind) -> RequestPermissionOutcome {
    let option = request.options.iter().find(|option| option.kind == kind).unwrap();
    RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option.option_id.clone()))
}

fn allow(request: &RequestPermissionRequest) -> RequestPermissionOutcome {
    select(request, PermissionOptionKind::AllowOnce)
}

fn always(request: &RequestPermissionRequest) -> RequestPermissionOutcome {
    select(request, PermissionOptionKind::AllowAlways)
}

fn reject(request: &RequestPermissionRequest) -> RequestPermissionOutcome {
    select(request, PermissionOptionKind::RejectOnce)
}

fn withdraw(_: &RequestPermissionRequest) -> RequestPermissionOutcome {
    RequestPermissionOutcome::Cancelled
}

fn text(text: &str) -> ContentBlock {
    ContentBlock::Text(TextContent::new(text))
}

/// Starts the program, connects to it as an editor does, and ends it afterwards.
async fn with_agent<R>(
    project: &Project,
    words: &[String],
    decide: Decide,
    work: impl AsyncFnOnce(Connection, Seen) -> Result<R, Error>,
) -> R {
    let mut command = project.command();
    command.arg("acp").args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = command.spawn().unwrap();
    let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let transport = ByteStreams::new(input.compat_write(), output.compat());
    let seen = Seen::default();
    let (of_updates, of_asked, of_work) = (seen.clone(), seen.clone(), seen);
    let working = Client
        .v1()
        .on_receive_notification(
            async move |notification: SessionNotification, _cx: Connection| {
                of_updates.updates.lock().unwrap().push(notification.update);
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _cx: Connection| {
                let outcome = decide(&request);
                of_asked.asked.lock().unwrap().push(request);
                responder.respond(RequestPermissionResponse::new(outcome))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(transport, async move |to: Connection| {
            let introduced =
                to.send_request(InitializeRequest::new(ProtocolVersion::V1)).block_task().await?;
            assert_eq!(introduced.protocol_version, ProtocolVersion::V1);
            assert!(introduced.agent_capabilities.load_session);
            work(to, of_work).await
        });
    let done = tokio::time::timeout(HANG, working).await.expect("it hangs").unwrap();
    let status = tokio::time::timeout(HANG, child.wait()).await.expect("the agent does not end").unwrap();
    assert_eq!(status.code(), Some(0));
    done
}

async fn new_session(to: &Connection, project: &Project) -> Result<SessionId, Error> {
    let request = NewSessionRequest::new(project.path());
    Ok(to.send_request(request).block_task().await?.session_id)
}

async fn prompt(to: &Connection, session: &SessionId, words: &str) -> Result<StopReason, Error> {
    let request = PromptRequest::new(session.clone(), vec![text(words)]);
    Ok(to.send_request(request).block_task().await?.stop_reason)
}

/// Waits until a condition about what arrived holds.
async fn until(seen: &Seen, holds: impl Fn(&Seen) -> bool) {
    let waiting = async {
        while !holds(seen) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(HANG, waiting).await.expect("what was expected did not arrive");
}

#[tokio::test]
async fn two_prompts_of_a_session_stream_their_answers_and_share_the_conversation() {
    let (project, model) = (Project::new(), Model::start().await);
    with_agent(&project, &model.words(), allow, async |to, seen| {
        let session = new_session(&to, &project).await?;
        assert_eq!(prompt(&to, &session, "say sunny").await?, StopReason::EndTurn);
        assert_eq!(seen.said(), "It is sunny.");
        let usage = seen.updates().into_iter().find_map(|update| match update {
            SessionUpdate::UsageUpdate(usage) => Some(usage.used),
            _ => None,
        });
        assert_eq!(usage, Some(1234));
        seen.clear();
        assert_eq!(prompt(&to, &session, "think cold").await?, StopReason::EndTurn);
        let updates = seen.updates();
        let thoughts: String = updates.iter().filter_map(|u| chunk(u, "agent_thought_chunk")).collect();
        assert_eq!((thoughts.as_str(), seen.said().as_str()), ("about cold", "It is cold."));
        Ok(())
    })
    .await;
    let asked = model.asked();
    assert_eq!(asked.last().unwrap(), "user(say sunny) assistant(It is sunny.) user(think cold)");
    assert_eq!(project.session_ids().len(), 1);
}

#[tokio::test]
async fn an_edit_is_shown_as_a_diff_before_the_permission_and_as_what_changed_afterwards() {
    let (project, model) = (Project::new(), Model::start().await);
    let file = project.path().join("notes.txt");
    with_agent(&project, &model.words(), allow, async |to, seen| {
        let session = new_session(&to, &project).await?;
        assert_eq!(prompt(&to, &session, "write hello").await?, StopReason::EndTurn);
        let asked = seen.asked();
        let call = &asked[0].tool_call;
        assert_eq!(call.fields.kind, Some(ToolKind::Edit));
        assert_eq!(call.fields.title.as_deref(), Some("write_file notes.txt"));
        assert_eq!(call.fields.locations.as_ref().unwrap()[0].path, file);
        let expected = Diff::new(file.clone(), "hello\n");
        assert_eq!(diffs(call.fields.content.as_ref().unwrap()), std::slice::from_ref(&expected));
        assert_eq!(seen.diffs(), [expected]);
        assert_eq!(seen.statuses()[0].1, ToolCallStatus::Completed);

        std::fs::write(&file, "one\ntwo\nthree\n").unwrap();
        seen.clear();
        assert_eq!(prompt(&to, &session, "edit 2").await?, StopReason::EndTurn);
        let expected = Diff::new(file.clone(), "one\n2\nthree\n").old_text("one\ntwo\nthree\n".to_owned());
        assert_eq!(
            diffs(seen.asked()[0].tool_call.fields.content.as_ref().unwrap()),
            std::slice::from_ref(&expected)
        );
        assert_eq!(seen.diffs(), [expected]);
        // The call of the second prompt has an id of its own.
        assert_ne!(asked[0].tool_call.tool_call_id, seen.asked()[0].tool_call.tool_call_id);
        Ok(())
    })
    .await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\n2\nthree\n");
}

#[tokio::test]
async fn a_rejected_call_does_not_run_and_the_model_reads_why() {
    let (project, model) = (Project::new(), Model::start().await);
    with_agent(&project, &model.words(), reject, async |to, seen| {
        let session = new_session(&to, &project).await?;
        assert_eq!(prompt(&to, &session, "run it").await?, StopReason::EndTurn);
        assert_eq!(seen.asked()[0].tool_call.fields.kind, Some(ToolKind::Execute));
        assert_eq!(seen.all_statuses(), [ToolCallStatus::Pending, ToolCallStatus::Failed]);
        assert!(seen.said().contains("It was refused"), "{}", seen.said());
        Ok(())
    })
    .await;
    assert!(!project.path().join("ran.txt").exists());
}

/// A call that the policy denies, and one of a tool that does not exist, do not run either.
#[tokio::test]
async fn a_call_that_never_runs_is_never_in_progress() {
    let (project, model) = (Project::new(), Model::start().await);
    with_agent(
        &project,
        &[&model.words()[..], &["--plan-only".to_owned()]].concat(),
        allow,
        async |to, seen| {
            let session = new_session(&to, &project).await?;
            for task in ["run it", "use nothing at all"] {
                seen.clear();
                prompt(&to, &session, task).await?;
                assert_eq!(seen.all_statuses(), [ToolCallStatus::Pending, ToolCallStatus::Failed], "{task}");
            }
            seen.clear();
            prompt(&to, &session, "find x").await?;
            assert!(seen.all_statuses().contains(&ToolCallStatus::InProgress));
            Ok(())
        },
    )
    .await;
}

#[tokio::test]
async fn a_hidden_second_line_of_a_command_is_visible_in_the_request() {
    let (project, model) = (Project::new(), Model::start().await);
    with_agent(&project, &model.words(), reject, async |to, seen| {
        let session = new_session(&to, &project).await?;
        prompt(&to, &session, "hide it").await?;
        let content = serde_json::to_string(&seen.asked()[0].tool_call.fields.content).unwrap();
        assert!(content.contains("touch ran.txt"), "{content}");
        assert!(!content.contains('\u{202e}') && !content.contains("\\u001b"), "{content}");
        Ok(())
    })
    .await;
}

/// An editor shows a diff as it is, so that it gets the whole call, escaped, of an edit with invisible characters.
#[tokio::test]
async fn an_edit_with_invisible_characters_is_shown_as_the_whole_call() {
    let (project, model) = (Project::new(), Model::start().await);
    with_agent(&project, &model.words(), reject, async |to, seen| {
        let session = new_session(&to, &project).await?;
        prompt(&to, &session, "write a\u{200b}b\u{202e}").await?;
        let content = serde_json::to_string(&seen.asked()[0].tool_call.fields.content).unwrap();
        assert!(content.contains("a\\\\u{200b}b\\\\u{202e}"), "{content}");
        assert!(!content.contains(['\u{200b}', '\u{202e}']), "{content}");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn always_holds_for_the_session_and_not_for_another_one() {
    let (project, model) = (Project::new(), Model::start().await);
    with_agent(&project, &model.words(), always, async |to, seen| {
        let session = new_session(&to, &project).await?;
        prompt(&to, &session, "write one").await?;
        prompt(&to, &session, "write two").await?;
        assert_eq!(seen.asked().len(), 1);
        let other = new_session(&to, &project).await?;
        prompt(&to, &other, "write three").await?;
        assert_eq!(seen.asked().len(), 2);
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_cancelled_run_stops_its_command_and_the_session_goes_on() {
    let (project, model) = (Project::new(), Model::start().await);
    with_agent(&project, &model.words(), allow, async |to, seen| {
        let session = new_session(&to, &project).await?;
        let running = to.send_request(PromptRequest::new(session.clone(), vec![text("sleep 600")]));
        until(&seen, |seen| seen.statuses().iter().any(|call| call.1 == ToolCallStatus::InProgress)).await;
        // A second prompt must wait.
        let refused = prompt(&to, &session, "say no").await.unwrap_err();
        assert!(refused.message.contains("works on a prompt already"), "{}", refused.message);
        to.send_notification(CancelNotification::new(session.clone()))?;
        assert_eq!(running.block_task().await?.stop_reason, StopReason::Cancelled);
        assert_eq!(seen.statuses()[0].1, ToolCallStatus::Failed);
        assert_eq!(prompt(&to, &session, "say sunny").await?, StopReason::EndTurn);
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_withdrawn_question_cancels_the_run() {
    let (project, model) = (Project::new(), Model::start().await);
    with_agent(&project, &model.words(), withdraw, async |to, seen| {
        let session = new_session(&to, &project).await?;
        assert_eq!(prompt(&to, &session, "run it").await?, StopReason::Cancelled);
        assert_eq!(seen.statuses()[0].1, ToolCallStatus::Failed);
        Ok(())
    })
    .await;
    assert!(!project.path().join("ran.txt").exists());
}

#[tokio::test]
async fn a_loaded_session_shows_its_conversation_and_continues_in_another_process() {
    let (project, model) = (Project::new(), Model::start().await);
    let session = with_agent(&project, &model.words(), allow, async |to, _| {
        let session = new_session(&to, &project).await?;
        prompt(&to, &session, "write hello").await?;
        Ok(session)
    })
    .await;
    with_agent(&project, &model.words(), allow, async |to, seen| {
        let request = LoadSessionRequest::new(session.clone(), project.path());
        let loaded = to.send_request(request).block_task().await?;
        assert_eq!(&*loaded.modes.unwrap().current_mode_id.0, "ask");
        let updates = seen.updates();
        let asked: Vec<_> = updates.iter().filter_map(|u| chunk(u, "user_message_chunk")).collect();
        assert_eq!(asked, ["write hello"]);
        assert_eq!(seen.said(), "I wrote hello.");
        assert_eq!(seen.diffs(), [Diff::new(project.path().join("notes.txt"), "hello\n")]);
        assert_eq!(seen.statuses()[0].1, ToolCallStatus::Completed);
        prompt(&to, &session, "say sunny").await?;

        // The newest ones of the directory; another editor may take over without the conversation.
        let listed =
            to.send_request(ListSessionsRequest::new().cwd(project.path().to_owned())).block_task().await?;
        assert_eq!(listed.sessions.len(), 1);
        assert_eq!((&listed.sessions[0].session_id, listed.next_cursor), (&session, None));
        assert_eq!(listed.sessions[0].title.as_deref(), Some("write hello"));
        to.send_request(CloseSessionRequest::new(session.clone())).block_task().await?;
        assert!(prompt(&to, &session, "say no").await.unwrap_err().message.contains("is not open"));
        seen.clear();
        let request = ResumeSessionRequest::new(session.clone(), project.path());
        to.send_request(request).block_task().await?;
        assert!(seen.updates().is_empty());
        prompt(&to, &session, "say cold").await?;
        Ok(())
    })
    .await;
    let asked = model.asked();
    assert!(
        asked
            .last()
            .unwrap()
            .starts_with("user(write hello) assistant() tool assistant(I wrote hello.) user(say sunny)")
    );
    assert_eq!(project.session_ids().len(), 1);
}

#[tokio::test]
async fn the_modes_decide_which_calls_are_asked_about() {
    let (project, model) = (Project::new(), Model::start().await);
    with_agent(&project, &model.words(), allow, async |to, seen| {
        let request = NewSessionRequest::new(project.path());
        let opened = to.send_request(request).block_task().await?;
        let (session, modes) = (opened.session_id, opened.modes.unwrap());
        assert_eq!(&*modes.current_mode_id.0, "ask");
        let set = |mode: &str| {
            to.send_request(SetSessionModeRequest::new(session.clone(), mode.to_owned())).block_task()
        };
        // A session without a prompt is not stored, and can be resumed as long as it is open.
        to.send_request(ResumeSessionRequest::new(session.clone(), project.path())).block_task().await?;
        set("plan-only").await?;
        prompt(&to, &session, "write one").await?;
        assert!(!project.path().join("notes.txt").exists());
        set("commands").await?;
        prompt(&to, &session, "write two").await?;
        assert_eq!((seen.asked().len(), project.path().join("notes.txt").exists()), (0, true));
        prompt(&to, &session, "run it").await?;
        assert_eq!(seen.asked().len(), 1);
        set("yes").await?;
        prompt(&to, &session, "run it").await?;
        assert_eq!(seen.asked().len(), 1);
        let unknown = set("free").await.unwrap_err();
        assert!(unknown.message.contains("plan-only"), "{}", unknown.message);
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_plan_is_an_update_and_no_tool_call() {
    let (project, model) = (Project::new(), Model::start().await);
    with_agent(&project, &model.words(), allow, async |to, seen| {
        let session = new_session(&to, &project).await?;
        assert_eq!(prompt(&to, &session, "plan parser").await?, StopReason::EndTurn);
        let plan = seen.updates().into_iter().find_map(|update| match update {
            SessionUpdate::Plan(plan) => Some(plan),
            _ => None,
        });
        let entries = plan.unwrap().entries;
        let entries: Vec<_> =
            entries.iter().map(|entry| (entry.content.as_str(), entry.status.clone())).collect();
        assert_eq!(
            entries,
            [
                ("read the parser", PlanEntryStatus::Completed),
                ("change the parser", PlanEntryStatus::InProgress),
            ]
        );
        assert_eq!(seen.statuses(), []);
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_prompt_contains_links_embedded_files_and_images() {
    let (project, model) = (Project::new(), Model::start().await);
    with_agent(&project, &model.words(), allow, async |to, _| {
        let session = new_session(&to, &project).await?;
        let file = TextResourceContents::new("fn main() {}", "file:///project/main.rs");
        let blocks = vec![
            text("see "),
            ContentBlock::ResourceLink(ResourceLink::new("lib.rs", "file:///project/lib.rs")),
            ContentBlock::Resource(EmbeddedResource::new(EmbeddedResourceResource::TextResourceContents(
                file,
            ))),
            ContentBlock::Image(ImageContent::new("aGVsbG8=", "image/png")),
        ];
        to.send_request(PromptRequest::new(session.clone(), blocks)).block_task().await?;
        let empty = prompt(&to, &session, "  ").await.unwrap_err();
        assert!(empty.message.contains("empty"), "{}", empty.message);
        Ok(())
    })
    .await;
    let asked = model.asked();
    assert!(asked[0].contains("[@lib.rs](file:///project/lib.rs)"), "{asked:?}");
    assert!(
        asked[0].contains("<resource uri=\"file:///project/main.rs\">\nfn main() {}\n</resource>"),
        "{asked:?}"
    );
    assert!(asked[0].contains("image(data:image/png;base64,aGVsbG8=)"), "{asked:?}");
}

#[tokio::test]
async fn an_mcp_server_that_does_not_start_is_reported_once_and_the_session_works() {
    let (project, model) = (Project::new(), Model::start().await);
    with_agent(&project, &model.words(), allow, async |to, seen| {
        let server = McpServer::Stdio(McpServerStdio::new("lost", PathBuf::from("/nowhere/server")));
        let request = NewSessionRequest::new(project.path()).mcp_servers(vec![server]);
        let session = to.send_request(request).block_task().await?.session_id;
        prompt(&to, &session, "say sunny").await?;
        assert!(
            seen.said()
                .contains("the MCP server lost cannot be used: the program `/nowhere/server` was not found"),
            "{}",
            seen.said()
        );
        seen.clear();
        prompt(&to, &session, "say cold").await?;
        assert_eq!(seen.said(), "It is cold.");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn the_tools_of_an_mcp_server_of_the_editor_are_asked_about_and_used() {
    let (project, model) = (Project::new(), Model::start().await);
    with_agent(&project, &model.words(), allow, async |to, seen| {
        let mut server = McpServerStdio::new("peer", env!("CARGO_BIN_EXE_looptree"));
        server = server.args(["mcp".to_owned()].into_iter().chain(model.words()).collect());
        let environment = project.environment().into_iter();
        server = server.env(environment.map(|(name, value)| EnvVariable::new(name, value)).collect());
        let request = NewSessionRequest::new(project.path()).mcp_servers(vec![McpServer::Stdio(server)]);
        let session = to.send_request(request).block_task().await?.session_id;
        assert_eq!(prompt(&to, &session, "use peer__run say sunny").await?, StopReason::EndTurn);
        assert_eq!(seen.asked()[0].tool_call.fields.title.as_deref(), Some("peer__run"));
        assert!(seen.said().contains("It is sunny."), "{}", seen.said());
        assert_eq!(seen.statuses()[0].1, ToolCallStatus::Completed);
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn the_mcp_servers_of_the_settings_are_used_beside_those_of_the_editor_which_come_first() {
    let (project, tiny) = super::mcp_servers::with_server("");
    let model = Model::start().await;
    let of_editor = super::tiny_server::Tiny::new(&project, "editor");
    with_agent(&project, &model.words(), allow, async |to, seen| {
        let session = new_session(&to, &project).await?;
        assert_eq!(prompt(&to, &session, "use tiny__run it").await?, StopReason::EndTurn);
        assert_eq!((seen.asked().len(), tiny.calls()), (1, 1));
        let mut server = McpServerStdio::new("tiny", "sh");
        server = server.args(vec![of_editor.script()]).env(vec![EnvVariable::new("LOG", of_editor.log())]);
        let request = NewSessionRequest::new(project.path()).mcp_servers(vec![McpServer::Stdio(server)]);
        let session = to.send_request(request).block_task().await?.session_id;
        assert_eq!(prompt(&to, &session, "use tiny__run it").await?, StopReason::EndTurn);
        assert_eq!((tiny.starts(), of_editor.calls()), (1, 1));
        to.send_request(CloseSessionRequest::new(session)).block_task().await?;
        assert!(!of_editor.runs() && tiny.runs());
        Ok(())
    })
    .await;
    assert!(!tiny.runs());
}

#[tokio::test]
async fn a_server_of_the_editor_that_cannot_be_used_is_named_and_the_others_work() {
    let (project, model) = (Project::new(), Model::start().await);
    let tiny = super::tiny_server::Tiny::new(&project, "editor");
    let good = json!({"name": "tiny", "command": "sh", "args": [tiny.script()], "env": {"LOG": tiny.log()}});
    for bad in [
        json!({"name": "broken", "command": "sh", "env": "hidden"}),
        json!({"name": "broken", "type": "acp", "id": "hidden"}),
        json!({"name": "broken", "type": "sse", "url": "http://hidden"}),
        json!({"name": "broken", "command": "/nonexistent/server", "args": ["hidden"], "env": []}),
    ] {
        let mut raw = Raw::start(&project, &model.words());
        raw.introduce().await;
        let params = json!({"cwd": project.path(), "mcpServers": [bad, good], "somethingNew": true});
        let opened = raw.request(1, "session/new", &params).await;
        let session = opened["result"]["sessionId"].clone();
        assert!(session.is_string(), "{opened}");
        let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "say sunny"}]});
        raw.send(
            &json!({"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": prompt}).to_string(),
        )
        .await;
        let warning = loop {
            let line = tokio::time::timeout(HANG, raw.output.next_line()).await.expect("no warning").unwrap();
            let line = line.expect("the output is closed");
            if line.contains("Warning") {
                break line;
            }
        };
        assert!(warning.contains("the MCP server broken cannot be used"), "{warning}");
        assert!(!warning.contains("hidden"), "{warning}");
        assert!(raw.answer(&json!(2)).await["result"].is_object());
        drop(raw.input.take());
        raw.child.wait().await.unwrap();
    }
    assert_eq!(tiny.starts(), 4);
}

#[tokio::test]
async fn a_failure_of_the_model_is_an_error_with_a_message_and_the_session_goes_on() {
    let (project, model) = (Project::new(), Model::start().await);
    let mut words = model.words();
    words.extend(["--max-turns", "1"].map(str::to_owned));
    with_agent(&project, &words, allow, async |to, seen| {
        let session = new_session(&to, &project).await?;
        let failed = prompt(&to, &session, "fail now").await.unwrap_err();
        assert!(failed.message.contains("the model is out of order"), "{}", failed.message);
        assert_eq!(prompt(&to, &session, "write hello").await?, StopReason::MaxTurnRequests);
        assert!(seen.said().contains("max turns"), "{}", seen.said());
        Ok(())
    })
    .await;
}

/// The program with raw lines.
struct Raw {
    child: tokio::process::Child,
    input: Option<tokio::process::ChildStdin>,
    output: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
}

impl Raw {
    fn start(project: &Project, words: &[String]) -> Self {
        let mut command = project.command();
        command.arg("acp").args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { input: child.stdin.take(), output, child }
    }

    async fn send(&mut self, line: &str) {
        self.send_bytes(format!("{line}\n").as_bytes()).await;
    }

    async fn send_bytes(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).await.unwrap();
    }

    /// Reads lines until the answer to a request; every line must be JSON-RPC.
    async fn answer(&mut self, id: &Value) -> Value {
        loop {
            let line = tokio::time::timeout(HANG, self.output.next_line()).await.expect("no answer").unwrap();
            let message: Value = serde_json::from_str(&line.expect("the output is closed")).unwrap();
            assert_eq!(message["jsonrpc"], "2.0", "{message}");
            if message["id"] == *id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// Reads lines until a request of the agent.
    async fn asked(&mut self, method: &str) -> Value {
        loop {
            let line =
                tokio::time::timeout(HANG, self.output.next_line()).await.expect("no request").unwrap();
            let message: Value = serde_json::from_str(&line.expect("the output is closed")).unwrap();
            if message["method"] == method && message.get("id").is_some() {
                return message["params"].clone();
            }
        }
    }

    async fn request(&mut self, id: u64, method: &str, params: &Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send(&request.to_string()).await;
        self.answer(&json!(id)).await
    }

    async fn introduce(&mut self) {
        let answer = self.request(0, "initialize", &json!({"protocolVersion": 1})).await;
        assert_eq!(answer["result"]["protocolVersion"], 1, "{answer}");
    }
}

#[tokio::test]
async fn malformed_input_is_answered_with_errors_and_does_not_end_the_connection() {
    let (project, model) = (Project::new(), Model::start().await);
    let mut raw = Raw::start(&project, &model.words());
    raw.introduce().await;
    raw.send("{this is no JSON").await;
    assert_eq!(raw.answer(&Value::Null).await["error"]["code"], -32700);
    raw.send_bytes(b"\xff\xfe\n").await;
    assert_eq!(raw.answer(&Value::Null).await["error"]["code"], -32700);
    raw.send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"session/\xff\"}\n").await;
    assert_eq!(raw.answer(&json!(9)).await["error"]["code"], -32601);
    assert_eq!(raw.request(1, "session/dance", &json!({})).await["error"]["code"], -32601);
    assert_eq!(raw.request(2, "session/new", &json!({"cwd": 7})).await["error"]["code"], -32602);
    let relative = raw.request(3, "session/new", &json!({"cwd": "work", "mcpServers": []})).await;
    assert!(relative["error"]["message"].as_str().unwrap().contains("not absolute"), "{relative}");
    let cwd = project.path();
    let lost =
        raw.request(4, "session/load", &json!({"sessionId": "none", "cwd": cwd, "mcpServers": []})).await;
    assert_eq!(lost["error"]["code"], -32002, "{lost}");
    let unknown = raw.request(5, "session/prompt", &json!({"sessionId": "none", "prompt": []})).await;
    assert!(unknown["error"]["message"].as_str().unwrap().contains("not open"), "{unknown}");
    let sound = json!({"type": "audio", "data": "", "mimeType": "audio/wav"});
    let opened = raw.request(6, "session/new", &json!({"cwd": cwd, "mcpServers": []})).await;
    let prompt = json!({"sessionId": opened["result"]["sessionId"], "prompt": [sound]});
    let refused = raw.request(7, "session/prompt", &prompt).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("audio"), "{refused}");
}

#[tokio::test]
async fn a_session_without_a_model_is_an_error_that_says_what_to_do() {
    let project = Project::new();
    let mut raw = Raw::start(&project, &[]);
    raw.introduce().await;
    let refused = raw.request(1, "session/new", &json!({"cwd": project.path(), "mcpServers": []})).await;
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("there is no model to work with") && message.contains("ANTHROPIC_API_KEY"),
        "{message}"
    );
}

#[tokio::test]
async fn an_editor_that_disappears_ends_the_run_its_command_and_the_program() {
    let (project, model) = (Project::new(), Model::start().await);
    let mut words = model.words();
    words.push("--yes".to_owned());
    let mut raw = Raw::start(&project, &words);
    raw.introduce().await;
    let opened = raw.request(1, "session/new", &json!({"cwd": project.path(), "mcpServers": []})).await;
    let session = opened["result"]["sessionId"].as_str().unwrap().to_owned();
    let command = "exec echo $$ > pid.txt; exec sleep 600";
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": command}]});
    let request = json!({"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": prompt});
    raw.send(&request.to_string()).await;
    let file = project.path().join("pid.txt");
    let pid = loop {
        match std::fs::read_to_string(&file).ok().and_then(|pid| pid.trim().parse().ok()) {
            Some(pid) => break pid,
            None => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
        }
    };
    raw.input = None;
    let status = tokio::time::timeout(HANG, raw.child.wait()).await.expect("it does not end").unwrap();
    assert_eq!(status.code(), Some(0));
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    assert!(rustix::process::test_kill_process(pid).is_err(), "the command outlives the program");
    assert_eq!(project.session_ids(), [session]);
}

#[tokio::test]
async fn a_question_outlives_the_editor_and_is_asked_again_when_the_session_is_loaded() {
    let (project, model) = (Project::new(), Model::start().await);
    let mut raw = Raw::start(&project, &model.words());
    raw.introduce().await;
    let opened = raw.request(1, "session/new", &json!({"cwd": project.path(), "mcpServers": []})).await;
    let session = opened["result"]["sessionId"].as_str().unwrap().to_owned();
    let prompt_params = json!({"sessionId": session, "prompt": [{"type": "text", "text": "run it"}]});
    let request = json!({"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": prompt_params});
    raw.send(&request.to_string()).await;
    assert_eq!(raw.asked("session/request_permission").await["toolCall"]["title"], "echo ran >> ran.txt");
    raw.input = None;
    let status = tokio::time::timeout(HANG, raw.child.wait()).await.expect("it does not end").unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(!project.path().join("ran.txt").exists());
    with_agent(&project, &model.words(), allow, async |to, seen| {
        let session = SessionId::new(session);
        to.send_request(LoadSessionRequest::new(session.clone(), project.path())).block_task().await?;
        assert_eq!(prompt(&to, &session, "say sunny").await?, StopReason::EndTurn);
        assert_eq!(seen.asked().len(), 1);
        assert!(seen.said().contains("It ran.") && seen.said().contains("It is sunny."), "{}", seen.said());
        Ok(())
    })
    .await;
    assert!(project.path().join("ran.txt").exists());
}
