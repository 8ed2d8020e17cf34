//! A company's identity provider below `/idp` of the test server, and what the authorization server gives for its word.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

/// The user's token at the provider; every other is refused.
pub const ID_TOKEN: &str = "id-token-0123456789";

/// The program's secret at the provider.
pub const IDP_SECRET: &str = "idp-secret-0123456789";

/// The program's secret at the authorization server.
pub const SERVER_SECRET: &str = "server-secret-0123456789";

/// What `path` answers in such a login; nothing when it is another login.
pub fn answer(token: &str, base: &str, path: &str, given: Option<&str>, body: &str) -> Option<Value> {
    let is = |id: &str, secret: &str| {
        given == Some(&format!("Basic {}", STANDARD.encode(format!("{id}:{secret}"))))
    };
    let refused = |error: &str| Some(json!({"error": error, "error_description": ID_TOKEN}));
    match path {
        "/idp/token" if !is("app", IDP_SECRET) => refused("invalid_client"),
        "/idp/token" if field(body, "subject_token").as_deref() != Some(ID_TOKEN) => refused("invalid_grant"),
        "/idp/token" => {
            let claims = json!({
                "iss": format!("{base}/idp"), "sub": "a-user", "aud": field(body, "audience"),
                "resource": field(body, "resource"), "scope": field(body, "scope"),
                "client_id": "app-here", "jti": "1", "iat": 0, "exp": 4_102_444_800_u64,
            });
            let header = json!({"alg": "ES256", "typ": "oauth-id-jag+jwt"});
            let [header, claims] = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
            Some(json!({
                "access_token": format!("{header}.{claims}.c2lnbmVk"), "token_type": "N_A",
                "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag", "scope": field(body, "scope"),
            }))
        }
        "/token"
            if body.contains("jwt-bearer")
                && body.contains("assertion=")
                && !body.contains("client_assertion") =>
        {
            if !is("app-here", SERVER_SECRET) {
                return refused("invalid_client");
            }
            let token = token.trim_start_matches("Bearer ");
            Some(json!({"access_token": token, "token_type": "Bearer", "expires_in": 3600}))
        }
        _ => None,
    }
}

/// A field of a form whose values have no more than `:` and `/` to be decoded.
pub fn field(body: &str, name: &str) -> Option<String> {
    let found = body.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}=")))?;
    Some(found.replace("%3A", ":").replace("%2F", "/"))
}
