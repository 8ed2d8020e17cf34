use serde_json::{Value, json};

use crate::conformance::cuts;
use crate::conformance::frames::{Expected, difference};

/// The first field that differs, whole and cut.
#[track_caller]
fn check(body: &[u8], expected: Value, field: Option<&str>) {
    let expected: Expected = serde_json::from_value(expected).unwrap();
    for cut in cuts::all(body) {
        let found = difference(&expected, &cut).map(|d| d.field);
        assert_eq!(found.as_deref(), field, "{}", cut.name);
    }
}

/// The empty message of the AWS test vectors.
const EMPTY: &[u8] = &[0, 0, 0, 16, 0, 0, 0, 0, 5, 0xc2, 0x48, 0xeb, 0x7d, 0x98, 0xc8, 0xff];

#[test]
fn a_vector_is_compared_frame_by_frame() {
    let one = json!({"headers": {}, "payload_b64": ""});
    check(EMPTY, json!({"messages": [one], "error": null}), None);
    check(EMPTY, json!({"messages": [one, one], "error": null}), Some("messages"));
    check(EMPTY, json!({"messages": [], "error": null}), Some("messages"));
    let other = json!({"headers": {"a": 1}, "payload_b64": ""});
    check(EMPTY, json!({"messages": [other], "error": null}), Some("messages"));
    check(EMPTY, json!({"messages": [one], "error": "ChecksumMismatch"}), Some("error"));
}

#[test]
fn bytes_that_are_refused_or_cut_short_are_an_error_of_any_class() {
    let mut broken = EMPTY.to_vec();
    broken[15] ^= 1;
    check(&broken, json!({"messages": [], "error": "ChecksumMismatch"}), None);
    check(&broken, json!({"messages": [], "error": null}), Some("error"));
    check(&EMPTY[..9], json!({"messages": [], "error": "Incomplete"}), None);
}
