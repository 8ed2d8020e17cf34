//! Reads the operations of a description.

use std::borrow::Cow;
use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Map, Value};

use super::arguments::Names;
use super::body;
use super::config::{MissingIds, OpenApiConfig};
use super::credentials::Credentials;
use super::document::Document;
use super::error::{OpenApiError, OpenApiProblem, Warnings};
use super::filter::{Candidate, OperationFilter};
use super::operation::{self, Operation};
use super::parameter::{self, Rules};
use super::path::Template;
use super::schema::{self, Work, short};
use super::server::Base;
use super::{MAX_DESCRIPTION_BYTES, MAX_OPERATIONS, MAX_PARAMETERS, MAX_SCHEMA_NODES};

/// The maximum length of the `Accept` header, in bytes.
const MAX_ACCEPT_BYTES: usize = 500;

/// The maximum length of an operation id, in bytes.
const MAX_ID_BYTES: usize = 512;

/// The methods of a path.
const METHODS: [(&str, Method); 7] = [
    ("get", Method::GET),
    ("put", Method::PUT),
    ("post", Method::POST),
    ("delete", Method::DELETE),
    ("options", Method::OPTIONS),
    ("head", Method::HEAD),
    ("patch", Method::PATCH),
];

/// Methods that are not called: `trace` returns the request with its credentials, and the others belong to later
/// versions.
const NOT_CALLED: [&str; 3] = ["trace", "query", "additionalOperations"];

/// Reads the operations of a description.
pub(super) struct Reader<'a> {
    pub(super) document: &'a Document,
    pub(super) config: &'a OpenApiConfig,
    pub(super) filter: &'a OperationFilter,
    pub(super) credentials: &'a Credentials,
    /// The address that the description came from.
    pub(super) address: Option<reqwest::Url>,
    pub(super) warnings: &'a mut Warnings,
    work: Work,
    ids: BTreeSet<String>,
    /// The address of the API, or the reason why there is none.
    base: Result<Base, String>,
    /// Whether an operation without its own server needs it.
    is_base_wanted: bool,
    /// The origins that may receive credentials.
    origins: Vec<String>,
    asked: BTreeSet<String>,
}

