//! Parameters: merges those of a path and of an operation, and determines how each is encoded.

use oas3::spec::{ParameterIn, ParameterStyle};
use serde_json::{Map, Value};

use super::arguments::Names;
use super::config::CookieParameters;
use super::document::Document;
use super::error::{OpenApiProblem, Warnings};
use super::reserved::Reserved;
use super::style::{Explode, Keep};

/// How an argument is encoded in a request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Parameter {
    /// The name in the request.
    pub(super) name: String,
    /// The name of the argument for the model.
    pub(super) property: String,
    pub(super) place: ParameterIn,
    pub(super) form: Form,
    pub(super) required: bool,
}

/// The encoding of a value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Form {
    /// In a style of OpenAPI.
    Styled { style: ParameterStyle, explode: Explode, keep: Keep },
    /// As JSON text (a parameter with `content`).
    Json,
    /// As several segments of the path, separated by `/`.
    Segments,
}

/// A parameter and its description.
#[derive(Debug)]
pub(super) struct Described<'a> {
    pub(super) parameter: Parameter,
    pub(super) schema: Option<&'a Value>,
    pub(super) description: Option<String>,
}

/// A parameter as written in the description.
struct Raw<'a> {
    parsed: oas3::spec::Parameter,
    object: &'a Map<String, Value>,
}

/// The error of an operation with too many parameters.
#[derive(Debug, Clone, Copy)]
pub(super) struct TooMany;

/// The settings that decide about parameters in addition to the description.
pub(super) struct Rules<'a> {
    pub(super) reserved: &'a Reserved,
    pub(super) cookies: CookieParameters,
}

/// Returns the parameters of an operation. Its own parameters replace those of the path with the same name and place.
pub(super) fn merged<'a>(
    document: &'a Document,
    lists: [Option<&'a Value>; 2],
    rules: &Rules<'_>,
    names: &mut Names,
    place: &str,
    warnings: &mut Warnings,
) -> Result<Vec<Described<'a>>, TooMany> {
    let mut all: Vec<Raw<'a>> = Vec::new();
    for value in lists.into_iter().flatten().filter_map(Value::as_array).flatten() {
        match read(document, value) {
            Ok(raw) => {
                if let Some(there) = all.iter_mut().find(|there| is_same(&there.parsed, &raw.parsed)) {
                    *there = raw;
                } else if all.len() < super::MAX_PARAMETERS {
                    all.push(raw);
                } else {
                    return Err(TooMany);
                }
            }
            Err((name, why)) => warnings.add(place, OpenApiProblem::ParameterLeftOut { name, why }),
        }
    }
    // Path parameters come first, so that they keep their plain names.
    all.sort_by_key(|raw| match raw.parsed.location {
        ParameterIn::Path => 0,
        ParameterIn::Query => 1,
        ParameterIn::Header => 2,
        ParameterIn::Cookie => 3,
    });
    let mut described = Vec::new();
    for raw in all {
        match offer(&raw, rules) {
            Offer::Yes => described.push(describe(raw, names, place, warnings)),
            Offer::Silently => {}
            Offer::No(why) => {
                let problem = OpenApiProblem::ParameterLeftOut { name: raw.parsed.name, why: why.to_owned() };
                warnings.add(place, problem);
            }
        }
    }
    Ok(described)
}

/// A parameter that the path names without a definition.
pub(super) fn implied<'a>(name: &str, names: &mut Names) -> Described<'a> {
    let parameter = Parameter {
        name: name.to_owned(),
        property: names.of_parameter(name, ParameterIn::Path),
        place: ParameterIn::Path,
        form: Form::Styled { style: ParameterStyle::Simple, explode: Explode::One, keep: Keep::Unreserved },
        required: true,
    };
    Described { parameter, schema: None, description: None }
}

fn is_same(one: &oas3::spec::Parameter, other: &oas3::spec::Parameter) -> bool {
    one.location == other.location
        && match one.location {
            ParameterIn::Header => one.name.eq_ignore_ascii_case(&other.name),
            ParameterIn::Path | ParameterIn::Query | ParameterIn::Cookie => one.name == other.name,
        }
}

