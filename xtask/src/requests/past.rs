//! Conversations that a run continues: from the same provider and from others, complete and damaged.

use agent_core::{
    ApiProtocol, AssistantMessage, Content, Entry, History, Message, ModelConfig, StopReason, TOOL_SEARCH,
    ToolArguments, ToolResultMessage,
};
use anyhow::Context as _;
use serde_json::json;

use super::answers;
use super::tools::PIXEL;

/// The end of every conversation: what the model is to answer.
const QUESTION: &str = "And now? Grüße, 你好, שלום, 👩‍👩‍👧, e\u{301}, \"quoted\" \\ \u{7f}\ttab\nline";

/// A conversation in the making.
pub(super) struct Past {
    history: History,
    author: ModelConfig,
}

impl Past {
    /// An empty one, whose replies are by this model.
    pub(super) fn by(author: &ModelConfig) -> Self {
        Self { history: History::new(), author: author.clone() }
    }

    /// One question and nothing else.
    pub(super) fn question() -> anyhow::Result<History> {
        Self::by(&ModelConfig::default()).end()
    }

    /// A user message of these blocks.
    pub(super) fn user(mut self, content: Vec<Content>) -> anyhow::Result<Self> {
        self.history.push(Message::user_content(content).into()).context("a user message")?;
        Ok(self)
    }

    /// A reply without calls.
    pub(super) fn reply(mut self, content: Vec<Content>) -> anyhow::Result<Self> {
        let reply = self.message(StopReason::Stop, content);
        self.history.push(Message::from(reply).into()).context("a reply")?;
        Ok(self)
    }

    /// A reply that failed or was aborted.
    pub(super) fn failed(mut self, reason: StopReason, content: Vec<Content>) -> anyhow::Result<Self> {
        let mut reply = self.message(reason, content);
        reply.error_message = Some("the connection broke".to_owned());
        self.history.push_failed(entry(reply)).context("a failed reply")?;
        Ok(self)
    }

    /// A reply with calls, and what each of them gave: its content, and whether it failed.
    pub(super) fn exchange(
        mut self,
        content: Vec<Content>,
        results: Vec<(Vec<Content>, bool)>,
    ) -> anyhow::Result<Self> {
        let reply = self.message(StopReason::ToolUse, content);
        let results: Vec<Entry> = reply
            .tool_calls()
            .zip(results)
            .map(|(call, (content, is_error))| {
                let mut result = ToolResultMessage::new(call.id.clone(), call.name.clone(), content);
                result.is_error = is_error;
                entry(result)
            })
            .collect();
        self.history.push_exchange(entry(reply), results).context("calls and their results")?;
        Ok(self)
    }

    /// The conversation, with a question at its end.
    pub(super) fn end(self) -> anyhow::Result<History> {
        Ok(self.user(vec![Content::text(QUESTION)])?.history)
    }

    /// The unchanged conversation, which ends with results.
    pub(super) fn open_end(self) -> History {
        self.history
    }

    fn message(&self, reason: StopReason, content: Vec<Content>) -> AssistantMessage {
        let mut reply = AssistantMessage::new(&self.author.provider, &self.author.id, reason);
        reply.api = Some(self.author.api);
        reply.content = match self.author.api {
            ApiProtocol::OpenAiResponses | ApiProtocol::AzureOpenAiResponses => {
                in_items(content, self.history.len())
            }
            _ => content,
        };
        reply
    }

    fn thought(&self, text: &str) -> Content {
        let signature = match self.author.api {
            // The field that it came in.
            ApiProtocol::OpenAiCompletions if self.author.provider == "vllm" => Some("reasoning".to_owned()),
            ApiProtocol::OpenAiCompletions => Some("reasoning_content".to_owned()),
            ApiProtocol::OllamaChat => None,
            _ => Some("c2lnbmF0dXJl".to_owned()),
        };
        Content::thinking(text, signature)
    }
}

/// Blocks as the decoder makes them of the items of the Responses API, each of which has a name. `n` tells the replies of
/// a conversation apart.
fn in_items(content: Vec<Content>, n: usize) -> Vec<Content> {
    let mut out = Vec::new();
    for (at, mut block) in content.into_iter().enumerate() {
        let mark = |kind: &str| Some(json!({"id": format!("{kind}_{n}_{at}")}).to_string());
        match &mut block {
            Content::Text(text) => text.signature = mark("msg"),
            Content::ToolCall(call) => call.signature = call.signature.take().or_else(|| mark("fc")),
            Content::Thinking(thinking) => {
                let blank = thinking.thinking.is_empty();
                let summary = if blank { json!([]) } else { json!([{"type": "summary_text"}]) };
                let item = json!({"type": "reasoning", "id": format!("rs_{n}_{at}"), "summary": summary});
                out.push(Content::opaque("reasoning", item));
                thinking.redacted = false;
            }
            _ => {}
        }
        out.push(block);
    }
    out
}

