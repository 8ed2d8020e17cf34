//! The source of credentials for models without a key.

use std::fmt;

use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_bedrockruntime::config::{self, IdentityCache};

/// A source of credentials.
#[derive(Clone)]
pub(super) enum Source {
    /// The caller's own provider.
    Provider(SharedCredentialsProvider),
    /// A configuration of the AWS SDK, with credentials and region.
    #[cfg(feature = "bedrock-config")]
    Config(Box<aws_config::SdkConfig>),
}

impl Source {
    /// Returns the region of the source, if it has one.
    pub(super) fn region(&self) -> Option<String> {
        match self {
            Self::Provider(_) => None,
            #[cfg(feature = "bedrock-config")]
            Self::Config(config) => config.region().map(|r| r.as_ref().to_owned()),
        }
    }

    /// Returns the endpoint of the source, if it has one.
    pub(super) fn endpoint(&self) -> Option<String> {
        match self {
            Self::Provider(_) => None,
            #[cfg(feature = "bedrock-config")]
            Self::Config(config) => config.endpoint_url().map(str::to_owned),
        }
    }

    /// Returns a client configuration with these credentials. The source caches them between calls, because the SDK can
    /// only do so if its configuration has a clock.
    pub(super) fn builder(&self) -> config::Builder {
        match self {
            Self::Provider(provider) => config::Builder::new()
                .credentials_provider(SharedCredentialsProvider::clone(provider))
                .identity_cache(IdentityCache::no_cache()),
            #[cfg(feature = "bedrock-config")]
            Self::Config(config) if config.sleep_impl().is_none() => {
                config::Builder::from(&**config).identity_cache(IdentityCache::no_cache())
            }
            #[cfg(feature = "bedrock-config")]
            Self::Config(config) => config::Builder::from(&**config),
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Source")
    }
}
