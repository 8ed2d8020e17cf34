//! That each law can be broken: a good body, one change, and the one law that speaks of it.

use super::*;

const QUESTION: &str = "👩‍👩‍👧?";

fn body(api: ApiProtocol, vendor: &str, what: &str, json: Value) -> Body {
    // The members in the order in which an encoder writes them: the messages last.
    let mut members = vec![format!("\"model\":{}", json["model"])];
    let key = conversation(api);
    let moved = |k: &str| k == key && key != "contents";
    let rest = json.as_object().unwrap().iter().filter(|(k, _)| *k != "model" && !moved(k));
    members.extend(rest.map(|(k, v)| format!("\"{k}\":{v}")));
    if moved(key) {
        members.push(format!("\"{key}\":{}", json[key]));
    }
    let bytes = format!("{{{}}}", members.join(",")).into_bytes();
    Body {
        api,
        vendor: vendor.into(),
        model: if json.get("contents").is_some() {
            json["model"].as_str().unwrap().into()
        } else {
            "m".into()
        },
        what: what.into(),
        path: String::new(),
        bytes,
        json,
        own_ids: Vec::new(),
    }
}

/// The member that holds the conversation.
fn conversation(api: ApiProtocol) -> &'static str {
    match api {
        ApiProtocol::OpenAiResponses | ApiProtocol::AzureOpenAiResponses => "input",
        ApiProtocol::GoogleGenerativeAi | ApiProtocol::GoogleVertex => "contents",
        _ => "messages",
    }
}

fn good(api: ApiProtocol) -> Value {
    match api {
        ApiProtocol::OpenAiResponses | ApiProtocol::AzureOpenAiResponses => {
            json!({"model": "m", "stream": true,
            "store": false, "include": ["reasoning.encrypted_content"], "max_output_tokens": 16,
            "reasoning": {"effort": "low"}, "prompt_cache_key": "s",
            "tools": [{"type": "function", "name": "t", "parameters": {"type": "object"}, "strict": false}],
            "input": [
                {"role": "user", "content": [{"type": "input_image", "image_url": "https://a"}]},
                {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"},
                {"type": "message", "id": "msg_1", "role": "assistant",
                    "content": [{"type": "output_text", "text": "x"}]},
                {"type": "function_call", "id": "fc_1", "call_id": "1", "name": "t", "arguments": "{}"},
                {"type": "function_call", "id": "fc_2", "call_id": "2", "name": "t", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "1", "output": "r"},
                {"type": "function_call_output", "call_id": "2", "output": "r"},
                {"role": "user", "content": QUESTION}]})
        }
        ApiProtocol::AnthropicMessages => json!({"model": "m", "stream": true, "max_tokens": 5000,
            "thinking": {"type": "enabled", "budget_tokens": 2000},
            "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
            "tools": [{"name": "t", "input_schema": {"type": "object"}}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "a"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}]},
                {"role": "assistant", "content": [{"type": "thinking", "thinking": "h", "signature": "s"},
                    {"type": "tool_use", "id": "1", "name": "t", "input": {}},
                    {"type": "tool_use", "id": "2", "name": "t", "input": {}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "r"}]},
                    {"type": "tool_result", "tool_use_id": "2", "is_error": true,
                        "content": [{"type": "text", "text": "r"}]},
                    {"type": "text", "text": QUESTION}]}]}),
        ApiProtocol::OllamaChat => json!({"model": "m", "stream": true, "think": true,
            "options": {"num_predict": 5},
            "tools": [{"type": "function", "function": {"name": "t", "parameters": {"type": "object"}}}],
            "messages": [
                {"role": "user", "content": "", "images": ["aGk="]},
                {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "t", "arguments": {}}}]},
                {"role": "tool", "tool_name": "t", "content": "r"},
                {"role": "user", "content": QUESTION}]}),
        ApiProtocol::GoogleGenerativeAi => json!({"model": "gemini-3-x",
            "systemInstruction": {"parts": [{"text": "s"}]},
            "tools": [{"functionDeclarations": [{"name": "t", "parametersJsonSchema": {"type": "object"}}]}],
            "generationConfig": {"maxOutputTokens": 5, "thinkingConfig": {"thinkingLevel": "LOW"}},
            "contents": [
                {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": "aGk="}}]},
                {"role": "model", "parts": [{"text": "h", "thought": true},
                    {"functionCall": {"id": "1", "name": "t", "args": {}}, "thoughtSignature": "s"},
                    {"functionCall": {"id": "2", "name": "t", "args": {}}}]},
                {"role": "user", "parts": [
                    {"functionResponse": {"id": "1", "name": "t", "response": {"output": "r"}}},
                    {"functionResponse": {"id": "2", "name": "t", "response": {"error": "r"}}}]},
                {"role": "model", "parts": [{"text": "", "thoughtSignature": "s"}]},
                {"role": "user", "parts": [{"text": QUESTION}]}]}),
        _ => json!({"model": "m", "stream": true, "max_completion_tokens": 5,
            "tools": [{"type": "function", "function": {"name": "t", "parameters": {"type": "object"}}}],
            "messages": [
                {"role": "system", "content": "s"},
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://a"}}]},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "1", "type": "function", "function": {"name": "t", "arguments": "{}"}},
                    {"id": "2", "type": "function", "function": {"name": "t", "arguments": "{}"}}]},
                {"role": "tool", "tool_call_id": "1", "content": "r"},
                {"role": "tool", "tool_call_id": "2", "content": "r"},
                {"role": "user", "content": QUESTION}]}),
    }
}

