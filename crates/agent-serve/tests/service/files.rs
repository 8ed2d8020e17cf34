//! Files of the workspace of a conversation.

use agent_serve::{AgentFactory, BoxError, ConversationRef, ServedAgent, Service};
use agent_tools::Workspace;
use async_trait::async_trait;

use crate::support::{Running, agent, answer, keys, loud, quick, store};

pub(crate) struct WithWorkspace(pub(crate) std::path::PathBuf);

#[async_trait]
impl AgentFactory for WithWorkspace {
    async fn make(&self, _: &ConversationRef) -> Result<ServedAgent, BoxError> {
        let workspace = Workspace::open(&self.0)?.with_denied("*.key")?;
        Ok(ServedAgent::from(agent(&loud())).with_workspace(workspace))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_listed_read_and_written_inside_the_workspace_only() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("work");
    std::fs::create_dir_all(root.join("sub/.git")).unwrap();
    std::fs::write(root.join("a.txt"), "hello").unwrap();
    std::fs::write(root.join("my.key"), "secret").unwrap();
    std::fs::write(folder.path().join("outside.txt"), "outside").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(folder.path(), root.join("link")).unwrap();
    let mut limits = quick();
    limits.file_bytes = 100;
    limits.upload_bytes = 100;
    let builder = Service::builder(store(folder.path()))
        .agent_factory("files", WithWorkspace(root.clone()))
        .keys(keys())
        .limits(limits);
    let running = Running::with(builder).await;
    let path = format!("{}/files", running.conversation("files").await);

    let (status, list) = running.get(&path).await;
    let names: Vec<_> =
        list["entries"].as_array().unwrap().iter().map(|e| e["name"].as_str().unwrap()).collect();
    assert_eq!((status, names), (200, vec!["a.txt", "link", "my.key", "sub"]));
    assert_eq!(running.get(&format!("{path}?path=sub")).await.1["total"], 0);
    let content = running.request("GET", &format!("{path}/content?path=a.txt")).send().await.unwrap();
    assert_eq!(content.headers()["content-type"], "application/octet-stream");
    assert_eq!(content.headers()["x-content-type-options"], "nosniff");
    assert_eq!(content.text().await.unwrap(), "hello");

    let put =
        |name: &str, body: Vec<u8>| running.request("PUT", &format!("{path}/content?path={name}")).body(body);
    let (status, written) = answer(put("new/b.bin", vec![0, 255, 1])).await;
    assert_eq!((status, written["bytes"].as_u64()), (200, Some(3)));
    assert_eq!(std::fs::read(root.join("new/b.bin")).unwrap(), [0, 255, 1]);

    for (name, expected) in [
        ("../outside.txt", 403),
        ("link/outside.txt", 403),
        ("/etc/passwd", 403),
        ("my.key", 403),
        ("sub/.git/config", 403),
        ("missing", 404),
        ("sub", 400),
        ("a.txt/b", 400),
        ("%00", 400),
    ] {
        let (status, body) = running.get(&format!("{path}/content?path={name}")).await;
        assert_eq!(status, expected, "{name}: {body}");
        if !matches!(name, "missing") {
            let (status, body) = answer(put(name, b"x".to_vec())).await;
            assert_eq!(status, expected, "{name}: {body}");
        }
    }
    assert_eq!(std::fs::read_to_string(folder.path().join("outside.txt")).unwrap(), "outside");
    assert_eq!(std::fs::read_to_string(root.join("my.key")).unwrap(), "secret");
    assert_eq!(answer(put("big", vec![0; 101])).await.0, 413);
    std::fs::write(root.join("big"), [0; 101]).unwrap();
    assert_eq!(running.get(&format!("{path}/content?path=big")).await.0, 413);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_without_a_workspace_has_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::usual(&store(folder.path())).await;
    let path = running.conversation("loud").await;
    let (status, body) = running.get(&format!("{path}/files")).await;
    assert_eq!((status, body["error"]["code"].as_str()), (404, Some("no_workspace")));
    running.stop().await;
}
