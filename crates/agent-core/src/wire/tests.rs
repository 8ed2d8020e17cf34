//! Encoded once.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Encoded, WireCache, WireKey};

#[test]
fn a_form_is_made_once_for_each_key_and_the_first_is_kept() {
    let cache = WireCache::default();
    let made = AtomicUsize::new(0);
    let read = |key: WireKey, bytes: &str| {
        let make = || {
            made.fetch_add(1, Ordering::Relaxed);
            Encoded::new(bytes.as_bytes().to_vec(), vec![0])
        };
        cache.with(key, make, |e| (String::from_utf8(e.bytes().to_vec()).unwrap(), e.marks().to_vec()))
    };
    let (one, two) = (WireKey::new(&["anthropic", "claude"]), WireKey::new(&["openai", "gpt"]));
    for _ in 0..3 {
        assert_eq!(read(one, "first"), ("first".into(), vec![0]));
        assert_eq!(read(two, "second"), ("second".into(), vec![0]));
    }
    assert_eq!(made.load(Ordering::Relaxed), 2);
}

#[test]
fn keys_differ_where_their_parts_do() {
    let key = WireKey::new(&["a", "b"]);
    assert_eq!(key, WireKey::new(&["a", "b"]));
    assert_eq!(key, WireKey::new(&["a"]).and(&["b"]));
    for other in [&["ab"][..], &["a", "b", ""], &["b", "a"], &["", "a", "b"], &["a"], &[]] {
        assert_ne!(key, WireKey::new(other), "{other:?}");
    }
}

#[test]
fn a_panic_while_encoding_leaves_the_cache_usable() {
    let cache = WireCache::default();
    let key = WireKey::new(&["a"]);
    let broken =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| cache.with(key, || panic!("no"), |_| ())));
    assert!(broken.is_err());
    assert_eq!(cache.with(key, || Encoded::new(*b"x", []), |e| e.bytes().len()), 1);
    assert_eq!(format!("{:?}", Encoded::new(*b"secret", [])), "Encoded { bytes: 6, marks: [] }");
}

#[test]
fn many_keys_do_not_add_up() {
    let cache = WireCache::default();
    let made = AtomicUsize::new(0);
    let read = |n: usize| {
        let make = || {
            made.fetch_add(1, Ordering::Relaxed);
            Encoded::new(n.to_string().into_bytes(), [])
        };
        cache.with(WireKey::new(&[&n.to_string()]), make, |e| e.bytes().to_vec())
    };
    for n in 0..6 {
        assert_eq!(read(n), n.to_string().into_bytes());
    }
    for (n, expect) in [(0, 6), (5, 6), (4, 6), (3, 6), (1, 7)] {
        read(n);
        assert_eq!(made.load(Ordering::Relaxed), expect, "after key {n}");
    }
}