/// Blocks that only the author knows: what its protocol sends besides text, thinking and calls.
fn opaque(author: &ModelConfig) -> Vec<Content> {
    match author.api {
        ApiProtocol::AnthropicMessages | ApiProtocol::AnthropicVertex => vec![
            Content::opaque(
                "server_tool_use",
                json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "東京"}}),
            ),
            Content::opaque(
                "web_search_tool_result",
                json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}),
            ),
        ],
        ApiProtocol::BedrockConverseStream => vec![
            Content::opaque(
                "toolUse",
                json!({"toolUse": {"toolUseId": "srvtoolu_1", "name": "calc", "type": "server_tool_use", "input": {"of": "東京"}}}),
            ),
            Content::opaque(
                "toolResult",
                json!({"toolResult": {"toolUseId": "srvtoolu_1", "type": "calc_result", "status": "success", "content": [{"json": {"is": 1}}]}}),
            ),
        ],
        ApiProtocol::GoogleGenerativeAi | ApiProtocol::GoogleVertex => vec![
            Content::opaque(
                "executableCode",
                json!({"executableCode": {"language": "PYTHON", "code": "print(2)", "id": "srvtoolu_1"},
                    "thoughtSignature": "c2lnbmF0dXJl"}),
            ),
            Content::opaque(
                "codeExecutionResult",
                json!({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2\n", "id": "srvtoolu_1"}}),
            ),
            Content::opaque("groundingMetadata", json!({"webSearchQueries": ["srvtoolu_1"]})),
        ],
        ApiProtocol::OpenAiCompletions if author.provider == "openrouter" => vec![Content::opaque(
            "reasoning_details",
            json!([{"type": "reasoning.encrypted", "data": "c2VjcmV0", "id": "r1", "format": "unknown", "index": 0}]),
        )],
        ApiProtocol::OpenAiResponses | ApiProtocol::AzureOpenAiResponses => vec![
            Content::opaque(
                "web_search_call",
                json!({"type": "web_search_call", "id": "ws_srvtoolu_1", "status": "completed",
                    "action": {"type": "search", "query": "東京"}}),
            ),
            // This has no answer, so it cannot be sent back.
            Content::opaque(
                "local_shell_call",
                json!({"type": "local_shell_call", "id": "lsh_1", "call_id": "call_shell", "status": "completed",
                    "action": {"type": "exec", "command": ["ls"], "env": {}}}),
            ),
        ],
        _ => Vec::new(),
    }
}

/// A search for a tool, the call of the tool that was found, and the vendor's own search if the author has one.
pub(super) fn with_search(author: &ModelConfig) -> anyhow::Result<Past> {
    let searched = || -> anyhow::Result<Past> {
        let mut past = Past::by(author).user(vec![Content::text("Refund order 7.")])?;
        let reply = past.message(
            StopReason::ToolUse,
            vec![Content::tool_call("call_s", TOOL_SEARCH, json!({"query": "refund"}))],
        );
        let mut result = ToolResultMessage::new(
            "call_s".into(),
            TOOL_SEARCH.into(),
            vec![Content::text("Found 1 tool. You can call it now:\n- refund_order: Refunds an order.")],
        );
        result.details = json!({"tools": [super::tools::found()]});
        past.history.push_exchange(entry(reply), vec![entry(result)]).context("a search")?;
        Ok(past)
    };
    let call = Content::tool_call("call_r", "refund_order", json!({"order": "7"}));
    let mut content = Vec::new();
    let past = if author.api == ApiProtocol::AnthropicMessages {
        let query = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "tool_search_tool_bm25", "input": {"query": "refund"}});
        let found = json!({"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1", "content": {
            "type": "tool_search_tool_search_result",
            "tool_references": [{"type": "tool_reference", "tool_name": "refund_order"}]}});
        content.push(Content::opaque("server_tool_use", query));
        content.push(Content::opaque("tool_search_tool_result", found));
        Past::by(author).user(vec![Content::text("Refund order 7.")])?
    } else {
        searched()?
    };
    content.push(call);
    past.exchange(content, vec![(vec![Content::text("refunded")], false)])
}