/// A path and its description.
struct Path<'a> {
    text: &'a str,
    item: &'a Map<String, Value>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        document: &'a Document,
        config: &'a OpenApiConfig,
        filter: &'a OperationFilter,
        credentials: &'a Credentials,
        address: Option<reqwest::Url>,
        warnings: &'a mut Warnings,
    ) -> Result<Self, OpenApiError> {
        let base = match &config.base_url {
            Some(url) => Ok(Base::given(url)?),
            None => Base::of_servers(document.field("servers"), address.as_ref(), &config.variables),
        };
        let mut origins = Vec::new();
        for origin in &config.origins {
            origins.push(Base::given(origin)?.origin());
        }
        origins.extend(base.iter().map(Base::origin));
        Ok(Self {
            document,
            config,
            filter,
            credentials,
            address,
            warnings,
            work: Work { nodes: MAX_SCHEMA_NODES },
            ids: BTreeSet::new(),
            base,
            is_base_wanted: false,
            origins,
            asked: BTreeSet::new(),
        })
    }

    /// Returns the operations that the filter selects.
    pub(super) fn operations(mut self) -> Result<Vec<Operation>, OpenApiError> {
        let mut operations = Vec::new();
        let paths = self.document.field("paths").and_then(Value::as_object);
        for (text, item) in paths.into_iter().flatten().filter(|(text, _)| !text.starts_with("x-")) {
            let shown = short(text, 200);
            let item = match self.document.object(item) {
                Ok(item) => item,
                Err(problem) => {
                    self.warnings.add(&shown, OpenApiProblem::LeftOut { why: problem.to_string() });
                    continue;
                }
            };
            let path = Path { text, item };
            for (name, value) in item {
                let Some((_, method)) = METHODS.into_iter().find(|(known, _)| known == name) else {
                    if NOT_CALLED.contains(&name.as_str()) {
                        let place = format!("{} {shown}", name.to_ascii_uppercase());
                        let why = "its method is none that is called here".to_owned();
                        self.warnings.add(&place, OpenApiProblem::LeftOut { why });
                    }
                    continue;
                };
                if operations.len() >= MAX_OPERATIONS {
                    let problem = OpenApiProblem::TooMany { what: "operations", limit: MAX_OPERATIONS };
                    self.warnings.add("the description", problem);
                    return Ok(operations);
                }
                let place = format!("{method} {shown}");
                match self.operation(&path, method, value, &place) {
                    Ok(operation) => operations.extend(operation),
                    Err(why) => self.warnings.add(&place, OpenApiProblem::LeftOut { why }),
                }
                if self.work.nodes == 0 {
                    let problem = OpenApiProblem::TooMany { what: "schemas", limit: MAX_SCHEMA_NODES };
                    self.warnings.add("the description", problem);
                    return Ok(operations);
                }
            }
        }
        for wanted in self.filter.ids() {
            if !self.ids.contains(wanted) {
                self.warnings.add("the filter", OpenApiProblem::NotThere { wanted: short(wanted, 200) });
            }
        }
        match self.base {
            // The error does not matter if every operation has its own server.
            Err(detail) if operations.is_empty() || self.is_base_wanted => {
                Err(OpenApiError::NoBaseUrl { detail })
            }
            _ => Ok(operations),
        }
    }

    fn operation(
        &mut self,
        path: &Path<'_>,
        method: Method,
        value: &Value,
        place: &str,
    ) -> Result<Option<Operation>, String> {
        let object = value.as_object().ok_or("it is not an object")?;
        let text = |key: &str| object.get(key).and_then(Value::as_str);
        let id = match (text("operationId").filter(|id| !id.trim().is_empty()), self.config.missing_ids) {
            (Some(id), _) => Cow::Borrowed(id),
            (None, MissingIds::FromPath) => Cow::Owned(id_from(&method, path.text)),
            (None, MissingIds::LeftOut) => {
                self.warnings.add(place, OpenApiProblem::NoOperationId);
                return Ok(None);
            }
        };
        let id = id.as_ref();
        if id.len() > MAX_ID_BYTES {
            return Err(format!("its operationId is longer than {MAX_ID_BYTES} bytes"));
        }
        let tags: Vec<&str> = object
            .get("tags")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let is_new = self.ids.insert(id.to_owned());
        if !self.filter.takes(&Candidate { id, tags: &tags, path: path.text, method: method.as_str() }) {
            return Ok(None);
        }
        if !is_new {
            self.warnings.add(place, OpenApiProblem::DuplicateId { id: short(id, 200) });
        }
        let base = self.base_of(path, object)?;
        let template = Template::parse(path.text)?;
        let rules = Rules { reserved: &self.credentials.reserved, cookies: self.config.cookies };
        let mut names = Names::default();
        let lists = [path.item.get("parameters"), object.get("parameters")];
        let mut parameters =
            parameter::merged(self.document, lists, &rules, &mut names, place, self.warnings)
                .map_err(|_| format!("it has more than {MAX_PARAMETERS} parameters"))?;
        let is_in_path = |p: &parameter::Described<'_>| p.parameter.place == oas3::spec::ParameterIn::Path;
        for name in template.names() {
            if !parameters.iter().any(|p| is_in_path(p) && p.parameter.name == name) {
                let what = format!("its path needs `{name}`, which no parameter describes; it is a text");
                self.warnings.add(place, OpenApiProblem::Guessed { what });
                parameters.push(parameter::implied(name, &mut names));
            }
        }
        parameters.retain(|p| !is_in_path(p) || template.names().any(|name| name == p.parameter.name));
        let mut body = match object.get("requestBody") {
            Some(value) => body::described(self.document, value, place, self.warnings)?,
            None => None,
        };
        if let Some(described) = &mut body {
            described.body.property = names.of_body();
        }
        let fitted = schema::fitted(self.document, &mut self.work, |inliner| {
            operation::schema(&parameters, body.as_ref(), inliner)
        });
        let fitted = fitted.ok_or("the schema of its arguments is too long, however much is left out")?;
        if !fitted.is_whole {
            self.warnings.add(place, OpenApiProblem::SchemaCut);
        }
        Ok(Some(Operation {
            id: id.to_owned(),
            label: short(text("summary").map(str::trim).filter(|text| !text.is_empty()).unwrap_or(id), 120),
            description: description(object, place),
            schema: fitted.schema,
            accept: self.accept(object),
            credentials: self.credentials_of(&base, object, place),
            path: path.text.to_owned(),
            method,
            base,
            template,
            parameters: parameters.into_iter().map(|described| described.parameter).collect(),
            body: body.map(|described| described.body),
        }))
    }

    /// Returns the address of the configuration, the operation, its path or the API, in this order.
    fn base_of(&mut self, path: &Path<'_>, operation: &Map<String, Value>) -> Result<Base, String> {
        let is_list = |value: &&Value| value.as_array().is_some_and(|list| !list.is_empty());
        let own = operation.get("servers").filter(is_list).or(path.item.get("servers").filter(is_list));
        match own {
            Some(servers) if self.config.base_url.is_none() => {
                Base::of_servers(Some(servers), self.address.as_ref(), &self.config.variables)
            }
            _ => {
                self.is_base_wanted = true;
                self.base.clone()
            }
        }
    }

    fn credentials_of(
        &mut self,
        base: &Base,
        operation: &Map<String, Value>,
        place: &str,
    ) -> Vec<super::credentials::Placed> {
        let security = operation.get("security").or(self.document.field("security"));
        let chosen = self.credentials.for_operation(security);
        if !self.origins.contains(&base.origin()) {
            if !chosen.placed.is_empty() {
                self.warnings.add(place, OpenApiProblem::ForeignServer { origin: base.origin() });
            }
            return Vec::new();
        }
        // One warning for each scheme, because all operations usually share one.
        if let Some(scheme) = chosen.missing
            && self.asked.insert(scheme.clone())
        {
            self.warnings.add(place, OpenApiProblem::NoCredential { scheme: short(&scheme, 200) });
        }
        chosen.placed
    }

    /// Returns the media types of successful responses, with JSON first.
    fn accept(&self, operation: &Map<String, Value>) -> String {
        let mut kinds: Vec<&str> = Vec::new();
        let responses = operation.get("responses").and_then(Value::as_object);
        for (_, response) in responses.into_iter().flatten().filter(|(status, _)| status.starts_with('2')) {
            let Ok(response) = self.document.object(response) else { continue };
            for kind in
                response.get("content").and_then(Value::as_object).into_iter().flatten().map(|(kind, _)| kind)
            {
                if reqwest::header::HeaderValue::from_str(kind).is_ok() && !kinds.contains(&kind.as_str()) {
                    kinds.push(kind);
                }
            }
        }
        let is_json = |kind: &str| body::essence(kind).ends_with("json");
        kinds.sort_by_key(|kind| !is_json(kind));
        if kinds.is_empty() {
            kinds.push("application/json");
        }
        let mut accept = String::new();
        for kind in kinds.into_iter().filter(|kind| *kind != "*/*") {
            if accept.len() + kind.len() > MAX_ACCEPT_BYTES {
                break;
            }
            accept.push_str(kind);
            accept.push_str(", ");
        }
        accept.push_str("*/*;q=0.5");
        accept
    }
}

/// Derives an id from a method and a path: `get_pets_petId` for `GET /pets/{petId}`.
fn id_from(method: &Method, path: &str) -> String {
    let words = path.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    words.fold(method.as_str().to_ascii_lowercase(), |id, word| id + "_" + word)
}

fn description(operation: &Map<String, Value>, place: &str) -> String {
    let text =
        |key: &str| operation.get(key).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
    let words = match (text("summary"), text("description")) {
        (Some(summary), Some(description)) if description.starts_with(summary) => description.to_owned(),
        (Some(summary), Some(description)) => format!("{summary}\n\n{description}"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => place.to_owned(),
    };
    let words = if operation.get("deprecated") == Some(&Value::Bool(true)) {
        format!("(Deprecated.) {words}")
    } else {
        words
    };
    short(&words, MAX_DESCRIPTION_BYTES)
}
