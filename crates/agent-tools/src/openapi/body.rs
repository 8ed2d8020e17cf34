//! Request bodies: selects a media type of the operation and encodes the argument.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use oas3::spec::ParameterStyle;
use serde_json::{Map, Value, json};

use super::document::Document;
use super::error::OpenApiProblem;
use super::multipart::{self, Part};
use super::reserved::is_override;
use super::schema::Inliner;
use super::style::{self, Explode, Keep};
use super::{MAX_REF_HOPS, error::Warnings};

/// How an argument is encoded as a body.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Body {
    /// The name of the argument for the model.
    pub(super) property: String,
    /// The value of `Content-Type`.
    pub(super) media_type: String,
    pub(super) form: Form,
    pub(super) required: bool,
}

/// The encoding of a body.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Form {
    Json,
    /// `application/x-www-form-urlencoded`.
    Urlencoded(BTreeMap<String, Field>),
    /// `multipart/form-data`.
    Multipart(BTreeMap<String, Field>),
    /// Text without an encoding.
    Text,
    /// Bytes; the argument is base64.
    Bytes,
}

/// The encoding of a form field that deviates from the default.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Field {
    content_type: Option<String>,
    styled: Option<(ParameterStyle, Explode, Keep)>,
    is_binary: bool,
}

/// A request body and its description.
#[derive(Debug)]
pub(super) struct Described<'a> {
    pub(super) body: Body,
    pub(super) schema: Option<&'a Value>,
    pub(super) description: Option<&'a str>,
}

/// Returns the preference of a media type; the lowest is used. Returns `None` for a type that cannot be encoded.
fn rank(essence: &str) -> Option<u8> {
    Some(match essence {
        "application/json" => 0,
        _ if essence.ends_with("+json") => 1,
        "*/*" | "application/*" => 2,
        "application/x-www-form-urlencoded" => 3,
        "multipart/form-data" => 4,
        "text/plain" => 5,
        _ if essence.starts_with("multipart/") => return None,
        _ if is_text(essence) => 6,
        _ if essence.contains('/') && !essence.contains('*') => 7,
        _ => return None,
    })
}

/// Returns whether a media type is text that a model can read and write.
pub(super) fn is_text(essence: &str) -> bool {
    essence.starts_with("text/")
        || ["+json", "+xml", "+yaml", "/json", "/xml", "/yaml", "/x-yaml", "/javascript", "/graphql", "/csv"]
            .iter()
            .any(|end| essence.ends_with(end))
        || ["/x-ndjson", "/ndjson", "/jsonl", "/json-seq", "/x-www-form-urlencoded", "/toml", "/sql"]
            .iter()
            .any(|end| essence.ends_with(end))
}

/// Returns a media type in lower case without its parameters, which follow a `;`.
pub(super) fn essence(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Returns the body of an operation.
///
/// # Errors
/// Returns the reason why a required body cannot be encoded.
pub(super) fn described<'a>(
    document: &'a Document,
    value: &'a Value,
    place: &str,
    warnings: &mut Warnings,
) -> Result<Option<Described<'a>>, String> {
    let object = document.object(value).map_err(|problem| format!("its body cannot be read: {problem}"))?;
    let required = object.get("required") == Some(&Value::Bool(true));
    let content = object.get("content").and_then(Value::as_object);
    let usable = content.into_iter().flatten().filter_map(|(media_type, value)| {
        reqwest::header::HeaderValue::from_str(media_type).ok()?;
        Some((rank(&essence(media_type))?, media_type, value))
    });
    let Some((rank, media_type, value)) = usable.min_by_key(|(rank, ..)| *rank) else {
        let why = "none of the media types of its body can be made here";
        if required {
            return Err(why.to_owned());
        }
        if content.is_some_and(|content| !content.is_empty()) {
            warnings.add(place, OpenApiProblem::Guessed { what: format!("{why}; it is called without one") });
        }
        return Ok(None);
    };
    let schema = value.get("schema");
    let form = match rank {
        0..=2 => Form::Json,
        3 => Form::Urlencoded(fields(document, schema, value.get("encoding"))),
        4 => Form::Multipart(fields(document, schema, value.get("encoding"))),
        5 | 6 => Form::Text,
        _ => Form::Bytes,
    };
    let media_type = if rank == 2 { "application/json".to_owned() } else { media_type.clone() };
    let description = object.get("description").and_then(Value::as_str);
    let body = Body { property: String::new(), media_type, form, required };
    Ok(Some(Described { body, schema, description }))
}