fn read<'a>(document: &'a Document, value: &'a Value) -> Result<Raw<'a>, (String, String)> {
    let name = |object: Option<&Map<String, Value>>| {
        let name = object.and_then(|object| object.get("name")).and_then(Value::as_str);
        super::schema::short(name.unwrap_or("(no name)"), 80)
    };
    let object = document.object(value).map_err(|problem| (name(value.as_object()), problem.to_string()))?;
    // Schemas and examples are not passed to oas3, because it would reject the parameter if it did not know one of
    // them.
    let mut small = object.clone();
    small.retain(|key, _| {
        matches!(
            key.as_str(),
            "name" | "in" | "required" | "style" | "explode" | "allowReserved" | "description"
        )
    });
    let parsed = serde_json::from_value(Value::Object(small))
        .map_err(|error| (name(Some(object)), error.to_string()))?;
    Ok(Raw { parsed, object })
}

enum Offer {
    Yes,
    /// The specification or the configuration excludes it, so there is no warning.
    Silently,
    No(&'static str),
}

fn offer(raw: &Raw<'_>, rules: &Rules<'_>) -> Offer {
    let name = raw.parsed.name.as_str();
    if name.is_empty() {
        return Offer::No("it has no name");
    }
    match raw.parsed.location {
        ParameterIn::Header if rules.reserved.has_header(name) => Offer::Silently,
        ParameterIn::Header if reqwest::header::HeaderName::from_bytes(name.as_bytes()).is_err() => {
            Offer::No("its name is not valid for a header")
        }
        ParameterIn::Query if rules.reserved.has_query(name) => Offer::Silently,
        ParameterIn::Cookie if rules.cookies == CookieParameters::Ignored => Offer::Silently,
        ParameterIn::Cookie if rules.reserved.has_cookie(name) => Offer::Silently,
        _ => Offer::Yes,
    }
}

fn describe<'a>(raw: Raw<'a>, names: &mut Names, place: &str, warnings: &mut Warnings) -> Described<'a> {
    let Raw { parsed, object } = raw;
    let location = parsed.location;
    let content =
        object.get("content").and_then(Value::as_object).and_then(|content| content.values().next());
    let is_segments =
        location == ParameterIn::Path && object.get("x-multi-segment") == Some(&Value::Bool(true));
    let usual = match location {
        ParameterIn::Path | ParameterIn::Header => ParameterStyle::Simple,
        ParameterIn::Query | ParameterIn::Cookie => ParameterStyle::Form,
    };
    let style = match parsed.style {
        None => usual,
        Some(style) if fits(style, location) => style,
        Some(style) => {
            let what = format!(
                "the style {style:?} of its parameter `{}` is not for {location:?}; {usual:?} is used",
                parsed.name
            );
            warnings.add(place, OpenApiProblem::Guessed { what });
            usual
        }
    };
    let form = if content.is_some() {
        Form::Json
    } else if is_segments {
        Form::Segments
    } else {
        let explode = parsed.explode.unwrap_or(style == ParameterStyle::Form);
        let reserved = location == ParameterIn::Query && parsed.allow_reserved == Some(true);
        Form::Styled {
            style,
            explode: if explode { Explode::Several } else { Explode::One },
            keep: if reserved { Keep::Reserved } else { Keep::Unreserved },
        }
    };
    let schema = match content {
        Some(content) => content.get("schema"),
        None => object.get("schema"),
    };
    Described {
        parameter: Parameter {
            property: names.of_parameter(&parsed.name, location),
            name: parsed.name,
            place: location,
            form,
            required: location == ParameterIn::Path || parsed.required == Some(true),
        },
        schema,
        description: parsed.description,
    }
}

fn fits(style: ParameterStyle, place: ParameterIn) -> bool {
    match place {
        ParameterIn::Path => {
            matches!(style, ParameterStyle::Simple | ParameterStyle::Label | ParameterStyle::Matrix)
        }
        ParameterIn::Query => {
            !matches!(style, ParameterStyle::Simple | ParameterStyle::Label | ParameterStyle::Matrix)
        }
        ParameterIn::Header => style == ParameterStyle::Simple,
        ParameterIn::Cookie => style == ParameterStyle::Form,
    }
}