fn entry(message: impl Into<Message>) -> Entry {
    Entry::from(agent_core::AgentMessage::from(message.into()))
}

/// A command and patches, whose results are an exit code with output, a success and a failure.
pub(super) fn with_commands(author: &ModelConfig) -> anyhow::Result<Past> {
    let past = Past::by(author).user(vec![Content::text("List the files, then change them.")])?;
    let patch = |section: &str| json!({"input": format!("*** Begin Patch\n{section}*** End Patch")});
    let reply = vec![
        past.thought("I list them first."),
        Content::tool_call("call_c1", "bash", json!({"command": "ls -l | grep \"é\"", "timeout": 5})),
        Content::tool_call("call_c2", "apply_patch", patch("*** Add File: new.txt\n+hello\n")),
        Content::tool_call("call_c3", "apply_patch", patch("*** Delete File: old.txt\n")),
        Content::tool_call(
            "call_c4",
            "apply_patch",
            patch("*** Update File: a.txt\n@@\n-x\n+y\n*** Delete File: b.txt\n"),
        ),
    ];
    past.exchange(
        reply,
        vec![
            (vec![Content::text("Exit code: 1\nSTDOUT:\n\nSTDERR:\nno such file")], false),
            (vec![Content::text("Success.")], false),
            (vec![Content::text("old.txt does not exist")], true),
            (vec![Content::text("Success.")], false),
        ],
    )
}

/// Actions on a computer in the author's form, whose results are a screenshot, a text with a screenshot, and a denial.
pub(super) fn with_screen(author: &ModelConfig) -> anyhow::Result<Past> {
    let past = Past::by(author).user(vec![Content::text("Buy it.")])?;
    let screen = || Content::image(PIXEL, "image/png");
    let openai = matches!(author.api, ApiProtocol::OpenAiResponses | ApiProtocol::AzureOpenAiResponses);
    let actions = match author.api {
        _ if openai => [
            json!({"action": {"type": "screenshot"}}),
            json!({"actions": [
                {"type": "click", "button": "left", "x": 1, "y": 2},
                {"type": "drag", "path": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]},
                {"type": "type", "text": "Grüße"},
            ], "pending_safety_checks": [{"id": "cu_sc_1", "code": "sensitive_domain", "message": "A shop."}]}),
            json!({"action": {"type": "keypress", "keys": ["ENTER"]},
                "pending_safety_checks": [{"id": "cu_sc_2"}]}),
        ],
        ApiProtocol::GoogleGenerativeAi | ApiProtocol::GoogleVertex => [
            json!({"action": "open_web_browser"}),
            json!({"action": "click_at", "x": 1, "y": 999,
                "safety_decision": {"decision": "require_confirmation", "explanation": "A shop."}}),
            json!({"action": "key_combination", "keys": "enter",
                "safety_decision": {"decision": "require_confirmation", "explanation": "A shop."}}),
        ],
        _ => [
            json!({"action": "screenshot"}),
            json!({"action": "left_click", "coordinate": [1, 2]}),
            json!({"action": "key", "text": "Return"}),
        ],
    };
    let results = [
        (vec![screen()], false),
        (vec![Content::text("clicked"), screen()], false),
        (vec![Content::text("The user denied it.")], true),
    ];
    actions.into_iter().zip(results).enumerate().try_fold(past, |past, (at, (arguments, result))| {
        let mut call = Content::tool_call(format!("call_s{at}"), "computer", arguments);
        if let Content::ToolCall(call) = &mut call
            && openai
        {
            call.signature = Some(json!({"type": "computer_call", "id": format!("cu_{at}")}).to_string());
        }
        past.exchange(vec![call], vec![result])
    })
}

