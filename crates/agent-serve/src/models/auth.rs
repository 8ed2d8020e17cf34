//! The tokens of clients.

use std::sync::Arc;

use agent_core::Secret;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use subtle::ConstantTimeEq as _;

use super::refused;
use crate::serving::Seat;

/// The minimum length of a token. Shorter ones can be guessed.
const SHORTEST: usize = 16;

/// The valid tokens. There is at least one.
pub struct Tokens(Vec<Secret>);

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tokens({})", self.0.len())
    }
}

/// Why a text has no usable tokens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokensError {
    /// There is no token.
    #[error("it contains no token; set it to one or more tokens, separated by commas")]
    None,
    /// A token has fewer than 16 characters.
    #[error("token number {number} is shorter than {SHORTEST} characters")]
    TooShort {
        /// The place of the token, from 1.
        number: usize,
    },
}

impl Tokens {
    /// Reads tokens from a text that separates them by commas, spaces or line ends.
    ///
    /// # Errors
    /// [`TokensError`] when there is none, or one that is so short that it could be guessed. The text is not shown.
    pub fn parse(text: &str) -> Result<Self, TokensError> {
        let tokens: Vec<Secret> =
            text.split([',', ' ', '\n', '\r', '\t']).filter(|t| !t.is_empty()).map(Secret::from).collect();
        if tokens.is_empty() {
            return Err(TokensError::None);
        }
        match tokens.iter().position(|token| token.expose().len() < SHORTEST) {
            Some(at) => Err(TokensError::TooShort { number: at + 1 }),
            None => Ok(Self(tokens)),
        }
    }

    /// Returns whether the request has a valid token. The time does not depend on how much of a token is right.
    fn let_in(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
        let Some((scheme, given)) = given.and_then(|g| g.split_once(' ')) else { return false };
        let good = self.0.iter().map(|t| t.expose().as_bytes().ct_eq(given.trim().as_bytes()));
        scheme.eq_ignore_ascii_case("bearer")
            && good.fold(subtle::Choice::from(0), |any, one| any | one).into()
    }
}

/// Passes a request with a token on, and answers others with 401.
pub(super) async fn require(State(tokens): State<Arc<Tokens>>, request: Request, next: Next) -> Response {
    if tokens.let_in(request.headers()) {
        return match request.extensions().get::<Seat>().map(Seat::admit) {
            Some(Err(busy)) => refused(StatusCode::SERVICE_UNAVAILABLE, "busy", &busy.to_string()),
            _ => next.run(request).await,
        };
    }
    let mut response = refused(StatusCode::UNAUTHORIZED, "authentication_error", "no valid token was given");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
    response
}
