//! The questions.

use anyhow::{Result, bail};
use looptree::model::ReasoningField;
use looptree::model::ThinkingFormat;
use serde_json::{Value, json};

use super::Report;
use super::ask::{Answer, Asker, Outcome};

/// A picture of one pixel.
const PIXEL: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// The plainest question. Whether the others make sense.
pub(super) async fn plain(asker: &Asker, report: &mut Report) -> Result<bool> {
    match asker.ask(json!({"messages": [user("Say hello.")]})).await {
        Outcome::Answered(answer) => {
            let pieces = format!(
                "{} pieces, stopped for {}",
                answer.pieces,
                answer.finish.as_deref().unwrap_or("no reason")
            );
            let odd =
                if answer.odd.is_empty() { String::new() } else { format!("; {}", answer.odd.join("; ")) };
            report.found("a plain question", pieces + &odd);
            if let Some((field, _)) = &answer.thinking {
                report.found("thinking", format!("comes in the field {field}"));
                report.dialect.reasoning_field = Some(match *field {
                    "reasoning_content" => ReasoningField::ReasoningContent,
                    "reasoning" => ReasoningField::Reasoning,
                    _ => ReasoningField::ReasoningText,
                });
            }
            Ok(true)
        }
        Outcome::Refused(status, text) => {
            report.found("a plain question", format!("refused with {status}: {text}"));
            Ok(false)
        }
        Outcome::Unclear(why) => bail!("the server does not answer: {why}"),
    }
}

/// Which field limits the output.
pub(super) async fn limit(asker: &Asker, report: &mut Report) {
    let mut taken = Vec::new();
    for field in ["max_tokens", "max_completion_tokens"] {
        let outcome =
            asker.ask(json!({"messages": [user("Count from one to fifty in words.")], field: 5})).await;
        let answer = match &outcome {
            Outcome::Answered(a) if a.finish.as_deref() == Some("length") => {
                taken.push((field, true));
                "limits the output".to_owned()
            }
            Outcome::Answered(_) => {
                taken.push((field, false));
                "is taken and has no effect".to_owned()
            }
            other => unmet(other),
        };
        report.found(field, answer);
    }
    let best = taken.iter().find(|(_, works)| *works).or(taken.first());
    report.dialect.max_tokens_field = best.map(|(field, _)| (*field).to_owned());
}

/// Whether tokens are counted in a stream.
pub(super) async fn usage(asker: &Asker, report: &mut Report) {
    let asked = json!({"messages": [user("Say hello.")], "stream_options": {"include_usage": true}});
    let outcome = asker.ask(asked).await;
    let (answer, set) = match &outcome {
        Outcome::Answered(a) if a.written.is_some() => {
            ("the stream says how many tokens were used".to_owned(), Some(true))
        }
        Outcome::Answered(_) => ("is taken, and no tokens are counted".to_owned(), None),
        other => (unmet(other), other.taken()),
    };
    report.found("stream_options.include_usage", answer);
    report.dialect.usage_in_stream = set;
}

/// Members that some servers refuse.
pub(super) async fn fields(asker: &Asker, report: &mut Report) {
    let hello = || user("Say hello.");
    let developer = json!({"messages": [{"role": "developer", "content": "Be brief."}, hello()]});
    report.dialect.developer_role = taken(asker, report, "the role developer", developer).await;
    let store = json!({"messages": [hello()], "store": false});
    report.dialect.store = taken(asker, report, "store", store).await;
    let effort = json!({"messages": [hello()], "reasoning_effort": "low"});
    report.dialect.reasoning_effort = taken(asker, report, "reasoning_effort", effort).await;
    if report.dialect.reasoning_effort == Some(false) {
        let others = [
            ("thinking", json!({"type": "disabled"}), ThinkingFormat::Zai),
            ("enable_thinking", json!(false), ThinkingFormat::Qwen),
            ("chat_template_kwargs", json!({"enable_thinking": false}), ThinkingFormat::QwenTemplate),
        ];
        for (field, value, form) in others {
            if taken(asker, report, field, json!({"messages": [hello()], field: value})).await == Some(true) {
                report.dialect.thinking_format = Some(form);
                break;
            }
        }
    }
    let key = json!({"messages": [hello()], "prompt_cache_key": "check"});
    report.dialect.prompt_cache_key = taken(asker, report, "prompt_cache_key", key).await;
    let parts = json!([{"type": "text", "text": "What colour is it?"}, {"type": "image_url", "image_url": {"url": PIXEL}}]);
    let picture = json!({"messages": [{"role": "user", "content": parts}]});
    report.images = taken(asker, report, "a picture", picture).await;
}

/// Forms of the answer.
pub(super) async fn answers(asker: &Asker, report: &mut Report) {
    let stop = json!({"messages": [user("Say exactly: one two three four")], "stop": ["three"]});
    let said = match asker.ask(stop).await {
        Outcome::Answered(a) if a.text.contains("three") => "is taken and has no effect".to_owned(),
        Outcome::Answered(_) => "is taken".to_owned(),
        other => unmet(&other),
    };
    report.found("stop", said);
    let schema = json!({
        "type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": false,
    });
    let format =
        json!({"type": "json_schema", "json_schema": {"name": "answer", "strict": true, "schema": schema}});
    let asked = json!({"messages": [user("Is water wet? Answer in JSON.")], "response_format": format});
    let said = match asker.ask(asked).await {
        Outcome::Answered(a) => {
            let fits = serde_json::from_str::<Value>(a.text.trim())
                .is_ok_and(|v| v.get("ok").is_some_and(Value::is_boolean));
            if fits {
                "the answer fits the schema"
            } else {
                "is taken, and the answer does not fit the schema"
            }
            .to_owned()
        }
        other => unmet(&other),
    };
    report.found("response_format json_schema", said);
}

