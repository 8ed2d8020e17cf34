//! Adds the operations of an API to an agent.

use agent_core::compat::SeedVerbs as _;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use agent_core::BasicAgent;

use super::adapter::OpenApiAdapter;
use super::config::OpenApiConfig;
use super::error::OpenApiError;
use super::filter::OperationFilter;

/// Builder methods that add the operations of an API to an agent.
///
/// The tools are appended to the agent's tools, with unique names. The three methods that read a description do not
/// report its warnings; create an [`OpenApiAdapter`] to get them.
pub trait WithOpenApi: Sized + Send {
    /// Adds the operations of a description in a file.
    ///
    /// # Errors
    /// Returns the errors of [`OpenApiAdapter::from_file`].
    fn with_openapi_file(
        self,
        path: impl Into<PathBuf>,
        config: OpenApiConfig,
        filter: OperationFilter,
    ) -> impl Future<Output = Result<Self, OpenApiError>> + Send {
        let path = path.into();
        async move { Ok(self.with_openapi(&OpenApiAdapter::from_file(path, config, filter).await?)) }
    }

    /// Adds the operations of a description at an address.
    ///
    /// # Errors
    /// Returns the errors of [`OpenApiAdapter::from_url`].
    fn with_openapi_url(
        self,
        url: impl Into<String>,
        config: OpenApiConfig,
        filter: OperationFilter,
    ) -> impl Future<Output = Result<Self, OpenApiError>> + Send {
        let url = url.into();
        async move { Ok(self.with_openapi(&OpenApiAdapter::from_url(url, config, filter).await?)) }
    }

    /// Adds the operations of a description.
    ///
    /// # Errors
    /// Returns the errors of [`OpenApiAdapter::from_str`].
    fn with_openapi_spec(
        self,
        spec: &str,
        config: OpenApiConfig,
        filter: OperationFilter,
    ) -> Result<Self, OpenApiError> {
        Ok(self.with_openapi(&OpenApiAdapter::from_str(spec, config, filter)?))
    }

    /// Adds the operations of a description that was read before. Several agents can share them.
    #[must_use]
    fn with_openapi(self, adapter: &OpenApiAdapter) -> Self;
}

impl WithOpenApi for BasicAgent {
    fn with_openapi(self, adapter: &OpenApiAdapter) -> Self {
        self.change_tools(|all| {
            let mut taken = all.iter().map(|tool| tool.name().to_owned()).collect();
            all.extend(adapter.named(&mut taken).into_iter().map(|tool| Arc::new(tool) as _));
        });
        self
    }
}
