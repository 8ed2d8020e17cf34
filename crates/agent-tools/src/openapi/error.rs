//! Errors and warnings about the description of an API.

use std::path::PathBuf;

/// The reason why a description yields no tools.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenApiError {
    /// The description is larger than [`MAX_SPEC_BYTES`](super::MAX_SPEC_BYTES), before or after the aliases of YAML are
    /// expanded.
    #[error(
        "the OpenAPI description is longer than {limit} bytes; give a smaller one, with the operations that are needed"
    )]
    TooLarge {
        /// The maximum size in bytes.
        limit: usize,
    },
    /// The description has more than [`MAX_SPEC_VALUES`](super::MAX_SPEC_VALUES) values, before or after the aliases of
    /// YAML are expanded.
    #[error(
        "the OpenAPI description has more than {limit} values; give a smaller one, with the operations that are needed"
    )]
    TooManyValues {
        /// The maximum number of values.
        limit: usize,
    },
    /// The text begins like JSON but is not valid JSON.
    #[error("the OpenAPI description cannot be read as JSON: {source}")]
    Json {
        /// The error and its position.
        source: serde_json::Error,
    },
    /// The text is not valid YAML.
    #[error("the OpenAPI description cannot be read as YAML: {source}")]
    Yaml {
        /// The error and its position.
        source: yaml_serde::Error,
    },
    /// The YAML text has nested brackets that would take too long to parse.
    #[error(
        "the OpenAPI description has too many brackets that stay open; give it as JSON, or as YAML without them"
    )]
    TooDeep,
    /// The text is not an OpenAPI description.
    #[error("this is no OpenAPI description: {detail}")]
    NotOpenApi {
        /// The missing part of the description.
        detail: &'static str,
    },
    /// The version of the description is not supported.
    #[error(
        "OpenAPI {version} is not understood; 3.0 and 3.1 are. Tools that convert older descriptions exist"
    )]
    Version {
        /// The version that it names.
        version: String,
    },
    /// The description and the configuration name no address for requests.
    #[error("the API has no address for requests: {detail}; set one with `OpenApiConfig::with_base_url`")]
    NoBaseUrl {
        /// The reason for the failure.
        detail: String,
    },
    /// A header, a credential or an address of the configuration is invalid. Its value is not shown.
    #[error("the OpenAPI configuration cannot be used: {detail}")]
    Config {
        /// The problem that was found.
        detail: String,
    },
    /// The file with the description cannot be read.
    #[error("the OpenAPI description {} cannot be read: {source}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The underlying I/O error.
        source: std::io::Error,
    },
    /// The address cannot be reached or did not respond in time.
    #[error("the OpenAPI description at {url} cannot be fetched: {source}")]
    Fetch {
        /// The address, without its query.
        url: String,
        /// The underlying HTTP error.
        source: reqwest::Error,
    },
    /// The address responded with a status other than success.
    #[error("the OpenAPI description at {url} cannot be fetched: the server answered {status}")]
    Status {
        /// The address, without its query.
        url: String,
        /// The HTTP status code.
        status: u16,
    },
    /// The thread that parses the description ended early, for example because the runtime shuts down.
    #[error("the OpenAPI description was not parsed: {detail}")]
    Interrupted {
        /// The reason for the failure.
        detail: String,
    },
    /// The response or the file is not UTF-8 text.
    #[error("the OpenAPI description is not UTF-8")]
    NotText,
    /// The HTTP client could not be created.
    #[error("no HTTP client can be made: {source}")]
    Client {
        /// The underlying HTTP error.
        source: reqwest::Error,
    },
}

/// A warning about a part of the description that was skipped or interpreted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
#[non_exhaustive]
pub struct OpenApiWarning {
    /// The operation, such as `GET /pets/{petId}`, or a part of the description.
    pub place: String,
    /// The problem that was found.
    pub problem: OpenApiProblem,
}

/// The subject of a warning.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenApiProblem {
    /// The operation has no `operationId` and was skipped.
    #[error("it has no operationId and is left out")]
    NoOperationId,
    /// Two operations have the same id. Both become tools, and the later one gets a longer name.
    #[error("another operation has the id `{id}` too")]
    DuplicateId {
        /// The shared operation id.
        id: String,
    },
    /// The filter names an operation that the description does not contain.
    #[error("the filter wants `{wanted}`, which is not there")]
    NotThere {
        /// The name in the filter.
        wanted: String,
    },
    /// The operation cannot be called and was skipped.
    #[error("it is left out: {why}")]
    LeftOut {
        /// The reason for the failure.
        why: String,
    },
    /// A parameter was skipped. The operation is available without it.
    #[error("its parameter `{name}` is left out: {why}")]
    ParameterLeftOut {
        /// The name of the parameter.
        name: String,
        /// The reason for the failure.
        why: String,
    },
    /// An ambiguous part was interpreted in the most likely way.
    #[error("{what}")]
    Guessed {
        /// The description of the interpretation.
        what: String,
    },
    /// The schema of the arguments was too long, so its inner parts are left open.
    #[error("the schema of its arguments is too long; its inner parts are left open")]
    SchemaCut,
    /// The operation requires credentials that are not configured. It is called without them.
    #[error("it wants credentials for `{scheme}`, and there are none")]
    NoCredential {
        /// The name of the security scheme.
        scheme: String,
    },
    /// The operation has a server at another origin than the API, which receives no credentials.
    #[error("its server {origin} is not the API's, so it gets no credentials")]
    ForeignServer {
        /// The origin that is not allowed.
        origin: String,
    },
    /// A limit for warnings, operations or schemas was reached. The rest was skipped.
    #[error("there are more than {limit} {what}; the rest is left out")]
    TooMany {
        /// The quantity that is limited.
        what: &'static str,
        /// The maximum of the quantity.
        limit: usize,
    },
}

/// Collects warnings up to their maximum number.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    pub(super) list: Vec<OpenApiWarning>,
}

impl Warnings {
    pub(super) fn add(&mut self, place: &str, problem: OpenApiProblem) {
        let limit = super::MAX_WARNINGS;
        if self.list.len() < limit {
            self.list.push(OpenApiWarning { place: place.to_owned(), problem });
        } else if self.list.len() == limit {
            let problem = OpenApiProblem::TooMany { what: "warnings", limit };
            self.list.push(OpenApiWarning { place: "the description".to_owned(), problem });
        }
    }
}
