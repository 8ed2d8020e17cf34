//! A run that asks at a limit.

use agent_core::testing::{ScriptedReply, ScriptedTool, assert_well_formed, transcript};
use agent_core::{
    Answer, BasicAgent, Budget, BudgetLimit, Hooks, Question, RunEnd, Spending, Usage, Verdict,
};
use serde_json::json;

use crate::room::{agent, none, refused, reply};
use crate::runs::{run, within};

/// An agent that has spent 650 of 1,000 tokens when it asks; and what it asks.
async fn asking(more: Vec<ScriptedReply>) -> (BasicAgent, Budget, Question) {
    let budget = Budget::new(none().with_tokens(1_000)).pausing();
    let look = ScriptedReply::call("a", "look", json!({})).using(Usage::new(600, 50, 0, 0));
    let (agent, _) = agent(std::iter::once(look).chain(more), &budget);
    let agent = agent.with_tool(ScriptedTool::saying("look", "x"));
    let events = run(&agent, "Go.").await;
    assert!(transcript(&events).ends_with("turn_start over_budget asked(budget-turn-1.0) suspended"));
    let Some(RunEnd::Suspended(mut questions)) = agent.finish().await else { panic!() };
    (agent, budget, questions.remove(0))
}

/// X4: the question says which limit, how much is allowed and spent, and what the next call may cost.
#[tokio::test]
async fn at_a_limit_the_run_asks_with_the_figures_as_data() {
    let (_, _, question) = asking(vec![]).await;
    let refusal = question.budget.as_deref().unwrap();
    assert_eq!(refusal.limit, BudgetLimit::Tokens);
    assert_eq!((refusal.allowed, refusal.spent, refusal.reserved, refusal.asked), (1_000, 650, 0, 1_160));
    assert_eq!(
        question.text,
        "The budget of 1000 in tokens is used up: 650 is spent, and the next call may cost 1160. Raise it and continue?"
    );
    assert!(question.call.is_none());
}

/// X4: an answer that raises the limit goes on; the run has one end and one turn for it.
#[tokio::test]
async fn an_answer_that_raises_the_limit_goes_on() {
    let (agent, budget, question) = asking(vec![reply(700, 10)]).await;
    let events = agent.answer(question.id, Answer::Raise { by: Spending::of_tokens(2_000) }).unwrap();
    let events = within(events.collect()).await;
    assert_eq!(
        transcript(&events),
        "answered(budget-turn-1.0) raised reserved spent assistant(ok) turn_end agent_end(completed)"
    );
    assert_eq!((budget.limits().tokens, budget.spent().tokens), (Some(3_000), 1_360));
}

/// An answer that does not raise it enough is asked about again.
#[tokio::test]
async fn a_raise_that_is_too_small_is_asked_about_again() {
    let (agent, budget, question) = asking(vec![reply(1, 1)]).await;
    let events = agent.answer(question.id, Answer::Raise { by: Spending::of_tokens(10) }).unwrap();
    let events = within(events.collect()).await;
    assert_eq!(
        transcript(&events),
        "answered(budget-turn-1.0) raised over_budget asked(budget-turn-1.0) suspended"
    );
    assert_eq!(budget.limits().tokens, Some(1_010));
}

/// `Allow` is for this one call.
#[tokio::test]
async fn an_answer_that_allows_lets_one_call_pass_and_the_next_is_asked_about() {
    let again = ScriptedReply::call("b", "look", json!({})).using(Usage::new(700, 50, 0, 0));
    let (agent, budget, question) = asking(vec![again]).await;
    let events = within(agent.answer(question.id, Answer::Allow).unwrap().collect()).await;
    assert!(
        transcript(&events)
            .ends_with("result(b) turn_end turn_start over_budget asked(budget-turn-2.0) suspended"),
        "{}",
        transcript(&events)
    );
    assert_eq!((budget.spent().tokens, budget.limits().tokens), (1_400, Some(1_000)));
}

