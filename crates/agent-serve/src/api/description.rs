//! The OpenAPI description of the routes.

use std::collections::BTreeMap;

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::auth::OPEN_ROUTES;
use super::routes::{Answer, Body, Route, all, error_schema};
use crate::conversation::requests::MAX_KEY;

/// Returns the description.
pub(super) fn document() -> Value {
    let settings = || {
        SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        })
    };
    let mut requests = settings().into_generator();
    let mut answers = settings().for_serialize().into_generator();
    let error = error_schema(&mut answers);
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for route in all() {
        let operation = operation(&route, &mut requests, &mut answers);
        paths.entry(route.path).or_default().insert(route.method.to_owned(), operation);
    }
    let mut schemas = requests.take_definitions(true);
    schemas.extend(answers.take_definitions(true));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Looptree",
            "description": "Conversations with agents, resumable events, approvals, files, and routes that OpenAI's clients use.",
            "version": env!("CARGO_PKG_VERSION"),
        },
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "responses": {
                "Error": {
                    "description": "What happened, and what to do",
                    "content": {"application/json": {"schema": error}},
                },
            },
            "schemas": schemas,
        },
    })
}

fn operation(route: &Route, requests: &mut SchemaGenerator, answers: &mut SchemaGenerator) -> Value {
    let mut parameters: Vec<Value> = names_in(route.path)
        .map(|name| {
            let schema = json!({"type": "string", "minLength": 1});
            json!({"name": name, "in": "path", "required": true, "schema": schema})
        })
        .collect();
    parameters.extend(query(route, requests));
    if matches!(route.answer, Answer::Events) {
        let schema = json!({"type": "integer", "minimum": 0});
        parameters.push(json!({
            "name": "Last-Event-ID", "in": "header", "required": false, "schema": schema,
            "description": "The number of the last event that the reader has",
        }));
    }
    if route.method == "post" {
        let schema = json!({"type": "string", "minLength": 1, "maxLength": MAX_KEY, "pattern": "^[!-~]+$"});
        parameters.push(json!({
            "name": "Idempotency-Key", "in": "header", "required": false, "schema": schema,
            "description": "A new value for each request. A request that is repeated with its key and its body is not performed twice and gets the first answer",
        }));
    }
    let content = match route.answer {
        Answer::Nothing => None,
        Answer::Json(schema) => Some(json!({"application/json": {"schema": schema(answers)}})),
        Answer::JsonOrEvents(schema) => Some(json!({
            "application/json": {"schema": schema(answers)},
            "text/event-stream": {"schema": {"type": "string"}},
        })),
        Answer::Events => Some(json!({"text/event-stream": {"schema": {"type": "string"}}})),
        Answer::Other("application/json") => Some(json!({"application/json": {"schema": {}}})),
        Answer::Other("application/octet-stream") => Some(json!({"application/octet-stream": {}})),
        Answer::Other(kind) => {
            let kind = kind.split(';').next().unwrap_or(kind);
            Some(json!({kind: {"schema": {"type": "string"}}}))
        }
    };
    let mut answer = json!({"description": route.summary});
    if let (Some(answer), Some(content)) = (answer.as_object_mut(), content) {
        answer.insert("content".to_owned(), content);
    }
    let mut operation = json!({
        "operationId": route.name,
        "summary": route.summary,
        "parameters": parameters,
        "responses": {
            route.status.to_string(): answer,
            "default": {"$ref": "#/components/responses/Error"},
        },
    });
    let body = match route.body {
        Body::None => None,
        Body::Json(schema) => Some(json!({"application/json": {"schema": schema(requests)}})),
        #[cfg(feature = "files")]
        Body::Bytes => Some(json!({"application/octet-stream": {}})),
    };
    if let Some(operation) = operation.as_object_mut() {
        if let Some(content) = body {
            operation.insert("requestBody".to_owned(), json!({"required": true, "content": content}));
        }
        if OPEN_ROUTES.contains(&route.path) {
            operation.insert("security".to_owned(), json!([]));
        }
    }
    operation
}

/// Returns the parameters in a path.
fn names_in(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

/// Returns the parameters of the query.
fn query(route: &Route, requests: &mut SchemaGenerator) -> Vec<Value> {
    let Some(of) = route.query else { return Vec::new() };
    let schema = of(requests).to_value();
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let members = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    members
        .into_iter()
        .map(|(name, mut schema)| {
            let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
            let is_required = required.iter().any(|one| *one == name.as_str());
            // A query has no null.
            let kinds = schema.get("type").and_then(Value::as_array);
            let kind = kinds.and_then(|kinds| kinds.iter().find(|kind| **kind != "null").cloned());
            if let (Some(kind), Some(schema)) = (kind, schema.as_object_mut()) {
                schema.insert("type".to_owned(), kind);
            }
            json!({"name": name, "in": "query", "required": is_required, "schema": schema, "description": description})
        })
        .collect()
}