/// Returns the schema of a body for the model.
pub(super) fn schema(described: &Described<'_>, inliner: &mut Inliner<'_>) -> Value {
    let mut schema = match &described.body.form {
        Form::Json => described.schema.map_or_else(|| json!({}), |schema| inliner.inline(schema)),
        Form::Urlencoded(_) => form_schema(described, inliner),
        Form::Multipart(fields) => {
            let mut schema = form_schema(described, inliner);
            for (name, _) in fields.iter().filter(|(_, field)| field.is_binary) {
                if let Some(field) = schema.get_mut("properties").and_then(|all| all.get_mut(name)) {
                    as_base64(field);
                }
            }
            schema
        }
        Form::Text => json!({"type": "string"}),
        Form::Bytes => json!({"type": "string", "contentEncoding": "base64"}),
    };
    let kind = match &described.body.form {
        Form::Json | Form::Urlencoded(_) | Form::Multipart(_) => None,
        Form::Text | Form::Bytes => Some(described.body.media_type.as_str()),
    };
    let text = match (described.description, kind) {
        (Some(text), Some(kind)) => Some(format!("{text} ({kind})")),
        (Some(text), None) => Some(text.to_owned()),
        (None, Some(kind)) => Some(format!("The body: {kind}")),
        (None, None) => None,
    };
    if let Some(schema) = schema.as_object_mut()
        && let Some(text) = inliner.measure.description(text.as_deref())
    {
        schema.entry("description").or_insert(text);
    }
    schema
}

fn form_schema(described: &Described<'_>, inliner: &mut Inliner<'_>) -> Value {
    let schema = described.schema.map_or_else(|| json!({}), |schema| inliner.inline(schema));
    match schema {
        Value::Object(mut schema) if !schema.contains_key("anyOf") => {
            schema.insert("type".to_owned(), json!("object"));
            Value::Object(schema)
        }
        other => other,
    }
}

fn as_base64(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    if let Some(items) = object.get_mut("items") {
        as_base64(items);
        return;
    }
    object.retain(|key, _| key == "description");
    object.insert("type".to_owned(), json!("string"));
    object.insert("contentEncoding".to_owned(), json!("base64"));
}

/// Returns the encodings of form fields that deviate from the default.
fn fields(document: &Document, schema: Option<&Value>, encoding: Option<&Value>) -> BTreeMap<String, Field> {
    let mut fields: BTreeMap<String, Field> = BTreeMap::new();
    let mut binary = Vec::new();
    if let Some(schema) = schema {
        binary_fields(document, schema, 4, &mut binary);
    }
    for name in binary {
        fields.entry(name).or_default().is_binary = true;
    }
    for (name, value) in encoding.and_then(Value::as_object).into_iter().flatten() {
        let mut small = value.clone();
        if let Some(object) = small.as_object_mut() {
            object.remove("headers");
        }
        let Ok(encoding) = serde_json::from_value::<oas3::spec::Encoding>(small) else { continue };
        let field = fields.entry(name.clone()).or_default();
        let first = encoding.content_type.as_deref().and_then(|types| types.split(',').next()).map(str::trim);
        field.content_type = first
            .filter(|kind| !kind.contains('*') && reqwest::header::HeaderValue::from_str(kind).is_ok())
            .map(str::to_owned);
        if encoding.style.is_some() || encoding.explode.is_some() || encoding.allow_reserved.is_some() {
            let style =
                encoding.style.map(Value::String).and_then(|style| serde_json::from_value(style).ok());
            let style = style.unwrap_or(ParameterStyle::Form);
            let explode = encoding.explode.unwrap_or(style == ParameterStyle::Form);
            let keep = if encoding.allow_reserved == Some(true) { Keep::Reserved } else { Keep::Unreserved };
            field.styled = Some((style, if explode { Explode::Several } else { Explode::One }, keep));
        }
    }
    fields
}

/// Collects the fields that contain bytes.
fn binary_fields(document: &Document, schema: &Value, depth: usize, out: &mut Vec<String>) {
    let Ok(object) = document.object(schema) else { return };
    for (name, schema) in object.get("properties").and_then(Value::as_object).into_iter().flatten() {
        if is_binary(document, schema) {
            out.push(name.clone());
        }
    }
    if depth > 0 {
        let parts = object.get("allOf").and_then(Value::as_array).into_iter().flatten();
        parts.take(MAX_REF_HOPS).for_each(|part| binary_fields(document, part, depth - 1, out));
    }
}

fn is_binary(document: &Document, schema: &Value) -> bool {
    let Ok(object) = document.object(schema) else { return false };
    let item = match object.get("items") {
        Some(items) => match document.object(items) {
            Ok(items) => items,
            Err(_) => return false,
        },
        None => object,
    };
    let text = |key: &str| item.get(key).and_then(Value::as_str);
    // OpenAPI 3.0 uses `format: binary`, 3.1 a media type without an encoding.
    text("format") == Some("binary")
        || (text("contentMediaType").is_some_and(|kind| !is_text(&essence(kind)))
            && text("contentEncoding").is_none())
}

