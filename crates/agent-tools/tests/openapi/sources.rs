//! Where descriptions come from.

use agent_tools::openapi::{OpenApiAdapter, OpenApiAuth, OpenApiConfig, OpenApiError, OperationFilter};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;

use super::support::{CONSTRUCTS, MODERN, Server};

fn shown(adapter: &OpenApiAdapter) -> String {
    format!("{:?}", adapter.tools())
}

/// REQ-157.
#[tokio::test]
async fn files_and_addresses_give_the_same_tools_as_their_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("constructs.yaml");
    std::fs::write(&path, CONSTRUCTS).unwrap();
    let server = Server::answering(|_| CONSTRUCTS.into_response()).await;
    let config = || OpenApiConfig::new().with_name_prefix("x");
    let filter = || OperationFilter::by_tag(["things"]);
    let text = OpenApiAdapter::from_str(CONSTRUCTS, config(), filter()).unwrap();
    let file = OpenApiAdapter::from_file(&path, config(), filter()).await.unwrap();
    let address =
        OpenApiAdapter::from_url(format!("{}/api.yaml", server.url()), config(), filter()).await.unwrap();
    assert_eq!(text.tools().len(), 4);
    assert_eq!((shown(&file), shown(&address)), (shown(&text), shown(&text)));
}

#[tokio::test]
async fn a_server_that_is_relative_is_found_from_the_address() {
    let server = Server::answering(|request| match request.path.as_str() {
        "/old" => (StatusCode::MOVED_PERMANENTLY, [("location", "/docs/v2/openapi.json")]).into_response(),
        _ => MODERN.into_response(),
    })
    .await;
    let config = OpenApiConfig::new().with_auth(OpenApiAuth::bearer("a-secret-token"));
    let adapter = OpenApiAdapter::from_url(format!("{}/old", server.url()), config, OperationFilter::All)
        .await
        .unwrap();
    assert_eq!(adapter.tools()[0].base_url(), format!("{}/api", server.url()));
    // The description is public; the credentials are the API's.
    assert!(server.take_all().iter().all(|request| request.header("authorization").is_none()));
}

#[tokio::test]
async fn what_cannot_be_had_is_an_error() {
    let file = |path: std::path::PathBuf| {
        OpenApiAdapter::from_file(path, OpenApiConfig::new(), OperationFilter::All)
    };
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(file(folder.path().join("absent")).await, Err(OpenApiError::File { .. })));
    assert!(matches!(file(folder.path().to_owned()).await, Err(OpenApiError::File { .. })));
    #[cfg(unix)]
    assert!(matches!(file("/dev/zero".into()).await, Err(OpenApiError::File { .. })));
    std::fs::write(folder.path().join("latin"), b"openapi: \xFF").unwrap();
    assert!(matches!(file(folder.path().join("latin")).await, Err(OpenApiError::NotText)));

    let server = Server::answering(|request| match request.path.as_str() {
        "/absent" => (StatusCode::NOT_FOUND, CONSTRUCTS).into_response(),
        _ => vec![b'x'; agent_tools::openapi::MAX_SPEC_BYTES + 1].into_response(),
    })
    .await;
    let fetch = |path: &str| {
        OpenApiAdapter::from_url(
            format!("{}{path}", server.url()),
            OpenApiConfig::new(),
            OperationFilter::All,
        )
    };
    let error = fetch("/absent?key=a-secret").await.unwrap_err();
    assert!(
        matches!(error, OpenApiError::Status { status: 404, .. }) && !error.to_string().contains("a-secret"),
        "{error}"
    );
    assert!(matches!(fetch("/endless").await, Err(OpenApiError::TooLarge { .. })));
    let error = OpenApiAdapter::from_url(
        "http://127.0.0.1:1/x?key=a-secret",
        OpenApiConfig::new(),
        OperationFilter::All,
    )
    .await;
    let error = error.unwrap_err();
    assert!(matches!(error, OpenApiError::Fetch { .. }), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("a-secret"), "{error:?}");
}

/// A description is parsed on another thread, so that a time limit of the caller takes effect.
#[tokio::test(flavor = "current_thread")]
async fn parsing_does_not_block_the_runtime() {
    // It takes seconds, and its brackets are below the limit.
    let slow = format!("{CONSTRUCTS}\nx-slow: {0}{1}\n", "[".repeat(100), "]".repeat(100));
    let slow = format!("{slow}x-much:\n{}", "- {a: [b, c], d: 'e'}\n".repeat(60_000));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("slow.yaml");
    std::fs::write(&path, slow).unwrap();
    let reading = OpenApiAdapter::from_file(&path, OpenApiConfig::new(), OperationFilter::All);
    let mut reading = std::pin::pin!(reading);
    let mut turns = 0;
    let adapter = loop {
        tokio::select! {
            adapter = &mut reading => break adapter.unwrap(),
            () = tokio::time::sleep(std::time::Duration::from_millis(5)) => turns += 1,
        }
    };
    assert!(!adapter.tools().is_empty());
    assert!(turns > 3, "{turns}");
}