fn vendor(api: &ApiProtocol) -> &str {
    api.provider_id()
}

/// A change to a body: where, and what is put there.
type Change = (&'static str, &'static str, Value);

/// That the change breaks the law of which these are some words.
#[track_caller]
fn check(api: ApiProtocol, what: &str, (law, place, value): Change) {
    let mut json = good(api);
    if law.contains("adaptive") {
        json["thinking"] = json!({"type": "adaptive"});
    }
    match json.pointer_mut(place) {
        Some(there) => *there = value,
        None => {
            let (parent, key) = place.rsplit_once('/').unwrap();
            json.pointer_mut(parent).unwrap().as_object_mut().unwrap().insert(key.to_owned(), value);
        }
    }
    let broken = laws::broken(&body(api, vendor(&api), what, json));
    assert!(broken.iter().any(|b| b.contains(law)), "{place}: {law:?} is not among {broken:?}");
}

/// That a good body keeps all laws, that each of the changes breaks its law, and that no law is left out.
#[track_caller]
fn check_all(api: ApiProtocol, changes: Vec<Change>) {
    assert_eq!(laws::broken(&body(api, vendor(&api), "good", good(api))), Vec::<String>::new());
    for law in laws::of(api) {
        let named = changes.iter().any(|(words, _, _)| law.says.contains(words)) || by_scene(law.says);
        assert!(named, "nothing breaks {:?}", law.says);
    }
    for change in changes {
        check(api, "changed", change);
    }
}

/// The laws that look at what the body is for; they have a test of their own.
fn by_scene(says: &str) -> bool {
    ["without eyes", "nobody but its author", "byte for byte"].iter().any(|words| says.contains(words))
}

fn common() -> Vec<Change> {
    vec![
        ("the body is an object", "/stream", json!(false)),
        ("the body is an object", "/model", json!("other")),
        ("the model is the one who speaks next", "/messages", json!([])),
        ("no list that may be left out", "/tools", json!([])),
        ("what failed or was aborted", "/messages/0/content", json!("Half of an answer")),
        ("arrives as it was written", "/messages", json!([{"role": "user", "content": "?"}])),
        ("no text is blank", "/messages/0/content", json!([{"type": "text", "text": " "}])),
    ]
}