/// `Deny` ends the run with what it has.
#[tokio::test]
async fn an_answer_that_denies_ends_the_run_with_the_limit_as_its_reason() {
    let (agent, _, question) = asking(vec![]).await;
    let events = agent.answer(question.id, Answer::Deny { reason: "enough".into() }).unwrap();
    let events = within(events.collect()).await;
    assert_eq!(transcript(&events), "answered(budget-turn-1.0) user turn_end agent_end(budget)");
    assert!(refused(&agent).await.starts_with("the budget of 1000 in tokens is used up"));
}

#[tokio::test]
async fn a_run_that_asks_can_be_aborted_and_takes_no_answer_that_does_not_fit() {
    let (agent, _, question) = asking(vec![]).await;
    agent.answer(question.id.clone(), Answer::AllowWith(json!({}))).unwrap_err();
    agent.answer("budget-turn-9.9", Answer::Allow).unwrap_err();
    agent.prompt("More.").unwrap_err();
    agent.abort();
    within(agent.wait_for_idle()).await;
    assert!(matches!(agent.finish().await, Some(RunEnd::Aborted)));
}

/// X4: a call of a tool is asked about like a call of the model; the arguments that a hook gave it are kept.
#[tokio::test]
async fn a_call_of_a_tool_over_the_limit_is_asked_about_and_runs_with_what_the_hook_gave_it() {
    for (answer, ran) in [
        (Answer::Raise { by: Spending::of_tool_calls(1) }, true),
        (Answer::Allow, true),
        (Answer::Deny { reason: "no more".into() }, false),
    ] {
        let budget = Budget::new(none().with_tool_calls(1)).pausing();
        let calls = ScriptedReply::new().and_call("a", "look", json!({"n": 1})).and_call(
            "b",
            "look",
            json!({"n": 2}),
        );
        let (agent, _) = agent([calls, reply(1, 1)], &budget);
        let tool =
            ScriptedTool::new(
                "look",
                |args, _| async move { Ok(agent_core::ToolResult::text(args.to_string())) },
            );
        let hooks = Hooks::new().before_tool(|call| async move {
            if call.call.id.as_str() == "b" { Verdict::AllowWith(json!({"n": 20})) } else { Verdict::Allow }
        });
        let agent = agent.with_tool(tool).with_hooks(hooks);
        let first = run(&agent, "Go.").await;
        let text = transcript(&first);
        assert!(text.ends_with("tool-(a) suspended"), "{text}");
        let Some(RunEnd::Suspended(questions)) = agent.finish().await else { panic!() };
        assert_eq!(questions[0].id.as_str(), "budget-b");
        assert_eq!(questions[0].call.as_ref().unwrap().id.as_str(), "b");
        assert!(questions[0].text.ends_with("Raise it and run look?"), "{}", questions[0].text);
        let rest = within(agent.answer("budget-b", answer).unwrap().collect()).await;
        let mut all = first;
        all.pop();
        all.extend(rest);
        assert_well_formed(&all);
        assert!(transcript(&all).ends_with("agent_end(completed)"));
        let results: Vec<String> =
            agent.messages().iter().filter(|m| m.role() == "toolResult").map(|m| m.text()).collect();
        let second = if ran { r#"{"n":20}"# } else { "no more" };
        assert_eq!(results, [r#"{"n":1}"#, second]);
        assert_eq!(budget.spent().tool_calls, if ran { 2 } else { 1 });
    }
}

/// A question that is not a budget's takes no raise.
#[tokio::test]
async fn only_a_budget_is_raised() {
    let budget = Budget::new(none()).pausing();
    let (agent, _) = agent([ScriptedReply::call("a", "look", json!({})), reply(1, 1)], &budget);
    let agent = agent
        .with_tool(ScriptedTool::saying("look", "x"))
        .with_hooks(Hooks::new().before_tool(|_| async { Verdict::Ask("May it?".into()) }));
    run(&agent, "Go.").await;
    let raise = Answer::Raise { by: Spending::of_tokens(1) };
    let error = agent.answer("a", raise).unwrap_err().to_string();
    assert!(error.contains("not that of a budget"), "{error}");
    within(agent.answer("a", Answer::Allow).unwrap().collect()).await;
}
