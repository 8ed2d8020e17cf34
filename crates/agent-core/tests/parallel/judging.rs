//! A model as the judge.

use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{
    AgentEvent, AgentMessage, AssistantMessage, Branch, Content, Entry, ErrorKind, EvaluationDecision,
    History, Hooks, LlmJudgeEvaluation, Message, StopReason, ToolCallId, ToolResultMessage, TurnTrigger,
    Usage,
};
use serde_json::json;
use std::sync::Arc;

use crate::group::{announced, config, config_of, context, notes, of_loop, run, run_over};

fn judge(model: &ScriptedProvider) -> LlmJudgeEvaluation {
    LlmJudgeEvaluation::new(config_of(model))
}

fn question(model: &ScriptedProvider) -> String {
    let requests = model.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].history.len(), 1, "it reads one message");
    assert!(requests[0].tools.definitions().is_empty());
    requests[0].history.last().unwrap().text()
}

fn reply(content: Vec<Content>, stop: StopReason) -> AssistantMessage {
    let mut reply = AssistantMessage::new("mock", "m", stop);
    reply.content = content;
    reply
}

/// REQ-201.
#[tokio::test]
async fn the_judge_reads_the_query_and_the_final_answers_only() {
    let model = ScriptedProvider::texts(["2"]);
    let call = ScriptedReply::call("c", "look", json!({"at": "SECRET-ARGUMENT"})).and_text("Let me look.");
    let tool = Arc::new(ScriptedTool::saying("look", "RAW-RESULT"));
    let working = Branch::new(config([call, "It is blue.".into()])).with_tools(vec![tool as _]);
    let (outcome, events) = run([working, Branch::new(config(["It is red."]))], judge(&model)).await;
    let result = outcome.unwrap();
    assert_eq!(result.decision, EvaluationDecision::Selected(1));
    assert_eq!(
        question(&model),
        "Original query:\nWhat is it?\n\nResponse 1:\nIt is blue.\n\nResponse 2:\nIt is red.\n\n\
         Which response answers the query best? Reply with its number, from 1 to 2, and with nothing else."
    );
    assert!(notes(&events).is_empty());
    // The judge's loop is one of the session, and is told apart from the branches.
    let own = of_loop(&events, result.judge_loop_id.as_ref().unwrap());
    let AgentEvent::AgentStart(start) = &own[0] else { panic!() };
    assert_eq!((start.session_id.as_str(), start.agent_id.as_str()), ("s", "a"));
    assert!(!announced(&events).contains(&start.loop_id));
    assert!(
        own.iter().any(|e| matches!(e, AgentEvent::TurnStart { triggered_by: TurnTrigger::SubAgent, .. }))
    );
}

/// REQ-201.
#[tokio::test]
async fn the_judges_loop_and_the_branches_have_the_parent_of_the_group() {
    for (loop_id, parent) in [(Some("s.m.7"), Some("s.m.7")), (None, None)] {
        let model = ScriptedProvider::texts(["2"]);
        let mut base = context();
        base.loop_id = loop_id.map(Into::into);
        let branches = [config(["a"]), config(["b"])];
        let (outcome, events) = run_over(base, Some("Which?"), branches, judge(&model)).await;
        let judge_id = outcome.unwrap().judge_loop_id.unwrap();
        let parents: Vec<_> = events
            .iter()
            .filter_map(|e| match e {
                AgentEvent::AgentStart(start) => Some((
                    start.loop_id == judge_id,
                    start.parent_loop_id.as_ref().map(agent_core::LoopId::as_str),
                )),
                _ => None,
            })
            .collect();
        assert_eq!(parents, [(false, parent), (false, parent), (true, parent)]);
    }
}

/// REQ-207, REQ-209.
#[tokio::test]
async fn without_prompts_query_and_conversation_come_from_the_context() {
    let mut history = History::new();
    history.push(AgentMessage::user("I have a cat.")).unwrap();
    history.push(Message::from(reply(vec![Content::text("Nice.")], StopReason::Stop)).into()).unwrap();
    history.push(AgentMessage::user("How old is it?")).unwrap();
    let called = reply(vec![Content::tool_call("c1", "vet", json!({}))], StopReason::ToolUse);
    let found = ToolResultMessage::new(ToolCallId::from("c1"), "vet".into(), vec![Content::text("9 years")]);
    history
        .push_exchange(
            Entry::from(AgentMessage::from(Message::from(called))),
            vec![Entry::from(AgentMessage::from(Message::from(found)))],
        )
        .unwrap();
    let model = ScriptedProvider::texts(["1"]);
    let branches = [config(["Nine."]), config(["Ten."])];
    let (outcome, _) = run_over(context().with_history(history.clone()), None, branches, judge(&model)).await;
    assert_eq!(outcome.unwrap().selected_index(), 0);
    let text = question(&model);
    assert!(
        text.starts_with(
            "Prior conversation context:\nUser: I have a cat.\nAssistant: Nice.\nTool [vet]: 9 years\n\n\
             Original query:\nHow old is it?\n\nResponse 1:\nNine.\n\n"
        ),
        "{text}"
    );

    // With a prompt, all of the conversation comes before it, and the query is the prompt's.
    let model = ScriptedProvider::texts(["1"]);
    let branches = [config(["x"]), config(["y"])];
    let base = context().with_history(history);
    run_over(base, Some("And its name?"), branches, judge(&model)).await.0.unwrap();
    let text = question(&model);
    assert!(
        text.contains("User: How old is it?\nTool [vet]: 9 years\n\nOriginal query:\nAnd its name?\n"),
        "{text}"
    );

    // In a fresh conversation there is no such section.
    let model = ScriptedProvider::texts(["1"]);
    run([config(["x"]), config(["y"])], judge(&model)).await.0.unwrap();
    assert!(!question(&model).contains("Prior conversation context"));
}

