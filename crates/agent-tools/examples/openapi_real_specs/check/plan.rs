//! An independent reader of the operations of a description.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::server::Request;

/// An operation.
#[derive(Debug)]
pub struct Plan {
    pub path: String,
    pub params: Vec<Param>,
    /// The media type, the schema and the encoding of the body.
    pub bodies: Vec<(String, Value, Value)>,
    pub security: Option<Value>,
    /// The operation has a part that cannot be resolved, so it cannot be checked.
    pub is_undescribed: bool,
}

/// A parameter.
#[derive(Debug, Clone)]
pub struct Param {
    pub name: String,
    pub place: String,
    pub style: String,
    pub explode: bool,
    pub is_json: bool,
    pub is_multi: bool,
    /// The name of the argument.
    pub property: String,
}

/// The place of a credential.
#[derive(Debug, Clone)]
pub enum Scheme {
    Header(String),
    Query(String),
    Cookie(String),
    Bearer,
    Basic,
    Other(String),
    /// A form that a header cannot contain.
    None,
}

impl Plan {
    /// Returns the arguments without items that contain the separator of their style, which the style cannot express.
    pub fn fitting(&self, mut arguments: Map<String, Value>) -> Map<String, Value> {
        for param in self.params.iter().filter(|param| param.style.ends_with("Delimited")) {
            if let Some(value) = arguments.get_mut(&param.property) {
                without_marks(value);
            }
        }
        arguments
    }
}

fn without_marks(value: &mut Value) {
    match value {
        Value::String(text) => *text = text.replace([' ', '|'], "-"),
        Value::Array(items) => items.iter_mut().for_each(without_marks),
        Value::Object(fields) => fields.values_mut().for_each(without_marks),
        _ => {}
    }
}

pub fn resolved<'a>(root: &'a Value, value: &'a Value) -> Option<&'a Value> {
    let mut value = value;
    for _ in 0..50 {
        match value.get("$ref").and_then(Value::as_str) {
            None => return Some(value),
            Some(reference) => value = at(root, reference)?,
        }
    }
    None
}

/// Decodes a name in a reference, which may be percent-encoded.
fn at<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let pointer = super::read::decoded(reference.strip_prefix('#')?);
    root.pointer(&pointer)
}

pub fn schemes(root: &Value) -> Vec<(String, Scheme)> {
    let all = root["components"]["securitySchemes"].as_object().into_iter().flatten();
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    all.filter_map(|(name, value)| {
        let value = resolved(root, value)?;
        let scheme = match (value["type"].as_str()?, value["in"].as_str().unwrap_or_default()) {
            ("apiKey", "header") => Scheme::Header(text(value, "name")),
            ("apiKey", "query") => Scheme::Query(text(value, "name")),
            ("apiKey", "cookie") => Scheme::Cookie(text(value, "name")),
            ("http", _) => match text(value, "scheme").to_ascii_lowercase().as_str() {
                "basic" => Scheme::Basic,
                "bearer" => Scheme::Bearer,
                _ => Scheme::Other(text(value, "scheme")),
            },
            ("oauth2" | "openIdConnect", _) => Scheme::Bearer,
            _ => Scheme::None,
        };
        Some((name.clone(), scheme))
    })
    .collect()
}

pub fn operations(root: &Value) -> BTreeMap<(String, String), Plan> {
    let mut plans = BTreeMap::new();
    let keys = schemes(root);
    for (path, item) in root["paths"].as_object().into_iter().flatten() {
        let Some(item) = resolved(root, item) else { continue };
        for method in ["get", "put", "post", "delete", "options", "head", "patch"] {
            let Some(operation) = item.get(method) else { continue };
            let plan = plan(root, path, item, operation, &keys);
            plans.insert((method.to_ascii_uppercase(), path.clone()), plan);
        }
    }
    plans
}

