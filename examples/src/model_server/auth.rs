//! Who may ask.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use subtle::ConstantTimeEq as _;

use super::refused;

/// Shorter tokens can be guessed.
const SHORTEST: usize = 16;

/// The tokens that are good. There is at least one.
pub struct Tokens(Vec<String>);

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tokens({})", self.0.len())
    }
}

impl Tokens {
    /// The tokens in a text that separates them by commas, spaces or line ends.
    ///
    /// # Errors
    /// When there is none, or one that is so short that it could be guessed. The text is not shown.
    pub fn parse(text: &str) -> Result<Self, String> {
        let tokens: Vec<String> =
            text.split([',', ' ', '\n', '\r', '\t']).filter(|t| !t.is_empty()).map(str::to_owned).collect();
        if tokens.is_empty() {
            return Err("it contains no token; set it to one or more tokens, separated by commas".to_owned());
        }
        match tokens.iter().position(|t| t.len() < SHORTEST) {
            Some(n) => Err(format!("token number {} is shorter than {SHORTEST} characters", n + 1)),
            None => Ok(Self(tokens)),
        }
    }

    /// Whether the request has a good one. How long this takes says nothing about how much of a token was right.
    fn let_in(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
        let Some((scheme, given)) = given.and_then(|g| g.split_once(' ')) else { return false };
        let good = self.0.iter().map(|t| t.as_bytes().ct_eq(given.trim().as_bytes()));
        scheme.eq_ignore_ascii_case("bearer")
            && good.fold(subtle::Choice::from(0), |any, one| any | one).into()
    }
}

/// Lets a request in, or answers that a token is wanted.
pub(super) async fn require(State(tokens): State<Arc<Tokens>>, request: Request, next: Next) -> Response {
    if tokens.let_in(request.headers()) {
        return next.run(request).await;
    }
    let mut response = refused(StatusCode::UNAUTHORIZED, "authentication_error", "no valid token was given");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
    response
}
