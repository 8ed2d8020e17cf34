use serde_json::{Value, json};

use super::{open, parse, seal};

fn sealed(value: &Value) -> Vec<u8> {
    let mut line = Vec::new();
    seal(&mut line, |out| serde_json::to_writer(out, value)).unwrap();
    line
}

#[test]
fn a_sealed_line_is_json_and_reads_back() {
    let line = sealed(&json!({ "n": 1, "text": "Grüße" }));
    let value: Value = serde_json::from_slice(&line).unwrap();
    assert_eq!(value["n"], 1);
    assert_eq!(value["crc"].as_str().unwrap().len(), 8);
    assert_eq!(parse::<Value>(&line).unwrap()["text"], "Grüße");
}

#[test]
fn every_flipped_bit_and_every_truncation_is_detected() {
    let line = sealed(&json!({ "n": 1, "text": "some text" }));
    for bit in 0..line.len() * 8 {
        let mut flipped = line.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(open(&flipped).is_err(), "bit {bit}");
    }
    for length in 0..line.len() {
        assert!(open(&line[..length]).is_err(), "length {length}");
    }
}

#[test]
fn an_object_that_cannot_be_written_leaves_no_line() {
    let mut out = b"before".to_vec();
    assert!(seal(&mut out, |_| Err("no")).is_err());
    assert_eq!(out, b"before");
}