fn plan(root: &Value, path: &str, item: &Value, operation: &Value, keys: &[(String, Scheme)]) -> Plan {
    let mut is_undescribed = false;
    let mut params: Vec<Param> = Vec::new();
    for list in [&item["parameters"], &operation["parameters"]] {
        for value in list.as_array().into_iter().flatten() {
            match resolved(root, value).and_then(param) {
                None => is_undescribed = true,
                Some(param) => {
                    params.retain(|there| (&there.name, &there.place) != (&param.name, &param.place));
                    params.push(param);
                }
            }
        }
    }
    params.retain(|param| is_offered(param, keys));
    for hole in path.split('{').skip(1).filter_map(|rest| rest.split('}').next()) {
        if !params.iter().any(|param| param.place == "path" && param.name == hole) {
            params.push(param(&serde_json::json!({"name": hole, "in": "path"})).unwrap());
        }
    }
    params.retain(|param| param.place != "path" || path.contains(&format!("{{{}}}", param.name)));
    params.sort_by_key(|param| {
        ["path", "query", "header", "cookie"].iter().position(|place| param.place == *place)
    });
    let mut taken: Vec<String> = Vec::new();
    for param in &mut params {
        let clean = |text: &str| -> String {
            let valid = |c: char| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '_' };
            text.chars().take(64).map(valid).collect()
        };
        let mut property = clean(&param.name);
        if taken.contains(&property) {
            property = clean(&format!("{}_{}", param.place, param.name));
        }
        taken.push(property.clone());
        param.property = property;
    }
    let body = resolved(root, &operation["requestBody"]);
    let content = body.map(|body| &body["content"]).and_then(Value::as_object).into_iter().flatten();
    Plan {
        path: path.to_owned(),
        bodies: content
            .map(|(kind, value)| (kind.clone(), value["schema"].clone(), value["encoding"].clone()))
            .collect(),
        security: operation.get("security").or(root.get("security")).cloned(),
        params,
        is_undescribed: is_undescribed || (operation.get("requestBody").is_some() && body.is_none()),
    }
}

fn param(value: &Value) -> Option<Param> {
    let place = value["in"].as_str()?.to_owned();
    let usual = if matches!(place.as_str(), "path" | "header") { "simple" } else { "form" };
    let style = value["style"].as_str().unwrap_or(usual).to_owned();
    let explode = value["explode"].as_bool().unwrap_or(style == "form");
    Some(Param {
        name: value["name"].as_str()?.to_owned(),
        is_json: value.get("content").is_some(),
        is_multi: value["x-multi-segment"] == true,
        property: String::new(),
        place,
        style,
        explode,
    })
}

/// Returns whether the model can set the parameter.
fn is_offered(param: &Param, keys: &[(String, Scheme)]) -> bool {
    let name = param.name.to_ascii_lowercase();
    match param.place.as_str() {
        "header" => {
            !["accept", "content-type", "authorization", "host", "cookie", "origin", "referer"]
                .contains(&name.as_str())
                && !keys.iter().any(
                    |(_, scheme)| matches!(scheme, Scheme::Header(key) if key.to_ascii_lowercase() == name),
                )
        }
        "query" => !keys.iter().any(|(_, scheme)| matches!(scheme, Scheme::Query(key) if *key == param.name)),
        "cookie" => {
            !keys.iter().any(|(_, scheme)| matches!(scheme, Scheme::Cookie(key) if *key == param.name))
        }
        _ => true,
    }
}

/// Returns whether the request contains the credentials of the first alternative that is configured.
pub fn credential_problems(
    plan: &Plan,
    root: &Value,
    schemes: &[(String, Scheme)],
    request: &Request,
) -> Vec<String> {
    let _ = root;
    let find = |name: &String| schemes.iter().find(|(known, _)| known == name).map(|(_, scheme)| scheme);
    let alternatives = plan.security.as_ref().and_then(Value::as_array).into_iter().flatten();
    let wanted = alternatives.filter_map(Value::as_object).find(|wanted| {
        !wanted.is_empty()
            && wanted.keys().all(|name| find(name).is_some_and(|scheme| !matches!(scheme, Scheme::None)))
    });
    let authorization = request.header("authorization");
    let Some(wanted) = wanted else {
        return authorization.map(|_| "an authorization that nobody wants".to_owned()).into_iter().collect();
    };
    let is_there = |scheme: &Scheme| match scheme {
        Scheme::Header(name) => request.header(name).as_deref() == Some("token-of-caller"),
        Scheme::Query(name) => {
            super::read::pairs(&request.query).contains(&(name.clone(), "token-of-caller".to_owned()))
        }
        Scheme::Cookie(name) => request
            .header("cookie")
            .is_some_and(|all| all.split("; ").any(|one| one == format!("{name}=token-of-caller"))),
        // If two schemes of an alternative use the same header, one of them is sent.
        Scheme::Bearer | Scheme::Basic | Scheme::Other(_) => authorization.is_some(),
        Scheme::None => true,
    };
    wanted
        .keys()
        .filter(|name| !find(name).is_some_and(is_there))
        .map(|name| format!("no credential for {name}"))
        .collect()
}
