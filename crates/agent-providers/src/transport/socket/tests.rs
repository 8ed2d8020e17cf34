//! Lanes of a connection, without the connection.

use super::*;

fn socket() -> Socket {
    let (outgoing, _) = mpsc::channel(1);
    let shared = Arc::new(Shared { lanes: Mutex::default(), stop: CancellationToken::new() });
    Socket { shared, outgoing, config: TransportConfig::default() }
}

#[test]
fn lanes_are_named_except_the_first_and_free_again_after_their_reply() {
    let socket = socket();
    let lanes: Vec<Lane> = std::iter::from_fn(|| socket.lane(true)).collect();
    let names: Vec<Option<&str>> = lanes.iter().map(Lane::stream_id).collect();
    assert_eq!(
        (names.len(), names[0], names[1], names[7]),
        (MAX_LANES, None, Some("lane-1"), Some("lane-7"))
    );
    assert!(!socket.is_idle());
    lanes.into_iter().for_each(Lane::end);
    assert!(socket.is_idle() && socket.is_open());
    let only = socket.lane(false).unwrap();
    assert!(socket.lane(false).is_none());
    only.end();
}

#[test]
fn a_connection_whose_reply_did_not_end_takes_no_other_and_ends_after_the_last_lane() {
    let socket = socket();
    let (cut, other) = (socket.lane(true).unwrap(), socket.lane(true).unwrap());
    drop(cut);
    assert!(!socket.is_open() && socket.lane(true).is_none());
    assert!(!socket.shared.stop.is_cancelled());
    other.end();
    assert!(socket.shared.stop.is_cancelled());
}

#[test]
fn a_retired_connection_ends_when_it_is_idle() {
    let socket = socket();
    let lane = socket.lane(true).unwrap();
    socket.retire();
    assert!(!socket.shared.stop.is_cancelled());
    lane.end();
    assert!(socket.shared.stop.is_cancelled());
}
