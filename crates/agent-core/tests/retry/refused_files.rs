//! Files that a provider refuses.

use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool, transcript};
use agent_core::{
    AgentEvent, CompactionReason, Content, DocumentContent, ErrorKind, Message, ModelRequest, ToolResult,
};

use crate::room::{agent, boxed, model, run};

const REFUSED: &str = "messages.2.content.0.image: Could not process image";

fn pictures(request: &ModelRequest) -> usize {
    request.messages().flat_map(Message::content).filter(|c| matches!(c, Content::Image(_))).count()
}

fn sees_picture(refusal: &'static str, kind: ErrorKind) -> ScriptedProvider {
    ScriptedProvider::responding(move |request| match pictures(request) {
        0 if request.history.last().is_some_and(|m| m.role() != "assistant") => "fine".into(),
        0 => "again".into(),
        _ => ScriptedReply::error(kind, refusal),
    })
}

fn picture() -> Message {
    Message::user_content(vec![Content::text("look"), Content::image("QUJD", "image/png")])
}

#[tokio::test]
async fn a_picture_that_the_provider_refuses_becomes_a_sentence_and_the_run_goes_on() {
    for (refusal, kind) in [
        (REFUSED, ErrorKind::Api),
        ("Unsupported MIME type: image/gif", ErrorKind::Api),
        ("image input is not supported - hint: a projector is missing", ErrorKind::Network),
        ("No endpoints found that support image input", ErrorKind::ModelNotFound),
    ] {
        let model = sees_picture(refusal, kind);
        let agent = agent(&model);
        agent.replace_messages(vec![picture().into()]).unwrap();
        let events = run(&agent).await;
        assert_eq!(
            transcript(&events),
            "agent_start turn_start user compact+ compact- assistant(fine) turn_end agent_end(completed)",
            "{refusal}"
        );
        assert!(events.iter().any(
            |e| matches!(e, AgentEvent::CompactionEnded(end) if end.reason == CompactionReason::RefusedFile)
        ));
        assert_eq!(model.requests().len(), 2);
        let sent = model.requests()[1].messages().next().unwrap().text();
        assert!(sent.starts_with("look[image left out: the provider refused it: "), "{sent}");
        // The next run does not send it either.
        run(&agent).await;
        assert_eq!(model.requests().len(), 3);
        assert_eq!(pictures(&model.requests()[2]), 0);
    }
}

#[tokio::test]
async fn the_newest_files_are_replaced_first() {
    let model = ScriptedProvider::responding(|request| {
        if pictures(request) == 2 { ScriptedReply::error(ErrorKind::Api, REFUSED) } else { "fine".into() }
    });
    let agent = agent(&model);
    let reply = agent_core::AssistantMessage::new("p", "m", agent_core::StopReason::Stop);
    agent.replace_messages(vec![picture().into(), Message::from(reply).into(), picture().into()]).unwrap();
    run(&agent).await;
    let last = model.requests()[1].messages().cloned().collect::<Vec<_>>();
    assert!(matches!(last[0].content()[1], Content::Image(_)), "{last:?}");
    assert!(last[2].text().contains("image left out"), "{last:?}");
}

#[tokio::test]
async fn a_file_in_a_result_is_replaced_and_the_call_keeps_its_result() {
    let model = ScriptedProvider::responding(|request| {
        let is_document = |c: &Content| matches!(c, Content::Document(_));
        if request.messages().flat_map(Message::content).any(is_document) {
            ScriptedReply::error(ErrorKind::Api, "The PDF specified was not valid")
        } else if request.history.len() > 1 {
            "fine".into()
        } else {
            ScriptedReply::call("c", "look", serde_json::json!({}))
        }
    });
    let document = || Content::document(DocumentContent::pdf("JVBERi0="));
    let look =
        ScriptedTool::new("look", move |_, _| async move { Ok(ToolResult::content(vec![document()])) });
    let agent = agent(&model).with_tools(boxed([look]));
    let events = run(&agent).await;
    assert!(
        transcript(&events).ends_with("assistant(fine) turn_end agent_end(completed)"),
        "{}",
        transcript(&events)
    );
    let last = model.requests().pop().unwrap();
    assert!(last.messages().last().unwrap().text().starts_with("[document left out"), "{last:?}");
}

#[tokio::test]
async fn an_error_about_something_else_leaves_the_files() {
    for text in ["invalid temperature", "tools.0.name: bad"] {
        let model = model([ScriptedReply::error(ErrorKind::Api, text)]);
        let agent = agent(&model);
        agent.replace_messages(vec![picture().into()]).unwrap();
        let events = run(&agent).await;
        assert!(transcript(&events).ends_with("agent_end(error)"), "{}", transcript(&events));
        assert_eq!(pictures(&model.requests()[0]), 1);
        assert_eq!(model.requests().len(), 1);
    }
}