#[test]
fn a_body_for_anthropic_that_breaks_a_law_is_found() {
    let picture = json!({"type": "image", "source": {"type": "url", "url": "https://a"}});
    let marks = |n: usize| {
        json!(vec![json!({"name": "t", "input_schema": {"type": "object"}, "cache_control": {}}); n])
    };
    let mut changes = common();
    changes.extend([
        ("begins with the user", "/messages/0/role", json!("assistant")),
        ("begins with the user", "/messages/0/role", json!("system")),
        ("one result for each", "/messages/2/content/0/tool_use_id", json!("2")),
        ("one result for each", "/messages/2/content/1", json!({"type": "text", "text": "x"})),
        ("answers a call", "/messages/2/content/0/tool_use_id", json!("3")),
        ("stands before everything else", "/messages/2/content/0", json!({"type": "text", "text": "x"})),
        ("have the same id", "/messages/1/content/2/id", json!("1")),
        ("a call has an id", "/messages/1/content/1/id", json!("a|b")),
        ("a call has an id", "/messages/1/content/1/name", json!("a b")),
        ("a call has an id", "/messages/1/content/1/input", json!("{}")),
        ("at least one block", "/messages/2/content/0/content", json!([])),
        ("at least one block", "/messages/0/content", json!("a")),
        ("an error is told in text", "/messages/2/content/1/content/0", picture),
        ("thinking goes back", "/messages/1/content/0/signature", json!("")),
        (
            "thinking goes back",
            "/messages/1/content/2",
            json!({"type": "thinking", "thinking": "x", "signature": "s"}),
        ),
        ("a thinking budget", "/thinking/budget_tokens", json!(1_000)),
        ("a thinking budget", "/thinking/budget_tokens", json!(5_000)),
        ("a thinking budget", "/temperature", json!(1.0)),
        ("a thinking budget", "/tool_choice", json!({"type": "any"})),
        ("not combined with adaptive", "/tool_choice", json!({"type": "any"})),
        ("at most four places", "/tools", marks(4)),
        ("at most four places", "/messages/1/content/0/cache_control", json!({})),
        ("a tool has a name", "/tools/0/input_schema/type", json!("array")),
        ("the choice names one", "/tool_choice", json!({"type": "tool", "name": "other"})),
        ("a picture is base64", "/messages/0/content/1/source/data", json!("data:,")),
        ("a picture is base64", "/messages/0/content/1/source/media_type", json!("text/plain")),
    ]);
    check_all(ApiProtocol::AnthropicMessages, changes);
}

#[test]
fn a_body_for_chat_completions_that_breaks_a_law_is_found() {
    let mut changes = common();
    changes.extend([
        ("one tool message each", "/messages/3/tool_call_id", json!("2")),
        ("one tool message each", "/messages/4", json!({"role": "user", "content": "x"})),
        (
            "one tool message each",
            "/messages/5",
            json!({"role": "tool", "tool_call_id": "1", "content": "x"}),
        ),
        ("a call is a function", "/messages/2/tool_calls/0/id", json!("7".repeat(41))),
        ("a call is a function", "/messages/2/tool_calls/0/function/arguments", json!("[]")),
        ("a call is a function", "/messages/2/tool_calls/0/function/arguments", json!({})),
        ("have the same id", "/messages/2/tool_calls/1/id", json!("1")),
        ("says something", "/messages/5/content", json!("")),
        ("says something", "/messages/1/content", json!(null)),
        ("a system prompt stands first", "/messages/1/role", json!("system")),
        ("limited under one name", "/max_completion_tokens", json!(0)),
        ("limited under one name", "/max_tokens", json!(1)),
        ("thinking goes back only", "/messages/2/reasoning_content", json!("h")),
        ("own words for thinking", "/enable_thinking", json!(true)),
        ("a tool is a function", "/tools/0/function/name", json!("a b")),
        ("a choice is made only", "/tool_choice", json!({"type": "function", "function": {"name": "x"}})),
        ("a picture is a data address", "/messages/1/content/0/image_url/url", json!("aGk=")),
    ]);
    check_all(ApiProtocol::OpenAiCompletions, changes);
}

