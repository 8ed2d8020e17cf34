//! Declares the [`StreamProvider`](agent_core::StreamProvider) type of a protocol.

/// Declares a public provider type that calls a protocol through a transport. The protocol type must implement `Default`.
macro_rules! http_provider {
    ($(#[$doc:meta])* $name:ident, $protocol:ty, $id:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default)]
        pub struct $name {
            transport: $crate::Transport,
            protocol: $protocol,
        }

        impl $name {
            /// Returns a provider that uses the connection pool of the process.
            #[must_use]
            pub fn new() -> Self {
                Self::default()
            }

            /// Returns a provider that uses `transport`.
            #[must_use]
            pub fn with_transport(transport: $crate::Transport) -> Self {
                Self { transport, ..Self::default() }
            }
        }

        #[async_trait::async_trait]
        impl agent_core::StreamProvider for $name {
            fn provider_id(&self) -> &str {
                $id
            }

            async fn stream(
                &self,
                request: &agent_core::ModelRequest,
                sink: &mut agent_core::EventSink<'_>,
                cancel: &agent_core::CancellationToken,
            ) -> Result<agent_core::Completion, agent_core::ProviderError> {
                self.transport.call(&self.protocol, request, sink, cancel).await
            }

            fn complete_model(&self, model: &agent_core::ModelConfig) -> Option<agent_core::ModelConfig> {
                $crate::catalogue::complete(model)
            }

            fn tool_search(&self, model: &agent_core::ModelConfig) -> agent_core::ToolSearchForm {
                $crate::protocol::Protocol::tool_search(&self.protocol, model)
            }

            fn check(&self, model: &agent_core::ModelConfig) -> Result<(), agent_core::ProviderError> {
                $crate::protocol::Protocol::check(&self.protocol, model)
            }

            fn body(&self, request: &agent_core::ModelRequest) -> Option<Vec<u8>> {
                $crate::protocol::Protocol::sendable(&self.protocol, request).ok().map(|ready| ready.body)
            }

            fn cache_lifetime(&self, request: &agent_core::ModelRequest) -> Option<std::time::Duration> {
                $crate::protocol::Protocol::cache_lifetime(&self.protocol, request)
            }
        }
    };
}

pub(crate) use http_provider;
