//! Credentials that cannot be used, said without a piece of them.

use super::*;

fn model() -> ModelConfig {
    ModelConfig::vertex("p", "r", "m")
}

#[track_caller]
fn check(json: &str, says: &str) {
    let error = read(&model(), &Secret::from(json)).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth);
    let shown = format!("{error} {error:?}");
    assert!(shown.contains(says), "{shown}");
    assert!(!shown.contains("hidden"), "{shown}");
    assert!(error.context().unwrap().advice.is_some());
}

/// REQ-121.
#[test]
fn a_service_account_that_cannot_be_read_is_an_error_with_advice_and_without_its_text() {
    check("{", "is none");
    check("{\"private_key\": \"hidden\"", "is none");
    check("{\"type\": \"external_account\", \"token\": \"hidden\"}", "external_account");
    check("{\"type\": \"service_account\", \"token_uri\": \"no address hidden\"}", "token_uri");
    check("{\"type\": \"service_account\", \"token_uri\": \"file:///hidden\"}", "token_uri");
    check("{\"type\": \"service_account\", \"private_key\": \"hidden\"}", "cannot be read");
    let broken_key = "{\"type\": \"service_account\", \"client_email\": \"a@b\", \"private_key\": \"hidden\", \
                      \"private_key_id\": \"hidden\", \"token_uri\": \"http://127.0.0.1:1/\"}";
    check(broken_key, "cannot be read");
}

#[test]
fn what_the_library_says_becomes_an_error_with_advice() {
    let kind = |error: gcp_auth::Error| {
        let error = told(&model(), &error, "sign in");
        assert!(error.to_string().contains('('), "{error}");
        error.kind()
    };
    use gcp_auth::Error;
    let nobody = || Box::new(Error::Str("no"));
    assert_eq!(kind(Error::NoAuthMethod(nobody(), nobody(), nobody())), ErrorKind::Auth);
    assert_eq!(kind(Error::Str("token request failed")), ErrorKind::Auth);
    assert_eq!(kind(Error::Other("HTTP request failed", "refused".into())), ErrorKind::Network);
    assert_eq!(kind(Error::Other("another", "x".into())), ErrorKind::Auth);
}

#[test]
fn neither_debug_nor_a_clone_shows_what_is_kept() {
    assert_eq!(format!("{:?}", Tokens::default()), "Tokens");
}