#[test]
fn a_body_for_ollama_that_breaks_a_law_is_found() {
    let mut changes = common();
    changes.extend([
        ("one tool message each", "/messages/2/tool_name", json!("other")),
        ("one tool message each", "/messages/2", json!({"role": "user", "content": "x"})),
        ("arguments of a call are an object", "/messages/1/tool_calls/0/function/arguments", json!("{}")),
        ("content is a text", "/messages/2/content", json!("")),
        ("content is a text", "/messages/3/content", json!([{"type": "text", "text": QUESTION}])),
        ("a picture is base64", "/messages/0/images/0", json!("data:image/png;base64,aGk=")),
        ("a picture is base64", "/messages/2/images", json!(["aGk="])),
        ("asked for by a switch", "/think", json!("xhigh")),
        ("limits and randomness", "/temperature", json!(1)),
        ("limits and randomness", "/options/num_ctx", json!(0)),
        ("a tool is a function", "/tools/0/function/parameters", json!({})),
    ]);
    check_all(ApiProtocol::OllamaChat, changes);
}

#[test]
fn a_body_for_responses_that_breaks_a_law_is_found() {
    let changes = vec![
        ("the body is an object", "/stream", json!(false)),
        ("the model is the one who speaks next", "/input", json!([])),
        ("no list that may be left out", "/tools", json!([])),
        ("what failed or was aborted", "/input/0/content", json!("Half of an answer")),
        ("arrives as it was written", "/input", json!([{"role": "user", "content": "?"}])),
        ("no text is blank", "/input/0/content", json!([{"type": "input_text", "text": " "}])),
        ("one output each", "/input/5/call_id", json!("3")),
        ("one output each", "/input/6", json!({"role": "user", "content": "x"})),
        ("a call has an id", "/input/3/call_id", json!("a|b")),
        ("a call has an id", "/input/3/name", json!("a b")),
        ("a call has an id", "/input/3/arguments", json!("[]")),
        ("have the same id", "/input/4/call_id", json!("1")),
        ("have the same id", "/input/4/id", json!("fc_1")),
        ("reasoning goes back encrypted", "/input/1/encrypted_content", json!("")),
        ("reasoning goes back encrypted", "/input/2", json!({"role": "user", "content": "x"})),
        ("under a name of its kind", "/input/3/id", json!("msg_2")),
        ("only the client", "/input/2", json!({"type": "local_shell_call"})),
        ("says something", "/input/0/content", json!([])),
        ("says something", "/input/5/output", json!("")),
        ("nothing is stored", "/store", json!(true)),
        ("nothing is stored", "/max_output_tokens", json!(15)),
        ("of models that reason", "/include", json!([])),
        ("of models that reason", "/reasoning/effort", json!("much")),
        ("of models that reason", "/temperature", json!(1)),
        ("a tool is a function", "/tools/0/strict", json!(null)),
        ("a choice is made only", "/tool_choice", json!({"type": "function", "name": "x"})),
        ("a picture is a data address", "/input/0/content/0/image_url", json!("aGk=")),
        ("the name of a session", "/prompt_cache_key", json!("s".repeat(65))),
    ];
    check_all(ApiProtocol::OpenAiResponses, changes);
}

#[test]
fn what_a_body_is_for_decides_what_it_must_not_hold() {
    let api = ApiProtocol::OllamaChat;
    let picture = ("without eyes", "/messages/0/images", json!([tools::PIXEL]));
    check(api, "no-pictures", picture.clone());
    let secret = ("nobody but its author", "/messages/1/content", json!("That was all."));
    check(api, "history-of-anthropic", secret.clone());
    let of = |what: &str, (_, place, value): Change| {
        let mut json = good(api);
        *json.pointer_mut(place).unwrap() = value;
        laws::broken(&body(api, "ollama", what, json))
    };
    let mut owning = body(api, "ollama", "run", good(api));
    owning.own_ids = vec!["functions.look:0".to_owned()];
    assert!(laws::broken(&owning).iter().any(|broken| broken.contains("byte for byte")));
    assert_eq!(of("own-history", picture), Vec::<String>::new());
    assert_eq!(of("history-of-anthropic-thoughts-shown", secret), Vec::<String>::new());
}

