//! A store of any kind: tests call it in place, and recorders use it as their users do.

use std::ops::Deref;
use std::sync::Arc;

use agent_core::SessionId;
use agent_session::{
    AgentSessions, BlockingSessionStore, FoundSessions, LoadedSession, Salvaged, Session, SessionError,
    SessionQuery, SessionStore, SessionWriter, UnfinishedSessions,
};
use async_trait::async_trait;

/// A store that blocks when its methods are called, and is a [`SessionStore`] like the one that it stands for.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    blocking: Arc<dyn BlockingSessionStore>,
    native: Arc<dyn SessionStore>,
}

impl Store {
    pub(crate) fn new<S: BlockingSessionStore + SessionStore + Clone + 'static>(store: S) -> Self {
        Self { blocking: Arc::new(store.clone()), native: Arc::new(store) }
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn with(blocking: Arc<dyn BlockingSessionStore>, native: Arc<dyn SessionStore>) -> Self {
        Self { blocking, native }
    }
}

impl Deref for Store {
    type Target = dyn BlockingSessionStore;

    fn deref(&self) -> &Self::Target {
        &*self.blocking
    }
}

#[async_trait]
impl SessionStore for Store {
    fn describe(&self) -> String {
        self.native.describe()
    }

    async fn save_session(&self, session: &Session) -> Result<(), SessionError> {
        self.native.save_session(session).await
    }

    async fn load_session(&self, id: &str) -> Result<LoadedSession, SessionError> {
        self.native.load_session(id).await
    }

    async fn delete_session(&self, id: &str) -> Result<(), SessionError> {
        self.native.delete_session(id).await
    }

    async fn list_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        self.native.list_session_ids().await
    }

    async fn list_open_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        self.native.list_open_session_ids().await
    }

    async fn list_unfinished(&self) -> Result<UnfinishedSessions, SessionError> {
        self.native.list_unfinished().await
    }

    async fn list_deferring_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        self.native.list_deferring_session_ids().await
    }

    async fn find_sessions(&self, query: &SessionQuery) -> Result<FoundSessions, SessionError> {
        self.native.find_sessions(query).await
    }

    async fn write_session(
        &self,
        id: &str,
    ) -> Result<(Box<dyn SessionWriter>, Option<Session>), SessionError> {
        self.native.write_session(id).await
    }

    async fn salvage_session(&self, id: &str) -> Result<Salvaged, SessionError> {
        self.native.salvage_session(id).await
    }

    async fn load_sessions_for_agent(&self, agent_id: &str) -> Result<AgentSessions, SessionError> {
        self.native.load_sessions_for_agent(agent_id).await
    }
}
