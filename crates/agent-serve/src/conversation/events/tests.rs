use super::*;

fn recorded(loop_id: &str, number: u64) -> NumberedEvent {
    let event = AgentEvent::InputRejected { loop_id: loop_id.into(), reason: format!("{number}") };
    NumberedEvent::new(number, event)
}

fn live(loop_id: &str, number: u64) -> NumberedEvent {
    let event = AgentEvent::ProgressMessage {
        loop_id: loop_id.into(),
        tool_call_id: "c".into(),
        tool_name: "t".into(),
        text: "x".into(),
    };
    NumberedEvent::new(number, event)
}

fn numbers(found: Found) -> Vec<Option<u64>> {
    match found {
        Found::Events(frames, _) => frames.iter().map(|frame| frame.number).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn numbers_continue_over_the_loops_of_a_session() {
    let ring = Ring::new(7, None, 100, 1 << 20);
    for event in [recorded("s.a.3", 1), live("s.a.3", 1), recorded("s.a.3", 2), recorded("s.a.4", 1)] {
        ring.push(&event);
    }
    assert_eq!(ring.last(), 10);
    let mut cursor = Cursor::after(8);
    assert_eq!(numbers(ring.next(&mut cursor)), [None, Some(9), Some(10)]);
    assert!(matches!(ring.next(&mut cursor), Found::Nothing));
    assert!(matches!(ring.next(&mut Cursor::after(6)), Found::InSession));
    assert!(matches!(ring.next(&mut Cursor::after(11)), Found::Ahead { last: 10 }));
}

#[test]
fn a_resumed_loop_continues_its_numbers() {
    let ring = Ring::new(9, Some(("s.a.2".into(), 5)), 100, 1 << 20);
    ring.push(&recorded("s.a.2", 5));
    assert_eq!(ring.last(), 10);
}

#[test]
fn the_buffer_is_bounded_in_events_and_bytes_and_readers_notice_what_left_it() {
    let ring = Ring::new(0, None, 4, 1 << 20);
    let mut slow = Cursor::after(0);
    ring.push(&recorded("s.a.1", 1));
    assert_eq!(numbers(ring.next(&mut slow)), [Some(1)]);
    for number in 2..=10 {
        ring.push(&recorded("s.a.1", number));
    }
    assert_eq!(ring.lock().frames.len(), 4);
    assert!(matches!(ring.next(&mut slow), Found::InSession));
    let mut caught_up = Cursor::after(6);
    assert_eq!(numbers(ring.next(&mut caught_up)), [Some(7), Some(8), Some(9), Some(10)]);

    let small = Ring::new(0, None, 100, 1);
    small.push(&recorded("s.a.1", 1));
    small.push(&recorded("s.a.1", 2));
    assert_eq!(small.lock().frames.len(), 1);
}

#[test]
fn missed_live_events_are_counted_and_do_not_need_the_session() {
    let ring = Ring::new(0, None, 2, 1 << 20);
    ring.push(&recorded("s.a.1", 1));
    let mut reader = Cursor::after(0);
    assert_eq!(numbers(ring.next(&mut reader)), [Some(1)]);
    for _ in 0..5 {
        ring.push(&live("s.a.1", 1));
    }
    match ring.next(&mut reader) {
        Found::Events(frames, missed) => assert_eq!((frames.len(), missed), (2, 3)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_start_of_a_reply_and_an_interrupted_end_have_no_number() {
    let ring = Ring::new(0, None, 100, 1 << 20);
    ring.push(&recorded("s.a.1", 1));
    let reply = agent_core::AssistantMessage::new("p", "m", agent_core::StopReason::Stop);
    let start = AgentEvent::MessageStart {
        loop_id: "s.a.1".into(),
        message: MessageRef::new(agent_core::Message::from(reply).into()),
    };
    ring.push(&NumberedEvent::new(2, start));
    assert_eq!(ring.last(), 1);
    let mut cursor = Cursor::after(0);
    assert_eq!(numbers(ring.next(&mut cursor)), [Some(1), None]);
    // Whoever resumes after event 1 gets it again.
    assert_eq!(numbers(ring.next(&mut Cursor::after(1))), [None]);
}

#[test]
fn a_closed_buffer_is_read_to_its_end() {
    let ring = Ring::new(0, None, 100, 1 << 20);
    ring.push(&recorded("s.a.1", 1));
    ring.close();
    let mut cursor = Cursor::after(0);
    assert_eq!(numbers(ring.next(&mut cursor)), [Some(1)]);
    assert!(matches!(ring.next(&mut cursor), Found::Closed));
}

#[test]
fn a_reader_of_the_whole_buffer_gets_what_only_the_session_has() {
    let ring = Ring::new(0, None, 100, 1 << 20);
    ring.push(&recorded("s.a.1", 1));
    let mut cursor = Cursor::after(0);
    assert_eq!(numbers(ring.next(&mut cursor)), [Some(1)]);
    ring.resync(3, Some(("s.a.1".into(), 0)));
    assert!(matches!(ring.next(&mut cursor), Found::InSession));
    let mut read = Cursor::after(3);
    assert!(matches!(ring.next(&mut read), Found::Nothing));
    ring.push(&recorded("s.a.1", 4));
    assert_eq!(numbers(ring.next(&mut read)), [Some(4)]);
}
