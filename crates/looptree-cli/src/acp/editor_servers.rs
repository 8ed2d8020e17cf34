//! The MCP servers that an editor passes for a session.
//!
//! Editors write the entries in several forms. An entry that cannot be read must not cost the session, so the entries are brought
//! to the form of the schema, and the others are left out with the reason.

use serde_json::{Map, Value, json};

#[cfg(test)]
mod tests;

/// The member of `_meta` with the entries that were left out.
const LEFT_OUT: &str = "looptree.dev/leftOutServers";

/// The most characters of an editor's word that a message repeats.
const MAX_WORD: usize = 40;

/// Returns the message with the entries of `mcpServers` in the form of the schema. Other messages are unchanged.
pub(super) fn normalize(line: String) -> String {
    // Prompts can be long, so they are not parsed.
    if !["new", "load", "resume"].iter().any(|verb| line.contains(&format!("session/{verb}\""))) {
        return line;
    }
    let Ok(mut message) = serde_json::from_str::<Value>(&line) else { return line };
    let method = message.get("method").and_then(Value::as_str);
    let opens = matches!(method, Some("session/new" | "session/load" | "session/resume"));
    let Some(params) = message.get_mut("params").and_then(Value::as_object_mut).filter(|_| opens) else {
        return line;
    };
    let (mut servers, mut left_out) = (Vec::new(), Vec::new());
    match params.get("mcpServers") {
        None | Some(Value::Null) => {}
        Some(Value::Array(entries)) => {
            for (place, entry) in entries.iter().enumerate() {
                let name = entry["name"].as_str().filter(|name| !name.trim().is_empty());
                match (name, read_entry(entry)) {
                    (Some(_), Ok(entry)) => servers.push(entry),
                    (Some(name), Err(why)) => left_out.push(json!([word(name), why])),
                    (None, _) => left_out.push(json!([format!("{}", place + 1), "its entry has no name"])),
                }
            }
        }
        Some(_) => left_out.push(json!(["of the editor", "mcpServers is not a list"])),
    }
    params.insert("mcpServers".to_owned(), Value::Array(servers));
    if !matches!(params.get("_meta"), Some(Value::Object(_))) {
        params.insert("_meta".to_owned(), json!({}));
    }
    if let Some(meta) = params.get_mut("_meta").and_then(Value::as_object_mut) {
        meta.insert(LEFT_OUT.to_owned(), Value::Array(left_out));
    }
    message.to_string()
}

/// Returns the names of the entries that [`normalize`] left out, with the reasons.
pub(super) fn omissions(meta: Option<&Map<String, Value>>) -> Vec<(String, String)> {
    let entries = meta.and_then(|meta| meta.get(LEFT_OUT)).and_then(Value::as_array);
    let pair = |entry: &Value| Some((entry[0].as_str()?.to_owned(), entry[1].as_str()?.to_owned()));
    entries.into_iter().flatten().filter_map(pair).collect()
}

/// Returns an entry in the form of the schema, or why it cannot be used. The reason has no value, which may be a secret.
fn read_entry(entry: &Value) -> Result<Value, String> {
    let text = |member: &str| match entry[member].as_str() {
        Some(text) if !text.is_empty() => Ok(text),
        Some(_) => Err(format!("{member} is empty")),
        None if entry[member].is_null() => Err(format!("{member} is missing")),
        None => Err(format!("{member} is not a string")),
    };
    match entry["type"].as_str() {
        None if !entry["type"].is_null() => Err("type is not a string".to_owned()),
        None if entry["command"].is_null() && entry["url"].is_string() => http(entry, text("url")?),
        None | Some("stdio") => {
            let args = match &entry["args"] {
                Value::Null => json!([]),
                Value::Array(args) if args.iter().all(Value::is_string) => json!(args),
                _ => return Err("args is not a list of strings".to_owned()),
            };
            Ok(json!({
                "name": entry["name"], "command": text("command")?, "args": args, "env": pairs(entry, "env")?,
            }))
        }
        Some("http" | "streamable-http" | "streamableHttp" | "streamable_http") => http(entry, text("url")?),
        Some("sse") => {
            Err("it uses the old transport SSE, which this agent does not have; use stdio or http".to_owned())
        }
        Some(kind) => {
            Err(format!("its transport {:?} is not known to this agent; use stdio or http", word(kind)))
        }
    }
}

fn http(entry: &Value, url: &str) -> Result<Value, String> {
    Ok(json!({ "type": "http", "name": entry["name"], "url": url, "headers": pairs(entry, "headers")? }))
}

/// Returns the pairs of an object, or of a list of names and values, as the list that the schema has.
fn pairs(entry: &Value, member: &str) -> Result<Value, String> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    };
    let pairs = match &entry[member] {
        Value::Null => Some(Vec::new()),
        Value::Object(pairs) => {
            let pair =
                |(name, value): (&String, &Value)| Some(json!({ "name": name, "value": text(value)? }));
            pairs.iter().map(pair).collect()
        }
        Value::Array(pairs) => {
            let pair = |pair: &Value| {
                let name = pair["name"].as_str().filter(|name| !name.is_empty())?;
                Some(json!({ "name": name, "value": text(&pair["value"])? }))
            };
            pairs.iter().map(pair).collect()
        }
        _ => None,
    };
    let pairs: Option<Vec<Value>> = pairs;
    pairs.map(Value::Array).ok_or_else(|| format!("{member} is not a list of names and values"))
}

/// Returns the beginning of a word, without control characters.
fn word(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_WORD).collect()
}
