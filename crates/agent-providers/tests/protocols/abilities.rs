//! What a caller can wish for, through every protocol: each wish is on the wire in the vendor's own form, or is refused
//! with an error that says so before anything is sent.

use agent_core::{
    AgentMessage, AssistantMessage, CacheConfig, Content, Entry, ErrorKind, ImageContent, Message,
    ModelRequest, StopReason, ToolChoice, ToolDefinition, ToolResultMessage,
};
use agent_providers::ProviderRegistry;
use serde_json::{Value, json};

use crate::eight::{ALL, ANTHROPIC, AZURE, BEDROCK, CHAT, GEMINI, OLLAMA, RESPONSES, Said, VERTEX, Vendor};
use crate::support::{Asked, Server, call, hello};

/// What must become of a wish.
enum Expect {
    /// This stands there (a JSON pointer) in the body.
    At(&'static str, Value),
    /// Nothing stands there.
    Nothing(&'static str),
    /// It is refused with words like these, and nothing is sent.
    Refused(&'static str),
}

use Expect::{At, Nothing, Refused};

/// Makes a request with tools and a wish, and gives what arrived, if it was sent.
async fn send(vendor: Vendor, wish: &dyn Fn(&mut ModelRequest)) -> Result<Asked, String> {
    let server = Server::start(vec![vendor.answer(&Said::text("done"))]).await;
    let mut request = hello(vendor.at(&format!("http://{}", server.address)));
    request.tools = vec![
        ToolDefinition::new("look", "Looks.", json!({"type": "object", "properties": {}})),
        ToolDefinition::new("draw", "Draws.", json!({"type": "object", "properties": {}})),
    ]
    .into();
    wish(&mut request);
    let outcome = call(&ProviderRegistry::default(), &request).await;
    match outcome.end {
        Ok(_) => {
            assert_eq!(outcome.text(), "done", "{}", vendor.name);
            Ok(server.asked().remove(0))
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Other, "{}: {error}", vendor.name);
            assert!(server.asked().is_empty(), "{}: it was sent and failed: {error}", vendor.name);
            let context = error.context().unwrap();
            assert!(context.advice.is_some(), "{}: what to do instead: {error}", vendor.name);
            Err(error.to_string())
        }
    }
}

async fn check(vendor: Vendor, what: &str, wish: &dyn Fn(&mut ModelRequest), expects: Vec<Expect>) {
    assert!(!expects.is_empty());
    let sent = send(vendor, wish).await;
    for expect in expects {
        match (&sent, expect) {
            (Ok(asked), At(pointer, value)) => {
                let body = asked.json();
                assert_eq!(body.pointer(pointer), Some(&value), "{} {what} {pointer}: {body:#}", vendor.name);
            }
            (Ok(asked), Nothing(pointer)) => {
                assert_eq!(asked.json().pointer(pointer), None, "{} {what} {pointer}", vendor.name);
            }
            (Err(said), Refused(words)) => assert!(said.contains(words), "{} {what}: {said}", vendor.name),
            (Ok(asked), Refused(_)) => panic!("{} {what}: it was sent: {}", vendor.name, asked.body),
            (Err(said), _) => panic!("{} {what}: {said}", vendor.name),
        }
    }
}

/// The table of a wish: a line for each of the eight.
async fn table(what: &str, wish: &dyn Fn(&mut ModelRequest), rows: [(Vendor, Vec<Expect>); 8]) {
    for vendor in ALL {
        assert!(rows.iter().any(|(v, _)| *v == vendor), "{what}: nothing is said of {}", vendor.name);
    }
    for (vendor, expects) in rows {
        check(vendor, what, wish, expects).await;
    }
}

#[tokio::test]
async fn stop_sequences() {
    let wish = |r: &mut ModelRequest| r.options.stop_sequences = vec!["END".into(), "\n\n".into()];
    let both = || json!(["END", "\n\n"]);
    // Claude takes none of white space only.
    let rows = [
        (ANTHROPIC, vec![At("/stop_sequences", json!(["END"]))]),
        (CHAT, vec![At("/stop", both())]),
        (OLLAMA, vec![At("/options/stop", both())]),
        (GEMINI, vec![At("/generationConfig/stopSequences", both())]),
        (VERTEX, vec![At("/generationConfig/stopSequences", both())]),
        (RESPONSES, vec![Refused("no stop sequences")]),
        (AZURE, vec![Refused("no stop sequences")]),
        (BEDROCK, vec![At("/inferenceConfig/stopSequences", json!(["END"]))]),
    ];
    table("stop sequences", &wish, rows).await;
}

#[tokio::test]
async fn tools_that_must_not_be_called() {
    let wish = |r: &mut ModelRequest| r.options.tool_choice = ToolChoice::None;
    let mode = "/toolConfig/functionCallingConfig/mode";
    let rows = [
        (ANTHROPIC, vec![At("/tool_choice", json!({"type": "none"})), At("/tools/0/name", json!("look"))]),
        (CHAT, vec![At("/tool_choice", json!("none")), At("/tools/0/function/name", json!("look"))]),
        // Neither has a word for it: a model that is told of no tools calls none.
        (OLLAMA, vec![Nothing("/tools")]),
        (BEDROCK, vec![Nothing("/toolConfig")]),
        (GEMINI, vec![At(mode, json!("NONE"))]),
        (VERTEX, vec![At(mode, json!("NONE"))]),
        (RESPONSES, vec![At("/tool_choice", json!("none")), At("/tools/0/name", json!("look"))]),
        (AZURE, vec![At("/tool_choice", json!("none"))]),
    ];
    table("no call", &wish, rows).await;
}

#[tokio::test]
async fn tools_of_which_one_must_be_called() {
    let wish = |r: &mut ModelRequest| r.options.tool_choice = ToolChoice::Required;
    let mode = "/toolConfig/functionCallingConfig/mode";
    let rows = [
        (ANTHROPIC, vec![At("/tool_choice", json!({"type": "any"}))]),
        (CHAT, vec![At("/tool_choice", json!("required"))]),
        (OLLAMA, vec![Refused("no way to demand a tool call")]),
        (GEMINI, vec![At(mode, json!("ANY"))]),
        (VERTEX, vec![At(mode, json!("ANY"))]),
        (RESPONSES, vec![At("/tool_choice", json!("required"))]),
        (AZURE, vec![At("/tool_choice", json!("required"))]),
        (BEDROCK, vec![At("/toolConfig/toolChoice", json!({"any": {}}))]),
    ];
    table("any call", &wish, rows).await;
}

#[tokio::test]
async fn a_tool_that_must_be_called() {
    let wish = |r: &mut ModelRequest| r.options.tool_choice = ToolChoice::Tool("draw".into());
    let any_of = || json!({"mode": "ANY", "allowedFunctionNames": ["draw"]});
    let rows = [
        (ANTHROPIC, vec![At("/tool_choice", json!({"type": "tool", "name": "draw"}))]),
        (CHAT, vec![At("/tool_choice", json!({"type": "function", "function": {"name": "draw"}}))]),
        (OLLAMA, vec![Refused("no way to demand a tool call")]),
        (GEMINI, vec![At("/toolConfig/functionCallingConfig", any_of())]),
        (VERTEX, vec![At("/toolConfig/functionCallingConfig", any_of())]),
        (RESPONSES, vec![At("/tool_choice", json!({"type": "function", "name": "draw"}))]),
        (AZURE, vec![At("/tool_choice", json!({"type": "function", "name": "draw"}))]),
        (BEDROCK, vec![At("/toolConfig/toolChoice", json!({"tool": {"name": "draw"}}))]),
    ];
    table("one call", &wish, rows).await;
}

/// B-147, B-148.
#[tokio::test]
async fn caching_where_the_protocol_lets_one_say_something_of_it() {
    let said = |r: &mut ModelRequest| {
        r.session_id = Some("the-session".into());
        r.system_prompt = "Be brief.".into();
        r.history.push("And more.".into()).unwrap();
    };
    let mark = || json!({"type": "ephemeral"});
    let point = || json!({"cachePoint": {"type": "default"}});
    let rows = [
        (
            ANTHROPIC,
            vec![
                At("/tools/1/cache_control", mark()),
                At("/system/0/cache_control", mark()),
                At("/messages/0/content/0/cache_control", mark()),
            ],
        ),
        (CHAT, vec![At("/prompt_cache_key", json!("the-session"))]),
        (RESPONSES, vec![At("/prompt_cache_key", json!("the-session"))]),
        (AZURE, vec![At("/prompt_cache_key", json!("the-session"))]),
        (BEDROCK, vec![At("/toolConfig/tools/2", point()), At("/system/1", point())]),
        // They cache by themselves, and nothing can be said of it.
        (OLLAMA, vec![Nothing("/cache"), Nothing("/prompt_cache_key")]),
        (GEMINI, vec![Nothing("/cachedContent"), Nothing("/prompt_cache_key")]),
        (VERTEX, vec![Nothing("/cachedContent"), Nothing("/prompt_cache_key")]),
    ];
    table("caching", &said, rows).await;
    for vendor in ALL {
        let without = |r: &mut ModelRequest| {
            said(r);
            r.options.cache_config = CacheConfig::default();
            r.options.cache_config.enabled = false;
        };
        let body = send(vendor, &without).await.unwrap().body;
        for word in ["cache_control", "cachePoint", "prompt_cache_key", "the-session"] {
            assert!(!body.contains(word), "{}: {word} in {body}", vendor.name);
        }
    }
}

const PIXEL: &str = "aGVsbG8=";

fn picture() -> Content {
    Content::image(PIXEL, "image/png")
}

#[tokio::test]
async fn pictures_in_prompts() {
    let wish = |r: &mut ModelRequest| {
        r.history.push(Message::user_content(vec![Content::text("See:"), picture()]).into()).unwrap();
    };
    let data = || json!("data:image/png;base64,aGVsbG8=");
    let inline = || json!({"mimeType": "image/png", "data": PIXEL});
    let rows = [
        (
            ANTHROPIC,
            vec![At(
                "/messages/1/content/1/source",
                json!({"type": "base64", "media_type": "image/png", "data": PIXEL}),
            )],
        ),
        (CHAT, vec![At("/messages/1/content/1/image_url/url", data())]),
        (OLLAMA, vec![At("/messages/1/images", json!([PIXEL])), At("/messages/1/content", json!("See:"))]),
        (GEMINI, vec![At("/contents/1/parts/1/inlineData", inline())]),
        (VERTEX, vec![At("/contents/1/parts/1/inlineData", inline())]),
        (RESPONSES, vec![At("/input/1/content/1/image_url", data())]),
        (AZURE, vec![At("/input/1/content/1/image_url", data())]),
        // What a person says in a row is one message there.
        (
            BEDROCK,
            vec![At("/messages/0/content/2/image", json!({"format": "png", "source": {"bytes": PIXEL}}))],
        ),
    ];
    table("a picture", &wish, rows).await;
}

#[tokio::test]
async fn pictures_by_their_address() {
    let url = "https://example.org/cat.png";
    let wish = |r: &mut ModelRequest| {
        let picture = Content::Image(ImageContent::Url { url: url.into() });
        r.history.push(Message::user_content(vec![picture]).into()).unwrap();
    };
    let file = || json!({"mimeType": "image/png", "fileUri": url});
    // An error would come again with every later request.
    let left_out = "[image left out: this API takes no picture by its address]";
    let rows = [
        (ANTHROPIC, vec![At("/messages/1/content/0/source", json!({"type": "url", "url": url}))]),
        (CHAT, vec![At("/messages/1/content/0/image_url/url", json!(url))]),
        (OLLAMA, vec![At("/messages/1/content", json!(left_out))]),
        (GEMINI, vec![At("/contents/1/parts/0/fileData", file())]),
        (VERTEX, vec![At("/contents/1/parts/0/fileData", file())]),
        (RESPONSES, vec![At("/input/1/content/0/image_url", json!(url))]),
        (AZURE, vec![At("/input/1/content/0/image_url", json!(url))]),
        (BEDROCK, vec![At("/messages/0/content/1/text", json!(left_out))]),
    ];
    table("an address", &wish, rows).await;
}

/// B-142.
#[tokio::test]
async fn pictures_in_the_results_of_tools() {
    let wish = |r: &mut ModelRequest| {
        let entry = |message: Message| Entry::from(AgentMessage::from(message));
        let mut reply = AssistantMessage::new("other", "model", StopReason::ToolUse);
        reply.content = vec![Content::tool_call("c1", "look", json!({}))];
        let content = vec![Content::text("Seen."), picture()];
        let result = ToolResultMessage::new("c1".into(), "look".into(), content);
        r.history.push_exchange(entry(reply.into()), vec![entry(result.into())]).unwrap();
    };
    let data = || json!("data:image/png;base64,aGVsbG8=");
    let rows = [
        (
            ANTHROPIC,
            vec![
                At("/messages/2/content/0/tool_use_id", json!("c1")),
                At("/messages/2/content/0/content/1/source/data", json!(PIXEL)),
            ],
        ),
        // Results are text there: the picture follows as a message of the user.
        (
            CHAT,
            vec![
                At("/messages/2/content", json!("Seen.")),
                At("/messages/3/role", json!("user")),
                At("/messages/3/content/1/image_url/url", data()),
            ],
        ),
        (
            OLLAMA,
            vec![
                At("/messages/2/content", json!("Seen.")),
                At("/messages/3/role", json!("user")),
                At("/messages/3/images", json!([PIXEL])),
            ],
        ),
        (GEMINI, vec![At("/contents/2/parts/0/functionResponse/parts/0/inlineData/data", json!(PIXEL))]),
        // Before Gemini 3 results are JSON.
        (
            VERTEX,
            vec![
                At("/contents/2/parts/0/functionResponse/response/output", json!("Seen.")),
                At("/contents/3/role", json!("user")),
                At("/contents/3/parts/1/inlineData/data", json!(PIXEL)),
            ],
        ),
        (RESPONSES, vec![At("/input/2/output/1/image_url", data())]),
        (AZURE, vec![At("/input/2/output/1/image_url", data())]),
        (BEDROCK, vec![At("/messages/2/content/0/toolResult/content/1/image/source/bytes", json!(PIXEL))]),
    ];
    table("a result with a picture", &wish, rows).await;
}

/// B-155.
#[tokio::test]
async fn headers_of_a_call_win_over_the_models_and_over_the_protocols() {
    for vendor in ALL {
        let wish = |r: &mut ModelRequest| {
            let model = agent_core::ModelConfig::clone(&r.model)
                .with_header("X-Team", "of the model")
                .with_header("X-Kept", "of the model")
                .with_header("X-Gone", "of the model");
            r.model = model.into();
            r.options.headers.insert("x-team".into(), Some("of the call".into()));
            r.options.headers.insert("x-gone".into(), None);
            r.options.headers.insert("user-agent".into(), Some("theirs/1.0".into()));
            r.options.headers.insert("accept".into(), None);
        };
        let headers = send(vendor, &wish).await.unwrap().headers.to_ascii_lowercase();
        let line = |name: &str| {
            let mut of_name = headers.lines().filter(|l| l.starts_with(&format!("{name}:")));
            let first = of_name.next().map(|l| l.split_once(": ").unwrap().1);
            assert!(of_name.next().is_none(), "{}: {name} twice in {headers}", vendor.name);
            first
        };
        assert_eq!(line("x-team"), Some("of the call"), "{}", vendor.name);
        assert_eq!(line("x-kept"), Some("of the model"), "{}", vendor.name);
        assert_eq!(line("x-gone"), None, "{}", vendor.name);
        assert_eq!(line("user-agent"), Some("theirs/1.0"), "{}", vendor.name);
        // The connection says that it takes anything where nothing is said.
        assert!(line("accept").is_none_or(|accept| accept == "*/*"), "{}: {headers}", vendor.name);
    }
}

#[tokio::test]
async fn headers_of_the_connection_cannot_be_set() {
    for vendor in ALL {
        for name in ["host", "Content-Length", "transfer-encoding", "connection"] {
            let server = Server::start(vec![vendor.answer(&Said::text("x"))]).await;
            let mut request = hello(vendor.at(&format!("http://{}", server.address)));
            request.options.headers.insert(name.into(), Some("1".into()));
            let outcome = call(&ProviderRegistry::default(), &request).await;
            assert!(outcome.error().to_string().contains("belongs to the transport"), "{}", vendor.name);
            assert!(server.asked().is_empty());
        }
    }
}
