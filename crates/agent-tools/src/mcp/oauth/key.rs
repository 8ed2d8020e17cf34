//! The key with which a program signs its logins (RFC 7523, `private_key_jwt`).

use agent_core::Secret;
use rmcp::transport::auth::JwtSigningAlgorithm;

/// The algorithm with which a program signs its logins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SigningAlgorithm {
    /// RSA signatures with SHA-256.
    Rs256,
    /// RSA signatures with SHA-384.
    Rs384,
    /// RSA signatures with SHA-512.
    Rs512,
    /// The curve P-256 with SHA-256.
    Es256,
    /// The curve P-384 with SHA-384.
    Es384,
}

impl From<SigningAlgorithm> for JwtSigningAlgorithm {
    fn from(algorithm: SigningAlgorithm) -> Self {
        match algorithm {
            SigningAlgorithm::Rs256 => Self::RS256,
            SigningAlgorithm::Rs384 => Self::RS384,
            SigningAlgorithm::Rs512 => Self::RS512,
            SigningAlgorithm::Es256 => Self::ES256,
            SigningAlgorithm::Es384 => Self::ES384,
        }
    }
}

/// The key and its algorithm.
#[derive(Debug, Clone)]
pub(super) struct SigningKey {
    /// The key's PEM text.
    pub(super) pem: Secret,
    pub(super) algorithm: SigningAlgorithm,
}
