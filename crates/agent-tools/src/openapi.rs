//! Tools of HTTP APIs: one for each operation of an OpenAPI description.
//!
//! [`OpenApiAdapter`] reads a description, of OpenAPI 3.0 or 3.1, in JSON or YAML, from a text, a file or an address, and
//! makes an [`OpenApiToolAdapter`] of each operation that an [`OperationFilter`] selects. [`OpenApiConfig`] sets the
//! address of the API, the credentials and the limits. [`WithOpenApi`] adds the tools to an agent.
//!
//! The model supplies only values of parameters and bodies: it cannot set a credential, leave the path of an operation
//! or reach another host. The description is trusted within the limits below. Reading a broken or very large
//! description takes bounded work, and an operation that cannot be used becomes a warning.
//!
//! ```
//! use agent_core::AgentTool as _;
//! use agent_tools::openapi::{OpenApiAdapter, OpenApiAuth, OpenApiConfig, OperationFilter};
//!
//! let pets = "
//! openapi: 3.1.0
//! info: {title: Pets, version: '1'}
//! servers: [{url: 'https://pets.example.com/v1'}]
//! paths:
//!   /pets/{petId}:
//!     parameters: [{name: petId, in: path, required: true, schema: {type: integer}}]
//!     get: {operationId: getPet, summary: One pet}
//! ";
//! let config = OpenApiConfig::new().with_auth(OpenApiAuth::bearer("a-token")).with_name_prefix("pets");
//! let adapter = OpenApiAdapter::from_str(pets, config, OperationFilter::All)?;
//! let tool = &adapter.tools()[0];
//! assert_eq!(tool.name(), "pets__getPet");
//! assert_eq!(tool.parameters_schema()["properties"]["petId"]["type"], "integer");
//! # Ok::<(), agent_tools::openapi::OpenApiError>(())
//! ```

mod adapter;
mod agent;
mod arguments;
mod auth;
mod body;
mod config;
mod credentials;
mod document;
mod error;
mod fetch;
mod filter;
mod multipart;
mod operation;
mod parameter;
mod path;
mod reader;
mod request;
mod reserved;
mod response;
mod schema;
mod send;
mod server;
mod style;
mod tool;
mod yaml;

use std::time::Duration;

pub use adapter::OpenApiAdapter;
pub use agent::WithOpenApi;
pub use auth::{OpenApiAuth, OpenApiCredential};
pub use config::{CookieParameters, MissingIds, OpenApiConfig, PathSlashes};
pub use error::{OpenApiError, OpenApiProblem, OpenApiWarning};
pub use filter::OperationFilter;
pub use tool::OpenApiToolAdapter;

pub use crate::names::tool_name;

/// The maximum size of a description: 16 MiB. The largest ones that vendors publish have about 12 MB.
pub const MAX_SPEC_BYTES: usize = 16 * 1024 * 1024;

/// The maximum number of JSON values in a description. With the aliases of YAML expanded it has no more values than bytes,
/// or 50,000, and its texts have at most [`MAX_SPEC_BYTES`]. GitHub's API with its 13 MB has 258,000 values.
pub const MAX_SPEC_VALUES: usize = 1_000_000;

/// The maximum number of operations that become tools. Further operations are skipped with a warning.
pub const MAX_OPERATIONS: usize = 4096;

/// The maximum number of warnings that are collected.
pub const MAX_WARNINGS: usize = 1000;

/// The maximum number of parameters of one operation. An operation with more is skipped with a warning.
pub const MAX_PARAMETERS: usize = 256;

/// The maximum size of the schema of a tool's arguments, as JSON: 32 KiB. In a longer schema the inner parts are left
/// open first, then descriptions are omitted.
pub const MAX_SCHEMA_BYTES: usize = 32 * 1024;

/// The maximum number of schemas that are visited for all tools of one description. Later operations are skipped with a
/// warning. GitHub's API with its 1,223 operations needs less than 60,000.
pub const MAX_SCHEMA_NODES: usize = 400_000;

/// The maximum length of a chain of references.
pub const MAX_REF_HOPS: usize = 64;

/// The maximum size of a tool's description, in bytes. Some vendors reject more than 1,024 characters.
pub const MAX_DESCRIPTION_BYTES: usize = 1000;

/// The default maximum size of a response for the model: 64 KiB.
pub const MAX_RESPONSE_BYTES: usize = 64 * 1024;

/// The maximum size of a response that is read: 8 MiB. The connection is closed after it.
pub const MAX_READ_BYTES: usize = 8 * 1024 * 1024;

/// The maximum size of an image in a response that the model receives: 5 MiB.
pub const MAX_IMAGE_BYTES: usize = crate::pictures::MAX_BYTES;

/// The maximum length of the URL of a request, in bytes.
pub const MAX_URL_BYTES: usize = 16 * 1024;

/// The default maximum duration of a call.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum duration of connecting.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum duration of fetching a description from an address.
pub const FETCH_TIMEOUT: Duration = Duration::from_secs(60);

/// The maximum number of redirects of a GET or HEAD request within one host.
pub const MAX_REDIRECTS: usize = 5;
