use super::{is_or_is_in, is_override, plain};

#[test]
fn names_that_servers_take_for_the_same_are_the_same() {
    let same = [
        "key",
        "KEY",
        " key",
        "key ",
        "key[]",
        "key [0]",
        "key\0",
        "\0key",
        "key\0x",
        "\tkey\n",
        "Key[a][b]",
        "key\r[x",
    ];
    for name in same {
        assert!(is_or_is_in(&plain(name), "key"), "{name:?}");
    }
    for name in ["keys", "ke", "a[key]", "x key", "", "monkey", "key.x"] {
        assert!(!is_or_is_in(&plain(name), "key"), "{name:?}");
    }
    for name in ["api_key", "api.key", "API key", "api_key[]"] {
        assert!(is_or_is_in(&plain(name), &plain("api_key")), "{name:?}");
    }
    assert!(is_or_is_in(&plain("auth[KEY][0]"), &plain("auth[key]")));
    assert!(!is_or_is_in(&plain("auth[scope]"), &plain("auth[key]")));
}

#[test]
fn method_overrides_are_known() {
    for name in ["_method", "_METHOD", " _method", "_method[]", "X-HTTP-Method-Override", "x_http_method"] {
        assert!(is_override(name), "{name:?}");
    }
    for name in ["method", "methods", "http_method", "_methods", "payment_method"] {
        assert!(!is_override(name), "{name:?}");
    }
}
