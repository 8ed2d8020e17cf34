//! Files of the workspace of a conversation. They obey the rules of the file tools.

use agent_core::SessionId;
use agent_tools::workspace::{EntryKind, ReadFileBytesError};
use agent_tools::{PathError, Workspace};
use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::ApiError;
use super::extract::{Caller, InPath, Params, read};
use crate::keys::Account;
use crate::service::Service;

/// The maximum number of entries of a listed folder.
const MAX_ENTRIES: usize = 1_000;

/// A path in the workspace.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PathQuery {
    /// A path relative to the root of the workspace. Default for lists: the root
    #[serde(default = "root")]
    path: String,
}

fn root() -> String {
    ".".to_owned()
}

/// A folder of the workspace.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Folder {
    /// The entries, ordered by name, at most 1,000
    entries: Vec<EntryBody>,
    /// The number of all entries
    total: usize,
}

/// An entry of a folder.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EntryBody {
    name: String,
    kind: KindBody,
    /// The size of a file
    bytes: u64,
}

/// The kind of an entry.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum KindBody {
    File,
    Folder,
    Link,
    Other,
}

/// A file that was written.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Written {
    bytes: usize,
}

async fn workspace(service: &Service, account: &Account, id: String) -> Result<Workspace, ApiError> {
    let conversation = service.open(account, &SessionId::from(id)).await?;
    let workspace = conversation.workspace.clone().filter(|workspace| workspace.root().is_some());
    workspace.ok_or_else(|| {
        ApiError::new(
            StatusCode::NOT_FOUND,
            "no_workspace",
            "the agent of this conversation has no workspace",
        )
    })
}

/// Runs work with files on the blocking pool.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| ApiError::internal(&error))
}

pub(super) async fn list(
    State(service): State<Service>,
    Caller(account): Caller,
    InPath(id): InPath<String>,
    Params(query): Params<PathQuery>,
) -> Result<Json<Folder>, ApiError> {
    let workspace = workspace(&service, &account, id).await?;
    let list = blocking(move || workspace.list(&query.path, MAX_ENTRIES));
    let (entries, total) = service.read(&account, list).await??.map_err(|error| refused(&error))?;
    let entries = entries.into_iter().map(|entry| EntryBody {
        name: entry.name,
        kind: match entry.kind {
            EntryKind::File => KindBody::File,
            EntryKind::Folder => KindBody::Folder,
            EntryKind::Link => KindBody::Link,
            _ => KindBody::Other,
        },
        bytes: entry.bytes,
    });
    Ok(Json(Folder { entries: entries.collect(), total }))
}

pub(super) async fn content(
    State(service): State<Service>,
    Caller(account): Caller,
    InPath(id): InPath<String>,
    Params(query): Params<PathQuery>,
) -> Result<Response, ApiError> {
    let workspace = workspace(&service, &account, id).await?;
    let limit = service.inner.shared.limits.file_bytes;
    let content = blocking(move || workspace.read_bytes(&query.path, limit));
    let content = service.read(&account, content).await??;
    let content = content.map_err(|error| match error {
        ReadFileBytesError::Path(error) => refused(&error),
        error => ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", error.to_string()),
    })?;
    let mut response = content.into_response();
    let headers = response.headers_mut();
    // A browser must not run what an agent has written.
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(response)
}

pub(super) async fn upload(
    State(service): State<Service>,
    Caller(account): Caller,
    InPath(id): InPath<String>,
    Params(query): Params<PathQuery>,
    request: Request,
) -> Result<Json<Written>, ApiError> {
    let workspace = workspace(&service, &account, id).await?;
    let content = read(request, &service, service.inner.shared.limits.upload_bytes).await?;
    let bytes = content.bytes.len();
    let write = blocking(move || workspace.write_bytes(&query.path, &content.bytes));
    service.read(&account, write).await??.map_err(|error| refused(&error))?;
    Ok(Json(Written { bytes }))
}

fn refused(error: &PathError) -> ApiError {
    let (status, code) = match error {
        PathError::Access { source, .. } => match source.kind() {
            std::io::ErrorKind::NotFound => (StatusCode::NOT_FOUND, "not_found"),
            std::io::ErrorKind::PermissionDenied => (StatusCode::FORBIDDEN, "path_refused"),
            std::io::ErrorKind::StorageFull => (StatusCode::INSUFFICIENT_STORAGE, "storage_full"),
            // Names that are too long, a folder in the place of a file, and the like.
            _ => (StatusCode::BAD_REQUEST, "invalid_path"),
        },
        PathError::Outside { .. }
        | PathError::Protected { .. }
        | PathError::Repository { .. }
        | PathError::Settings { .. } => (StatusCode::FORBIDDEN, "path_refused"),
        PathError::Denied { .. } | PathError::Policy { .. } => (StatusCode::FORBIDDEN, "path_refused"),
        PathError::Changed { .. } => (StatusCode::CONFLICT, "path_changed"),
        _ => (StatusCode::BAD_REQUEST, "invalid_path"),
    };
    ApiError::new(status, code, error.to_string()).at("path")
}
