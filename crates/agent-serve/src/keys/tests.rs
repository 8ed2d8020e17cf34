use super::*;

fn key(name: &str, token: &str) -> Key {
    Key::new(name, &Secret::new(token)).unwrap()
}

fn accounts(keys: &[Key]) -> Result<Accounts, KeyError> {
    Accounts::new(keys, &Limits::default())
}

#[test]
fn a_key_is_found_by_its_token_and_by_no_other() {
    let accounts =
        accounts(&[key("alice", "alice-token-0123456789"), key("bob", "bob-token-0123456789")]).unwrap();
    assert_eq!(&*accounts.of_token(b"bob-token-0123456789").unwrap().name, "bob");
    for wrong in ["", "bob-token-012345678", "bob-token-01234567890", "Bob-token-0123456789"] {
        assert!(accounts.of_token(wrong.as_bytes()).is_none(), "{wrong}");
    }
    assert!(accounts.open().is_none());
}

#[test]
fn the_hash_of_a_token_makes_the_same_key() {
    let hash = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let accounts = accounts(&[Key::hashed("test", hash).unwrap()]).unwrap();
    assert!(accounts.of_token(b"test").is_some());
    assert!(matches!(Key::hashed("test", "sha256:12"), Err(KeyError::Hash { .. })));
    assert!(matches!(Key::hashed("test", &"é".repeat(32)), Err(KeyError::Hash { .. })));
}

#[test]
fn short_tokens_strange_names_and_repeated_keys_are_refused_without_showing_the_token() {
    let short = Key::new("a", &Secret::new("hunter2")).unwrap_err();
    assert!(matches!(short, KeyError::TooShort { .. }) && !short.to_string().contains("hunter2"));
    for name in ["", "a b", "a/b", "ä", &"a".repeat(65)] {
        assert!(matches!(Key::new(name, &Secret::new("0123456789abcdef")), Err(KeyError::Name { .. })));
    }
    let twice = [key("a", "alice-token-0123456789"), key("b", "alice-token-0123456789")];
    assert!(matches!(accounts(&twice), Err(KeyError::Duplicate { .. })));
    let text = format!("{:?}", key("a", "alice-token-0123456789"));
    assert!(!text.contains("alice-token") && text.contains("requests_per_minute"));
}

#[test]
fn a_bucket_gives_the_requests_of_a_minute_and_says_when_the_next_one_is_there() {
    let bucket = Bucket::new(2);
    assert!(bucket.take(1_000).is_ok() && bucket.take(1_000).is_ok());
    assert_eq!(bucket.take(1_000), Err(Duration::from_secs(30)));
    assert_eq!(bucket.take(21_000), Err(Duration::from_secs(10)));
    assert!(bucket.take(31_000).is_ok());
    assert!(bucket.take(31_000).is_err());
    // It never holds more than a minute's.
    assert!(bucket.take(10_000_000).is_ok() && bucket.take(10_000_000).is_ok());
    assert!(bucket.take(10_000_000).is_err());
}

use std::time::Duration;

#[test]
fn a_key_has_room_for_bodies_up_to_its_bound_and_for_one_larger_body_alone() {
    let limits = Limits { bytes_per_key: 8 << 10, ..Limits::default() };
    let bounds = Bounds::new(&limits);
    let part = bounds.room(3_000, None).unwrap();
    let part = bounds.room(6_000, Some(part)).unwrap();
    assert!(bounds.room(4_000, None).is_none());
    assert!(bounds.room(1 << 30, None).is_none());
    drop(part);
    let whole = bounds.room(1 << 30, None).unwrap();
    assert!(bounds.room(1, None).is_none());
    drop(whole);
    assert_eq!(bounds.body_bytes(), 8 << 10);
}
