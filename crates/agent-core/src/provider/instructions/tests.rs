//! What is read from the notes of a conversation, and when there is none.

use serde_json::json;

use super::*;
use crate::model::ModelConfig;

fn tool(name: &str, description: &str) -> ToolDefinition {
    ToolDefinition::new(name, description, json!({"type": "object", "properties": {}}))
}

fn request(history: History, prompt: &str, tools: Vec<ToolDefinition>) -> ModelRequest {
    let mut request = ModelRequest::new(ModelConfig::default(), history);
    request.system_prompt = prompt.into();
    request.tools = tools.into();
    request.options.cache_config.changes = CacheChanges::Append;
    request
}

/// A conversation with a note for each of these.
fn recorded(steps: &[(&str, Vec<ToolDefinition>)]) -> History {
    let mut history = History::new();
    for (prompt, tools) in steps {
        history.push(AgentMessage::user("Hello")).unwrap();
        if let Some(note) = note(&history, prompt, &tools.clone().into()) {
            history.push(note).unwrap();
        }
    }
    history
}

#[test]
fn only_a_change_is_recorded() {
    let (a, b) = (tool("a", "A."), tool("b", "B."));
    let steps = [
        ("One.", vec![a.clone()]),
        ("One.", vec![a.clone()]),
        ("Two.", vec![a.clone()]),
        ("Two.", vec![b.clone(), a]),
    ];
    let history = recorded(&steps);
    let asked = request(history, "Two.", steps[3].1.clone());
    let found = asked.recorded_instructions();
    let places: Vec<(usize, &str)> = found.iter().map(|i| (i.unit, i.system_prompt)).collect();
    assert_eq!(places, [(1, "One."), (4, "Two."), (6, "Two.")]);
    let last: Vec<ToolDefinition> = found[2].tools().map(|tool| tool.definition()).collect();
    assert_eq!(last, steps[3].1);
}

#[test]
fn a_conversation_that_does_not_describe_the_request_counts_for_nothing() {
    let a = tool("a", "A.");
    let history = recorded(&[("One.", vec![a.clone()])]);
    let fits = request(history.clone(), "One.", vec![a.clone()]);
    assert_eq!(fits.recorded_instructions().len(), 1);
    let mut off = fits.clone();
    off.options.cache_config.changes = CacheChanges::Resend;
    let by_code = a.clone().with_callers(ToolCallers::Code);
    let others = [
        off,
        request(history.clone(), "Two.", vec![a.clone()]),
        request(history.clone(), "One.", vec![]),
        request(history.clone(), "One.", vec![tool("a", "Changed.")]),
        request(history, "One.", vec![by_code]),
    ];
    for other in others {
        assert_eq!(other.recorded_instructions(), [], "{other:?}");
    }
}

#[test]
fn a_note_that_this_library_did_not_write_is_ignored() {
    let forms = [
        json!({"system_prompt": "One.", "tools": [{"name": "a"}]}),
        json!({"system_prompt": 1, "tools": []}),
        json!({"tools": []}),
        json!(null),
    ];
    for data in forms {
        let mut history = recorded(&[("One.", vec![])]);
        history.push(AgentMessage::extension(INSTRUCTIONS_NOTE, data.clone())).unwrap();
        assert_eq!(request(history, "One.", vec![]).recorded_instructions().len(), 1, "{data}");
    }
}

#[test]
fn definitions_that_no_message_can_contain_are_not_recorded() {
    let deep = (0..crate::MAX_VALUE_DEPTH).fold(json!({}), |inner, _| json!({"items": inner}));
    let tools: ToolDefinitions = vec![ToolDefinition::new("a", "A.", deep)].into();
    assert_eq!(note(&History::new(), "One.", &tools), None);
}