/// Returns the `Content-Type` and the bytes of a body.
///
/// # Errors
/// Returns the reason why the argument cannot be encoded.
pub(super) fn written(body: &Body, value: &Value) -> Result<(String, Vec<u8>), String> {
    let property = &body.property;
    let media_type = body.media_type.clone();
    match &body.form {
        Form::Json => Ok((media_type, value.to_string().into_bytes())),
        Form::Urlencoded(fields) => {
            let mut pairs = Vec::new();
            for (name, value) in named_fields(property, value)? {
                let written = form_pairs(name, value, fields.get(name));
                pairs.extend(written.map_err(|why| format!("`{property}.{name}` {why}"))?);
            }
            Ok((media_type, pairs.join("&").into_bytes()))
        }
        Form::Multipart(fields) => {
            let mut parts = Vec::new();
            for (name, value) in named_fields(property, value)? {
                form_parts(property, name, value, fields.get(name), &mut parts)?;
            }
            Ok(multipart::written(&parts))
        }
        Form::Text => Ok((media_type, style::plain(value).into_bytes())),
        Form::Bytes => Ok((media_type, bytes(property, value)?)),
    }
}

/// Returns the fields of a form. Frameworks read the method of a request from some names.
fn named_fields<'a>(property: &str, value: &'a Value) -> Result<&'a Map<String, Value>, String> {
    let fields = value.as_object().ok_or_else(|| format!("`{property}` must be an object: it is a form"))?;
    match fields.keys().find(|name| is_override(name)) {
        Some(name) => {
            Err(format!("`{property}` sets `{name}`, which would override the method of the request"))
        }
        None => Ok(fields),
    }
}

fn bytes(property: &str, value: &Value) -> Result<Vec<u8>, String> {
    let text = value.as_str().ok_or_else(|| format!("`{property}` must be a text of base64"))?;
    STANDARD.decode(text.trim()).map_err(|error| format!("`{property}` is no base64: {error}"))
}

fn form_pairs(name: &str, value: &Value, field: Option<&Field>) -> Result<Vec<String>, &'static str> {
    let (styled, is_json) = match field {
        Some(field) => {
            (field.styled, field.content_type.as_deref().is_some_and(|kind| essence(kind).ends_with("json")))
        }
        None => (None, false),
    };
    let (style, explode, keep) = styled.unwrap_or((ParameterStyle::Form, Explode::Several, Keep::Unreserved));
    // Without a style, an object is encoded as JSON and a list as several fields.
    let json = match value {
        _ if styled.is_some() => None,
        Value::Null => None,
        _ if is_json => Some(value.to_string()),
        Value::Object(_) => Some(value.to_string()),
        _ => None,
    };
    if let Some(json) = json {
        let name = style::encoded(name, Keep::Unreserved);
        return Ok(vec![format!("{name}={}", style::encoded(&json, Keep::Unreserved))]);
    }
    let pairs = style::pairs(name, value, style, explode, keep)?;
    Ok(pairs.into_iter().map(|pair| pair.text).collect())
}

fn form_parts(
    property: &str,
    name: &str,
    value: &Value,
    field: Option<&Field>,
    out: &mut Vec<Part>,
) -> Result<(), String> {
    match value {
        Value::Null => return Ok(()),
        // Each item of a list becomes a part, unless the field has a content type.
        Value::Array(items) if field.is_none_or(|field| field.is_binary || field.content_type.is_none()) => {
            return items.iter().try_for_each(|item| form_parts(property, name, item, field, out));
        }
        _ => {}
    }
    let wanted = field.and_then(|field| field.content_type.clone());
    let mut part = Part { name: name.to_owned(), filename: None, content_type: wanted, bytes: Vec::new() };
    if field.is_some_and(|field| field.is_binary) {
        part.bytes = bytes(&format!("{property}.{name}"), value)?;
        part.filename = Some(name.to_owned());
        part.content_type.get_or_insert_with(|| "application/octet-stream".to_owned());
    } else if value.is_object() || value.is_array() {
        part.bytes = value.to_string().into_bytes();
        part.content_type.get_or_insert_with(|| "application/json".to_owned());
    } else {
        let is_json = part.content_type.as_deref().is_some_and(|kind| essence(kind).ends_with("json"));
        part.bytes = if is_json { value.to_string() } else { style::plain(value) }.into_bytes();
    }
    out.push(part);
    Ok(())
}
