//! Tools of HTTP APIs: one for each operation of an OpenAPI description.
//!
//! [`OpenApiAdapter`] reads a description, of OpenAPI 3.0 or 3.1, in JSON or YAML, from a text, a file or an address, and
//! makes an [`OpenApiToolAdapter`] of each operation that an [`OperationFilter`] selects. [`OpenApiConfig`] sets the
//! address of the API, the credentials and the limits. [`WithOpenApi`] adds the tools to an agent.
//!
//! A model gives values for parameters and bodies, and nothing else: it can set no credential, leave no path, reach no
//! other host. The description is believed, but only as far as the bounds below go: one that is broken or enormous costs
//! bounded work, and an operation that cannot be used is a warning beside the others.
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

/// The longest description of an API: 16 MiB. The largest that vendors publish have about 12 MB.
pub const MAX_SPEC_BYTES: usize = 16 * 1024 * 1024;

/// The most operations that are made into tools.
pub const MAX_OPERATIONS: usize = 4096;

/// The most warnings that are kept.
pub const MAX_WARNINGS: usize = 1000;

/// The most parameters of one operation; one with more is left out.
pub const MAX_PARAMETERS: usize = 256;

/// The longest schema of a tool's arguments, as JSON: 32 KiB. Of a longer one the inner parts are left open, and then
/// the words left out.
pub const MAX_SCHEMA_BYTES: usize = 32 * 1024;

/// How many schemas are visited for all tools of one description together. What comes after that is left out.
/// GitHub's API with its 1,223 operations needs less than 60,000.
pub const MAX_SCHEMA_NODES: usize = 400_000;

/// How many references may lead from one to the next.
pub const MAX_REF_HOPS: usize = 64;

/// The longest description of a tool, in bytes. Some vendors refuse more than 1,024 characters.
pub const MAX_DESCRIPTION_BYTES: usize = 1000;

/// The default maximum size of a response for the model: 64 KiB.
pub const MAX_RESPONSE_BYTES: usize = 64 * 1024;

/// The maximum size of a response that is read: 8 MiB. The connection is closed after it.
pub const MAX_READ_BYTES: usize = 8 * 1024 * 1024;

/// The largest picture of an answer that a model sees: 5 MiB.
pub const MAX_IMAGE_BYTES: usize = 5 * 1024 * 1024;

/// The longest address of a request, in bytes.
pub const MAX_URL_BYTES: usize = 16 * 1024;

/// The default maximum duration of a call.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum duration of connecting.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum duration of fetching a description from an address.
pub const FETCH_TIMEOUT: Duration = Duration::from_secs(60);

/// The maximum number of redirects of a GET or HEAD request within one host.
pub const MAX_REDIRECTS: usize = 5;