/// Thinking, text, four calls at once with ids of the author's kind, results of every kind, more thinking.
pub(super) fn with_tools(author: &ModelConfig) -> anyhow::Result<Past> {
    let ids = match author.api {
        ApiProtocol::AnthropicMessages | ApiProtocol::AnthropicVertex => {
            ["toolu_01A", "toolu_01B", "toolu_01C", "toolu_01D"]
        }
        ApiProtocol::BedrockConverseStream => ["tooluse_a", "tooluse_b", "tooluse_c", "tooluse_d"],
        ApiProtocol::OllamaChat => ["call_0_1", "call_0_2", "call_0_3", "call_0_4"],
        _ => ["call_a", "call_b", "call_c", "call_d"],
    };
    let past = Past::by(author).user(vec![
        Content::text("What is on the picture, and how far is Köln?"),
        Content::image(PIXEL, "image/png"),
        Content::text("Look well."),
    ])?;
    let reply = vec![
        past.thought("I look first, then I plan. 考え"),
        Content::text("Let me see."),
        Content::tool_call(ids[0], "plan_trip", json!({"from": {"town": "Köln"}, "stops": []})),
        Content::tool_call(ids[1], "draw-chart", json!({"series": [{"name": "a\"b", "points": [[0, 1.5]]}]})),
        Content::tool_call(ids[2], "note", json!({})),
        Content::tool_call(ids[3], "clock", json!({})),
    ];
    let results = vec![
        (vec![Content::text("Köln → Köln")], false),
        (vec![Content::image(PIXEL, "image/png")], false),
        (Vec::new(), false),
        (vec![Content::text("no clock here: ⏰"), Content::image(PIXEL, "image/png")], true),
    ];
    let past = past.exchange(reply, results)?;
    let thought = past.thought("That was all.");
    past.reply(vec![thought, Content::text("A pixel, and far.")])
}

/// Calls with ids that no other vendor takes, arguments that are no object, a tool that never was, thinking that was
/// withheld, blocks that only the author knows.
pub(super) fn strange(author: &ModelConfig) -> anyhow::Result<Past> {
    let long = |n: usize| format!("call_{}|fc_{}", "7".repeat(60), "é".repeat(n));
    strange_with(author, [long(40), long(41), "functions.note:2".to_owned(), "chatcmpl-tool-ü".to_owned()])
}

/// The same by the model of the request, which wrote the ids in the form of its own server.
pub(super) fn own_strange(author: &ModelConfig) -> anyhow::Result<Past> {
    let id = |n: usize| answers::own_id(author.api, &format!("functions.note:{n}"));
    strange_with(author, [id(0), id(1), id(2), id(3)])
}

fn strange_with(author: &ModelConfig, [long, like, third, fourth]: [String; 4]) -> anyhow::Result<Past> {
    let mut reply = vec![Content::redacted_thinking("d2l0aGhlbGQ=")];
    reply.extend(opaque(author));
    reply.extend([
        Content::tool_call(long, "plan_trip", json!({"from": {"town": "東京"}, "stops": []})),
        Content::tool_call(like, "no such tool!", json!({"x": 1})),
        Content::tool_call(third, "note", ToolArguments::from_text("{\"half\": ")),
        Content::tool_call(fourth, "note", json!([1, 2])),
    ]);
    let results = vec![
        (vec![Content::text("東京 → 東京")], false),
        (vec![Content::text("there is no tool of that name")], true),
        (vec![Content::text("the arguments are no JSON")], true),
        (vec![Content::text("the arguments are no object")], true),
    ];
    Past::by(author)
        .user(vec![Content::text("Plan something.")])?
        .exchange(reply, results)?
        .reply(vec![Content::text("Planned.")])
}

/// Replies that failed and were aborted, with halves of texts and calls in them.
pub(super) fn broken(author: &ModelConfig) -> anyhow::Result<Past> {
    let past = Past::by(author).user(vec![Content::text("First.")])?;
    let half = vec![
        past.thought("I was about to"),
        Content::text("Half of an ans"),
        Content::tool_call("call_half", "note", ToolArguments::from_text("{\"a")),
    ];
    past.failed(StopReason::Error, half)?
        .user(vec![Content::text("Again.")])?
        .failed(StopReason::Aborted, Vec::new())?
        .user(vec![Content::text("Once more.")])?
        .reply(vec![Content::text("There.")])
}

/// Texts of nothing wherever one can stand, a reply of nothing, thinking without an answer.
pub(super) fn empty(author: &ModelConfig) -> anyhow::Result<Past> {
    let past =
        Past::by(author).user(vec![Content::text(""), Content::text("Hello"), Content::text(" \n")])?;
    let only_thought = past.thought("Nothing to say.");
    let thought = past.thought("");
    past.reply(vec![Content::text("")])?
        .user(vec![Content::text("  ")])?
        .reply(vec![only_thought])?
        .user(vec![Content::text("Still there?")])?
        .exchange(
            vec![thought, Content::text(""), Content::tool_call("call_e", "note", json!({}))],
            vec![(vec![Content::text("")], true)],
        )?
        .reply(vec![Content::text("\n"), Content::text("Yes.")])
}
