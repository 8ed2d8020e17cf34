use super::{Buffers, LARGEST, LEAST, MOST};

fn buffers() -> &'static Buffers {
    Box::leak(Box::new(Buffers::new()))
}

fn capacities(buffers: &Buffers) -> Vec<usize> {
    let mut all: Vec<usize> = buffers.waiting().iter().map(Vec::capacity).collect();
    all.sort_unstable();
    all
}

/// Takes a buffer of this room, writes into it, and sends it.
fn round(buffers: &'static Buffers, room: usize) -> *const u8 {
    let mut body = buffers.take(room);
    assert!(body.is_empty() && body.capacity() >= room);
    body.extend_from_slice(b"{}");
    let at = body.as_ptr();
    let sent = buffers.sent(body);
    let again = sent.clone();
    drop(sent);
    assert_eq!(&again[..], b"{}", "whoever still holds it reads it");
    at
}

#[test]
fn a_conversation_that_grows_is_written_into_the_same_buffer_until_it_is_full() {
    let buffers = buffers();
    let first = round(buffers, LEAST);
    for room in (LEAST..LEAST + LEAST / 4).step_by(512) {
        assert_eq!(round(buffers, room), first);
    }
    assert_eq!(capacities(buffers).len(), 1);
    round(buffers, 2 * LEAST);
    assert_eq!(capacities(buffers).len(), 2);
    assert_eq!(round(buffers, LEAST), first, "the smallest that is large enough");
}

#[test]
fn a_body_that_is_still_held_lends_its_buffer_to_nobody() {
    let buffers = buffers();
    let held = buffers.sent(buffers.take(LEAST));
    assert!(capacities(buffers).is_empty());
    let other = buffers.take(LEAST);
    drop(held);
    assert_eq!(capacities(buffers).len(), 1);
    drop(buffers.sent(other));
    assert_eq!(capacities(buffers).len(), 2);
}

#[test]
fn few_buffers_wait_and_none_that_is_small_or_huge() {
    let buffers = buffers();
    for room in [0, 1, LEAST - 1, LARGEST + 1] {
        round(buffers, room);
    }
    assert!(capacities(buffers).is_empty());
    let many: Vec<_> = (1..=10).map(|n| buffers.sent(buffers.take(n * LEAST))).collect();
    drop(many);
    let kept = capacities(buffers);
    assert_eq!(kept.len(), MOST);
    assert!(kept.iter().all(|c| *c >= 7 * LEAST), "the largest: {kept:?}");
    assert!(kept.iter().sum::<usize>() <= MOST * LARGEST);
}