fn weather() -> Value {
    let parameters =
        json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    json!({"type": "function", "function": {"name": "weather", "description": "Tells the weather in a city.", "parameters": parameters}})
}

/// Calls and their results.
pub(super) async fn tools(asker: &Asker, report: &mut Report) {
    let question = || user("What is the weather in Rome? Call the tool.");
    let outcome = asker.ask(json!({"messages": [question()], "tools": [weather()]})).await;
    let said = match &outcome {
        Outcome::Answered(a) => describe(a),
        other => unmet(other),
    };
    report.found("tools", said);
    if outcome.taken() != Some(true) {
        return;
    }
    let required = json!({"messages": [question()], "tools": [weather()], "tool_choice": "required"});
    let said = match asker.ask(required).await {
        Outcome::Answered(a) if a.calls.is_empty() => "is taken and has no effect".to_owned(),
        Outcome::Answered(_) => "forces a call".to_owned(),
        other => unmet(&other),
    };
    report.found("tool_choice required", said);
    let mut strict = weather();
    if let Some(Value::Object(function)) = strict.get_mut("function") {
        function.insert("strict".into(), json!(false));
    }
    let strict = json!({"messages": [question()], "tools": [strict]});
    report.dialect.strict_tools = taken(asker, report, "strict in a tool", strict).await;
    results(asker, report).await;
}

fn describe(answer: &Answer) -> String {
    let odd = if answer.odd.is_empty() { String::new() } else { format!("; {}", answer.odd.join("; ")) };
    let Some((id, name, arguments)) = answer.calls.first() else {
        return format!("are taken, and none is called{odd}");
    };
    let valid = serde_json::from_str::<Value>(arguments).is_ok_and(|v| v.is_object());
    let id = if id.is_empty() {
        "without an id".to_owned()
    } else {
        format!("with an id of {} characters", id.len())
    };
    let arguments = if valid { "arguments that are JSON" } else { "arguments that are no JSON" };
    format!(
        "{name} is called {id} and {arguments}, stopped for {}{odd}",
        answer.finish.as_deref().unwrap_or("no reason")
    )
}

/// A conversation with a call in it. The required content of a result, and of what follows it.
async fn results(asker: &Asker, report: &mut Report) {
    let past = |id: &str, named: bool, after: &[Value]| {
        let call = json!({"id": id, "type": "function", "function": {"name": "weather", "arguments": "{\"city\":\"Rome\"}"}});
        let result = if named {
            json!({"role": "tool", "tool_call_id": id, "name": "weather", "content": "21 degrees"})
        } else {
            json!({"role": "tool", "tool_call_id": id, "content": "21 degrees"})
        };
        let mut messages = vec![user("What is the weather in Rome?")];
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        messages.push(result);
        messages.extend_from_slice(after);
        json!({"messages": messages, "tools": [weather()]})
    };
    let mut named = false;
    let mut outcome = asker.ask(past("call_0001", named, &[])).await;
    if outcome.taken() == Some(false) {
        named = true;
        outcome = asker.ask(past("call_0001", named, &[])).await;
    }
    let said = match (&outcome, named) {
        (Outcome::Answered(_), false) => "is taken".to_owned(),
        (Outcome::Answered(_), true) => "must carry the tool's name".to_owned(),
        (other, _) => unmet(other),
    };
    report.found("a tool's result", said);
    if outcome.taken() != Some(true) {
        return;
    }
    report.dialect.tool_result_name = Some(named);
    let more = user("And in Oslo?");
    let bridge = json!({"role": "assistant", "content": "It is 21 degrees."});
    let direct = asker.ask(past("call_0001", named, std::slice::from_ref(&more))).await;
    let said = match direct.taken() {
        Some(false) if asker.ask(past("call_0001", named, &[bridge, more])).await.taken() == Some(true) => {
            report.dialect.assistant_after_tool_result = Some(true);
            "only after a message of the assistant".to_owned()
        }
        Some(true) => {
            report.dialect.assistant_after_tool_result = Some(false);
            "is taken".to_owned()
        }
        _ => unmet(&direct),
    };
    report.found("a question after a result", said);
    let mut longest = None;
    for length in [64, 40, 9] {
        if asker.ask(past(&"a".repeat(length), named, &[])).await.taken() == Some(true) {
            longest = Some(length);
            break;
        }
    }
    report.found(
        "the longest id of a call",
        longest.map_or("none of 64, 40 and 9 characters".to_owned(), |n| format!("{n} characters or more")),
    );
    report.dialect.max_tool_call_id = longest.filter(|n| *n < 64);
}

/// Whether the server takes this, noted under `what`.
async fn taken(asker: &Asker, report: &mut Report, what: &str, members: Value) -> Option<bool> {
    let outcome = asker.ask(members).await;
    let said = match &outcome {
        Outcome::Answered(_) => "is taken".to_owned(),
        other => unmet(other),
    };
    report.found(what, said);
    outcome.taken()
}

fn unmet(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Answered(_) => "is taken".to_owned(),
        Outcome::Refused(status, text) => format!("is refused with {status}: {text}"),
        Outcome::Unclear(why) => format!("cannot be told: {why}"),
    }
}