#[test]
fn a_body_for_gemini_that_breaks_a_law_is_found() {
    let changes = vec![
        ("what failed or was aborted", "/contents/4/parts/0/text", json!("Half of an answer")),
        ("before the contents", "/zz", json!(1)),
        ("begin and end with the user", "/contents/0/role", json!("model")),
        ("begin and end with the user", "/contents/4/role", json!("model")),
        ("begin and end with the user", "/contents/4/parts", json!([])),
        ("begin and end with the user", "/contents/2/role", json!("tool")),
        ("follow each other", "/contents/2/role", json!("model")),
        ("a part holds one thing", "/contents/4/parts/0/inlineData", json!({})),
        ("a part holds one thing", "/contents/4/parts/0/text", json!(" ")),
        ("one response for each", "/contents/2/parts/0/functionResponse/id", json!("2")),
        ("one response for each", "/contents/2/parts/0/functionResponse/name", json!("u")),
        ("one response for each", "/contents/2/parts/0", json!({"text": "x"})),
        ("one response for each", "/contents/0/parts/0", json!({"functionResponse": {"name": "t"}})),
        ("have the same id", "/contents/1/parts/2/functionCall/id", json!("1")),
        ("have the same id", "/contents/1/parts/2/functionCall/id", json!("google-fc-1")),
        ("a call has a name", "/contents/1/parts/1/functionCall/name", json!("1st")),
        ("a call has a name", "/contents/1/parts/1/functionCall/args", json!("{}")),
        ("a call has a name", "/contents/2/parts/0/functionResponse/response", json!({})),
        (
            "the first call of a step",
            "/contents/1/parts/1",
            json!({"functionCall": {"id": "1", "name": "t", "args": {}}}),
        ),
        ("thinking stands in the model's", "/contents/4/parts/0/thought", json!(true)),
        ("told by a word", "/generationConfig/thinkingConfig", json!({"thinkingBudget": 0})),
        ("told by a word", "/generationConfig/thinkingConfig/thinkingLevel", json!("low")),
        ("told by a word", "/generationConfig/maxOutputTokens", json!(0)),
        ("a function has a name", "/tools/0/functionDeclarations/0/name", json!("a b")),
        ("a function has a name", "/tools/0/functionDeclarations", json!([])),
        (
            "a function has a name",
            "/toolConfig",
            json!({"functionCallingConfig": {"allowedFunctionNames": ["x"]}}),
        ),
        ("a file is base64", "/contents/0/parts/0/inlineData/data", json!("data:,")),
        ("a file is base64", "/contents/0/parts/0/inlineData/mimeType", json!("text/plain")),
        ("arrives as it was written", "/contents/4/parts/0/text", json!("?")),
    ];
    let before = |words: &str| {
        let mut json = good(ApiProtocol::GoogleGenerativeAi);
        json["model"] = json!("gemini-2.5-x");
        json["generationConfig"]["responseMimeType"] = json!("application/json");
        json["contents"][1]["parts"][1]["thoughtSignature"] = json!("skip_thought_signature_validator");
        json["contents"][2]["parts"][0]["functionResponse"]["parts"] = json!([]);
        let broken = laws::broken(&body(ApiProtocol::GoogleGenerativeAi, "google", "changed", json));
        assert!(broken.iter().any(|b| b.contains(words)), "{words:?} is not among {broken:?}");
    };
    let of_the_second = ["JSON answer and functions", "inside of a response", "first call of a step"];
    of_the_second.into_iter().for_each(before);
    assert_eq!(
        laws::broken(&body(
            ApiProtocol::GoogleGenerativeAi,
            "google",
            "good",
            good(ApiProtocol::GoogleGenerativeAi)
        )),
        Vec::<String>::new()
    );
    for law in laws::of(ApiProtocol::GoogleGenerativeAi) {
        let named = changes.iter().any(|(words, _, _)| law.says.contains(words));
        let second = of_the_second.iter().any(|words| law.says.contains(words));
        assert!(named || second || by_scene(law.says), "nothing breaks {:?}", law.says);
    }
    for change in changes {
        check(ApiProtocol::GoogleGenerativeAi, "changed", change);
    }
}
