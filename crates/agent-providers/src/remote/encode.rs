//! Encodes requests to the server. Each unit of the history is encoded once.

use agent_core::{Encoded, ErrorKind, ModelRequest, ProviderError, Unit, WireKey};
use http::header;

use super::Remote;
use super::wire::VERSION;
use crate::handoff::Handoff;
use crate::json::{Members, write};
use crate::protocol::HttpRequest;
use crate::request;
use crate::server_tools;

/// The path of the endpoint, relative to the server's base address.
pub const PATH: &str = "/v1/stream";

/// The example address in the error for a missing address.
const EXAMPLE: &str = "https://host:port";

pub(super) fn request(remote: &Remote, request: &ModelRequest) -> Result<HttpRequest, ProviderError> {
    let server = request.model.as_ref().clone().with_base_url(&remote.base_url);
    let url = request::endpoint(&server, EXAMPLE, PATH)?;
    let mut headers = request::stream_headers();
    headers.insert(header::AUTHORIZATION, request::credential(&request.model, "Bearer ", &remote.token)?);
    // A request contains no credentials; the server has those of its models.
    if server_tools::secrets(request).next().is_some() {
        let message = "the access token of an MCP server cannot be sent to a Looptree server";
        let advice = "leave with_authorization out, and add the token where the server calls the model";
        return Err(request::refuse(&request.model, ErrorKind::Other, message, advice));
    }
    Ok(HttpRequest { url, headers, body: body(request) })
}

fn body(request: &ModelRequest) -> Vec<u8> {
    let mut out = crate::request::body_buffer(request);
    let mut members = Members::open(&mut out);
    members.field("version", &VERSION);
    members.field("provider", &request.model.provider).field("model", &request.model.id);
    members.field("system_prompt", &*request.system_prompt);
    members.field("tools", request.tools.definitions());
    members.field("thinking_level", &request.options.thinking_level);
    members.field("thinking_budgets", &request.options.thinking_budgets);
    members
        .field("max_tokens", &request.options.max_tokens)
        .field("temperature", &request.options.temperature);
    members.field("cache_config", &request.options.cache_config).field("session_id", &request.session_id);
    members
        .field("tool_choice", &request.options.tool_choice)
        .field("response_format", &request.options.response_format);
    if !request.options.server_tools.is_empty() {
        members.field("server_tools", &request.options.server_tools);
    }
    members.field("stop_sequences", &request.options.stop_sequences);
    members.field("foreign_thinking_as_text", &request.options.foreign_thinking_as_text);
    messages(members.key("messages"), request);
    members.close();
    out
}

fn messages(out: &mut Vec<u8>, request: &ModelRequest) {
    // The form of a message depends on nothing but the message.
    let key = WireKey::new(&["remote"]);
    out.push(b'[');
    let start = out.len();
    Handoff::each_form(&request.history, key, encoded, |form| {
        if out.len() > start {
            out.push(b',');
        }
        out.extend_from_slice(form.bytes());
    });
    out.push(b']');
}

fn encoded(unit: &Unit) -> Encoded {
    let mut bytes = Vec::new();
    for message in unit.entries().iter().filter_map(|entry| entry.message().as_llm()) {
        if !bytes.is_empty() {
            bytes.push(b',');
        }
        write(&mut bytes, message);
    }
    Encoded::new(bytes, [])
}
