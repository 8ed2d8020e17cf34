//! Bedrock's credentials from where AWS keeps them. The environment belongs to the process, so each case is a process of
//! its own: this test program, started again.

#![cfg(feature = "bedrock-config")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may fail loudly; it sets the environment of its children"
)]

mod support;

use agent_core::{ErrorKind, ModelConfig, StreamProvider};
use agent_providers::{BedrockProvider, ProviderRegistry};
use support::{Act, Server, call, head, hello, piece};

/// Where a child finds its server.
const SERVER: &str = "LOOPTREE_TEST_SERVER";

/// An answer that ends a call, whatever it was.
async fn server() -> Server {
    let body = "{\"output\":{\"message\":{\"content\":[{\"text\":\"hi\"}]}},\"stopReason\":\"end_turn\"}";
    Server::start(vec![vec![head(200, "application/json"), piece(body), Act::End]]).await
}

/// Calls through the registry in another process with this environment and nothing else; what it said on failing.
async fn in_a_child(server: &Server, variables: &[(&str, &str)]) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config");
    let credentials = folder.path().join("credentials");
    std::fs::write(&config, "[default]\nregion = eu-north-1\n[profile other]\nregion = sa-east-1\n").unwrap();
    std::fs::write(
        &credentials,
        "[default]\naws_access_key_id = AKIDOFTHEPROFILE\naws_secret_access_key = s1\n\
         [other]\naws_access_key_id = AKIDOFANOTHER\naws_secret_access_key = s2\naws_session_token = t2\n",
    )
    .unwrap();
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", "the_child", "--ignored", "--nocapture"])
        .env_clear()
        .env("HOME", folder.path())
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("AWS_CONFIG_FILE", &config)
        .env("AWS_SHARED_CREDENTIALS_FILE", &credentials)
        .env(SERVER, format!("http://{}", server.address))
        .envs(variables.iter().copied());
    let output = tokio::task::spawn_blocking(move || child.output().unwrap()).await.unwrap();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stdout).into_owned()) }
}

#[tokio::test]
#[ignore = "started by the other tests, with an environment"]
async fn the_child() {
    let mut model = ModelConfig::bedrock("", "m").with_base_url(std::env::var(SERVER).unwrap());
    model.region = None;
    let registry = ProviderRegistry::default();
    registry.check(&model).unwrap();
    let outcome = call(&registry, &hello(model)).await;
    println!("{:?}", outcome.end);
    assert_eq!(outcome.text(), "hi");
}

#[track_caller]
fn signed_with(server: &Server, expect: &[&str]) {
    let asked = server.asked();
    let headers = &asked.last().expect("a request").headers;
    for part in expect {
        assert!(headers.contains(part), "{part} is not in {headers}");
    }
}

#[tokio::test]
async fn keys_of_the_environment_win_over_the_profile() {
    let server = server().await;
    let own = [("AWS_ACCESS_KEY_ID", "AKIDOFTHEENVIRONMENT"), ("AWS_SECRET_ACCESS_KEY", "s0")];
    in_a_child(&server, &own).await.unwrap();
    signed_with(&server, &["Credential=AKIDOFTHEENVIRONMENT/", "/bedrock/aws4_request"]);
}

#[tokio::test]
async fn a_profile_gives_key_and_session() {
    let server = server().await;
    in_a_child(&server, &[]).await.unwrap();
    signed_with(&server, &["Credential=AKIDOFTHEPROFILE/"]);
    in_a_child(&server, &[("AWS_PROFILE", "other")]).await.unwrap();
    signed_with(&server, &["Credential=AKIDOFANOTHER/", "x-amz-security-token: t2"]);
}

#[tokio::test]
async fn an_api_key_of_the_environment_is_a_bearer_token() {
    let server = server().await;
    in_a_child(&server, &[("AWS_BEARER_TOKEN_BEDROCK", "the-api-key")]).await.unwrap();
    signed_with(&server, &["authorization: Bearer the-api-key"]);
}

/// Credentials of a container, fetched over the same connections as everything else.
#[tokio::test]
async fn a_role_of_a_container_is_asked_for_its_key() {
    let server = server().await;
    let role = "{\"AccessKeyId\":\"ASIDOFTHEROLE\",\"SecretAccessKey\":\"s3\",\"Token\":\"t3\",\
        \"Expiration\":\"2099-01-01T00:00:00Z\"}";
    let agent = Server::answering("application/json", role).await;
    let address = format!("http://{}/role", agent.address);
    let variables = [
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", address.as_str()),
        ("AWS_SHARED_CREDENTIALS_FILE", "/nowhere"),
    ];
    in_a_child(&server, &variables).await.unwrap();
    signed_with(&server, &["Credential=ASIDOFTHEROLE/", "x-amz-security-token: t3"]);
    assert_eq!(agent.asked()[0].line, "GET /role HTTP/1.1");
}

#[tokio::test]
async fn without_any_credentials_the_error_says_so_and_nothing_is_sent() {
    let server = server().await;
    let variables = [("AWS_SHARED_CREDENTIALS_FILE", "/nowhere"), ("AWS_CONFIG_FILE", "/nowhere")];
    let said = in_a_child(&server, &variables).await.unwrap_err();
    assert!(said.contains("Auth") && said.contains("AWS credentials could not be had"), "{said}");
    assert!(server.asked().is_empty());
}

/// A configuration of the caller's own that cannot keep credentials does no harm.
#[tokio::test]
async fn a_configuration_of_the_sdk_may_be_given() {
    let server = server().await;
    let credentials = agent_providers::bedrock::Credentials::new("AKIDOFTHECALLER", "s4", None, None, "test");
    let config = aws_config::SdkConfig::builder()
        .credentials_provider(agent_providers::bedrock::SharedCredentialsProvider::new(credentials))
        .region(aws_config::Region::new("me-south-1"))
        .build();
    let provider = BedrockProvider::new().with_sdk_config(config);
    let mut model = ModelConfig::bedrock("", "m");
    model.region = None;
    assert!(provider.check(&model).is_ok());
    let local = model.with_base_url(format!("http://{}", server.address));
    call(&provider, &hello(local)).await.end.unwrap();
    signed_with(&server, &["Credential=AKIDOFTHECALLER/", "/me-south-1/bedrock/"]);
    assert_eq!(
        BedrockProvider::new().check(&ModelConfig::bedrock("eu-west-1", "m")).unwrap_err().kind(),
        ErrorKind::Auth
    );
}
