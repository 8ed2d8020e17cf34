use super::{MAX_STATE_LEN, TraceContext};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[test]
fn a_traceparent_is_read_into_its_parts() {
    let context = TraceContext::new(PARENT).expect("valid");
    assert_eq!(context.traceparent(), PARENT);
    assert_eq!(context.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(context.span_id(), "00f067aa0ba902b7");
    assert!(context.is_sampled());
    assert!(!TraceContext::new(&PARENT.replace("-01", "-00")).expect("valid").is_sampled());
}

#[test]
fn a_malformed_traceparent_is_refused() {
    for wrong in [
        "",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0\n",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902ü-01",
    ] {
        assert_eq!(TraceContext::new(wrong), None, "{wrong:?}");
    }
}

#[test]
fn a_tracestate_that_no_header_can_carry_is_left_out() {
    let context = TraceContext::new(PARENT).expect("valid");
    assert_eq!(context.clone().with_state("a=1,b=2").tracestate(), Some("a=1,b=2"));
    for wrong in ["", "a=1\r\nx: y", "ü=1", &"x".repeat(MAX_STATE_LEN + 1)] {
        assert_eq!(context.clone().with_state(wrong).tracestate(), None);
    }
}
