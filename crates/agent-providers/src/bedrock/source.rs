//! The source of credentials for models without a key.

use std::fmt;

use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_bedrockruntime::config::{self, IdentityCache};

/// Where credentials come from.
#[derive(Clone)]
pub(super) enum Source {
    /// The caller's own provider.
    Provider(SharedCredentialsProvider),
    /// A configuration that was read from where AWS keeps it, credentials and region among it.
    #[cfg(feature = "bedrock-config")]
    Config(Box<aws_config::SdkConfig>),
}

impl Source {
    /// The region that it knows.
    pub(super) fn region(&self) -> Option<String> {
        match self {
            Self::Provider(_) => None,
            #[cfg(feature = "bedrock-config")]
            Self::Config(config) => config.region().map(|r| r.as_ref().to_owned()),
        }
    }

    /// The address that it knows.
    pub(super) fn endpoint(&self) -> Option<String> {
        match self {
            Self::Provider(_) => None,
            #[cfg(feature = "bedrock-config")]
            Self::Config(config) => config.endpoint_url().map(str::to_owned),
        }
    }

    /// A client's configuration with these credentials. Where they are kept between calls is up to the source: the SDK
    /// refuses to keep them itself where it was given no clock to do so.
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
