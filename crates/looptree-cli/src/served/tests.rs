use std::path::Path;
use std::sync::Arc;

use clap::Parser as _;

use super::*;
use crate::args::{Cli, Color};
use crate::screen::Stream;
use crate::servers::EditorServers;

/// A host in an empty directory, with a model that is not called.
pub(crate) fn host<T>(folder: &Path) -> Arc<Host<T>> {
    let (config, sessions, work) = (folder.join("config.toml"), folder.join("sessions"), folder.join("work"));
    std::fs::write(&config, "").unwrap();
    std::fs::create_dir(&work).unwrap();
    let path = |path: &Path| path.display().to_string();
    let words =
        ["looptree", "acp", "--model", "local/x", "--base-url", "http://127.0.0.1:9/v1"].map(str::to_owned);
    let paths = [
        "--config".to_owned(),
        path(&config),
        "--sessions".to_owned(),
        path(&sessions),
        "--cwd".to_owned(),
        path(&work),
    ];
    let cli = Cli::try_parse_from(words.into_iter().chain(paths)).unwrap();
    Arc::new(Host::new(cli.flags, Screen::new(Stream::Err, Color::Never).quiet()).unwrap())
}

#[tokio::test]
async fn only_an_idle_session_is_closed_for_others_and_no_run_begins_in_it_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let host = host::<()>(folder.path());
    let root = host.directory().unwrap();
    let idle = host.open(&root, None, EditorServers::default(), ()).await.unwrap();
    let busy = host.open(&root, None, EditorServers::default(), ()).await.unwrap();
    let turn = busy.begin().unwrap();
    assert!(busy.begin().is_none());
    host.close_idle(0).await;
    assert!(idle.begin().is_none(), "the caller still has a session that was closed");
    assert!(host.get(idle.setup.agent.session_id().as_str()).is_none());
    let id = busy.setup.agent.session_id();
    assert!(host.get(id.as_str()).is_some() && !turn.stop.is_cancelled());
    drop(turn);
    assert!(busy.begin().is_some());
    assert!(host.close(id.as_str()).await.unwrap());
    assert!(busy.begin().is_none());
}