/// REQ-201: D29.
#[tokio::test]
async fn a_judge_that_names_no_response_selects_the_first_and_says_so() {
    for answer in ["I like them both.", "10/10", "0", "3"] {
        let model = ScriptedProvider::texts([answer]);
        let (outcome, events) = run([config(["a"]), config(["b"])], judge(&model)).await;
        let result = outcome.unwrap();
        let EvaluationDecision::FellBack { index: 0, reason } = &result.decision else {
            panic!("{:?}", result.decision)
        };
        assert!(reason.contains("no number from 1 to 2") && reason.contains(answer), "{reason}");
        let notes = notes(&events);
        assert_eq!(notes[0].0, "judge-verdict");
        assert!(notes[0].1.starts_with("warning: "), "{notes:?}");
        let Some(AgentEvent::ParallelLoopEnd(end)) = events.last() else { panic!() };
        assert_eq!((end.selected_config_index, end.reason.as_ref()), (Some(0), Some(reason)));
    }
}

/// REQ-201.
#[tokio::test]
async fn a_judge_that_fails_selects_the_first_and_what_it_cost_is_counted() {
    let failing = ScriptedProvider::new([ScriptedReply::error(ErrorKind::Auth, "bad key")]);
    let (outcome, _) = run([config(["a"]), config(["b"])], judge(&failing)).await;
    let result = outcome.unwrap();
    assert!(result.decision.reason().unwrap().contains("bad key"));
    assert!(result.judge_loop_id.is_some(), "its loop is in the session all the same");

    let mut asking = judge(&ScriptedProvider::texts(["2"]));
    *asking.judge_config.hooks =
        Hooks::new().before_turn(|_| async { agent_core::Verdict::Ask("May it?".into()) });
    let (outcome, events) = run([config(["a"]), config(["b"])], asking).await;
    let result = outcome.unwrap();
    assert!(result.decision.reason().unwrap().contains("no user can be asked"), "{:?}", result.decision);
    let own = of_loop(&events, result.judge_loop_id.as_ref().unwrap());
    assert!(matches!(own.last(), Some(AgentEvent::AgentEnd(_))), "it does not wait for ever");

    let paid = ScriptedProvider::new([ScriptedReply::text("2").using(Usage::new(7, 1, 5, 0))]);
    let branch = |n| config([ScriptedReply::text("x").using(Usage::new(n, 0, 0, 0))]);
    let (outcome, events) = run([branch(10), branch(20)], judge(&paid)).await;
    let usage = outcome.unwrap().usage;
    assert_eq!((usage.branches, usage.evaluation), (Usage::new(30, 0, 0, 0), Usage::new(7, 1, 5, 0)));
    assert_eq!(usage.total(), Usage::new(37, 1, 5, 0));
    let Some(AgentEvent::ParallelLoopEnd(end)) = events.last() else { panic!() };
    assert_eq!(end.evaluation_usage, Usage::new(7, 1, 5, 0));
}

/// REQ-201: who failed is not shown, and numbers count those that are.
#[tokio::test]
async fn only_candidates_are_judged_and_a_single_one_is_not() {
    let failing = || config([ScriptedReply::error(ErrorKind::Auth, "bad key")]);
    let model = ScriptedProvider::texts(["2"]);
    let (outcome, _) = run([failing(), config(["a"]), failing(), config(["b"])], judge(&model)).await;
    assert_eq!(outcome.unwrap().selected_index(), 3);
    let text = question(&model);
    assert!(text.contains("Response 2:\nb\n") && !text.contains("Response 3"), "{text}");

    let model = ScriptedProvider::texts(["2"]);
    let (outcome, _) = run([failing(), config(["a"])], judge(&model)).await;
    let result = outcome.unwrap();
    assert_eq!((result.selected_index(), result.judge_loop_id), (1, None));
    assert!(model.requests().is_empty());
}
