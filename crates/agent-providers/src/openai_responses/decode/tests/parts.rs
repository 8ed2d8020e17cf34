//! Numbers of parts, as servers give them.

use super::*;

fn part_added(at: u64, number: u64) -> Value {
    json!({"type": "response.content_part.added", "output_index": at, "content_index": number,
        "part": {"type": "output_text", "text": ""}})
}

fn text_at(number: u64, delta: &str) -> Value {
    json!({"type": "response.output_text.delta", "output_index": 0, "content_index": number, "delta": delta})
}

fn text_done(number: u64, text: &str) -> Value {
    json!({"type": "response.output_text.done", "output_index": 0, "content_index": number, "text": text})
}

fn part_done(number: u64, text: &str) -> Value {
    json!({"type": "response.content_part.done", "output_index": 0, "content_index": number,
        "part": {"type": "output_text", "text": text}})
}

fn open() -> Value {
    added(0, json!({"type": "message", "id": "m", "content": []}))
}

fn texts_of(content: &[Value]) -> Value {
    let parts: Vec<Value> = content.iter().map(|t| json!({"type": "output_text", "text": t})).collect();
    json!({"type": "message", "id": "m", "role": "assistant", "content": parts})
}

/// Returns the texts of the blocks.
fn blocks(read: &Read) -> Vec<String> {
    assert_eq!(read.log.unrecognised(), 0);
    read.content().iter().filter_map(Content::as_text).map(str::to_owned).collect()
}

#[track_caller]
fn check(frames: &[Value], expect: &[&str]) {
    let read = read(&[frames, &[completed(json!([]))]].concat());
    assert_eq!(blocks(&read), expect);
    assert!(read.end.is_ok());
}

#[test]
fn the_only_part_may_have_another_number_than_its_whole() {
    for number in [0, 1, 7] {
        for whole in [0, 1, 2] {
            let ends = [text_done(whole, "Hello"), part_done(0, "Hello"), done(0, message("m", "Hello"))];
            let pieces = [open(), part_added(0, 0), text_at(number, "Hel"), text_at(number, "lo")];
            check(&[&pieces[..], &ends].concat(), &["Hello"]);
            // The same without announcements, and with a lost piece.
            let pieces = [open(), text_at(number, "Hel")];
            check(&[&pieces[..], &ends].concat(), &["Hello"]);
            check(&[&pieces[..], &ends[2..]].concat(), &["Hello"]);
            check(&[&pieces[..], &ends[1..]].concat(), &["Hello"]);
        }
    }
}

#[test]
fn a_number_that_counts_the_deltas_begins_no_blocks() {
    let whole = "ab".repeat(5_000);
    for announced in [&[][..], &[part_added(0, 0)]] {
        let pieces = (0..5_000).map(|n| text_at(n, "ab"));
        let frames: Vec<Value> = [open()].into_iter().chain(announced.to_vec()).chain(pieces).collect();
        let ends = [text_done(5_000, &whole), part_done(5_001, &whole), done(0, message("m", &whole))];
        check(&[&frames[..], &ends].concat(), &[&whole]);
    }
}

#[test]
fn thinking_that_counts_the_deltas_is_one_block_and_goes_back_in_its_item() {
    let delta = |n: u64| {
        json!({"type": "response.reasoning_text.delta", "output_index": 0, "item_id": "rs", "content_index": n,
            "delta": format!("{n},")})
    };
    let whole: String = (0..20).map(|n| format!("{n},")).collect();
    let part = json!({"type": "reasoning_text", "text": whole});
    let mut frames = vec![
        added(0, json!({"type": "reasoning", "id": "rs", "summary": []})),
        json!({"type": "response.reasoning_part.added", "output_index": 0, "item_id": "rs", "content_index": 0,
            "part": {"type": "reasoning_text", "text": ""}}),
    ];
    frames.extend((0..20).map(delta));
    frames.extend([
        json!({"type": "response.reasoning_text.done", "output_index": 0, "item_id": "rs", "content_index": 20,
            "text": whole}),
        json!({"type": "response.reasoning_part.done", "output_index": 0, "item_id": "rs", "content_index": 21,
            "part": part}),
        done(0, json!({"type": "reasoning", "id": "rs", "summary": [], "content": [part]})),
        completed(json!([{"type": "reasoning", "id": "rs", "summary": [], "content": [part]}])),
    ]);
    let read = read(&frames);
    let kept =
        json!({"type": "reasoning", "id": "rs", "summary": [], "content": [{"type": "reasoning_text"}]});
    let expect = [Content::opaque("reasoning", kept), Content::thinking(whole, None)];
    assert_eq!(read.content(), expect);
    assert_eq!(read.log.unrecognised(), 0);
}

#[test]
fn announced_and_ended_parts_are_blocks_of_their_own() {
    let (one, two) = ("one", "two");
    let whole = done(0, texts_of(&[json!(one), json!(two)]));
    let announced = [part_added(0, 0), text_at(0, one), part_added(0, 1), text_at(1, "t"), text_at(1, "wo")];
    check(&[&[open()][..], &announced, std::slice::from_ref(&whole)].concat(), &[one, two]);
    let ended = [text_at(0, one), text_done(0, one), part_done(0, one), text_at(1, two), text_done(1, two)];
    check(&[&[open()][..], &ended, std::slice::from_ref(&whole)].concat(), &[one, two]);
    // The numbers are one too high.
    let shifted = [
        part_added(0, 0),
        text_at(1, one),
        text_done(1, one),
        part_done(0, one),
        part_added(0, 1),
        text_at(2, two),
        text_done(2, two),
        part_done(1, two),
    ];
    check(&[&[open()][..], &shifted, std::slice::from_ref(&whole)].concat(), &[one, two]);
    // Whole parts without pieces, and the same text twice.
    check(&[open(), part_done(0, one), part_done(1, two), whole.clone()], &[one, two]);
    check(&[open(), text_done(0, one), done(0, texts_of(&[json!(one), json!(one)]))], &[one, one]);
    check(&[open(), text_at(0, "on"), whole.clone()], &[one, two]);
    check(&[open(), whole], &[one, two]);
}

#[test]
fn two_parts_without_announcements_may_become_one_block_and_are_not_repeated() {
    let frames =
        [open(), text_at(0, "one"), text_at(1, "tw"), done(0, texts_of(&[json!("one"), json!("two")]))];
    check(&frames, &["onetwo"]);
    let changed = [open(), text_at(0, "one"), done(0, texts_of(&[json!("One"), json!("two")]))];
    check(&changed, &["one", "two"]);
}

#[test]
fn an_item_is_found_by_its_name_where_the_number_is_that_of_another() {
    let delta = json!({"type": "response.output_text.delta", "output_index": 0, "item_id": "m", "content_index": 0,
        "delta": "Hello"});
    let frames = [
        added(0, json!({"type": "reasoning", "id": "rs"})),
        done(0, json!({"type": "reasoning", "id": "rs", "summary": []})),
        added(1, json!({"type": "message", "id": "m"})),
        delta.clone(),
        done(1, message("m", "Hello")),
    ];
    check(&frames, &["Hello"]);
    // The server does not announce the item.
    check(&[frames[0].clone(), frames[1].clone(), delta, done(0, message("m", "Hello"))], &["Hello"]);
}

#[test]
fn items_of_one_id_are_all_kept() {
    let thought = |text: &str| json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": text}]});
    let output = json!([thought("first"), message("m", "a"), thought("second"), message("m", "b")]);
    let body = json!({"id": "resp_1", "status": "completed", "output": output});
    let whole = run(|decoder, sink| decoder.whole(&body.to_string(), sink));
    let streamed = read(&[
        done(0, thought("first")),
        done(1, message("m", "a")),
        done(2, thought("second")),
        done(3, message("m", "b")),
        completed(output.clone()),
    ]);
    let last = read(&[done(0, thought("first")), completed(output)]);
    for read in [whole, streamed, last] {
        let thoughts: Vec<String> = read
            .content()
            .iter()
            .filter_map(|c| match c {
                Content::Thinking(block) => Some(block.thinking.clone()),
                _ => None,
            })
            .collect();
        assert_eq!(thoughts, ["first", "second"]);
        assert_eq!(read.log.snapshot().text(), "ab");
    }
}

#[test]
fn the_input_of_a_custom_tool_is_kept_beside_empty_arguments() {
    for arguments in [json!(null), json!("")] {
        let item = json!({"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "sql",
            "arguments": arguments, "input": "SELECT 1"});
        let body = json!({"status": "completed", "output": [item]});
        let whole = run(|decoder, sink| decoder.whole(&body.to_string(), sink));
        for read in [whole, read(&[done(0, item), completed(json!([]))])] {
            let message = read.end.unwrap();
            assert_eq!(message.tool_calls().next().unwrap().arguments.text(), "SELECT 1");
        }
    }
}

#[test]
fn token_counts_that_are_no_numbers_do_not_fail_the_reply() {
    for odd in [json!(true), json!([1]), json!({"n": 1}), json!("many"), json!(-1)] {
        let usage = json!({"input_tokens": odd, "output_tokens": 20, "total_tokens": 120,
            "output_tokens_details": {"reasoning_tokens": 5}});
        let end = json!({"type": "response.completed", "response": {"status": "completed", "usage": usage}});
        let read = read(&[done(0, message("m", "a")), end]);
        let counted = read.log.usage();
        assert_eq!((counted.input, counted.output, counted.reasoning), (0, 20, 5), "{odd}");
        assert_eq!(read.log.unrecognised(), 1, "{odd}");
        assert_eq!(read.end.unwrap().stop_reason, StopReason::Stop);
    }
    for odd in [json!("none"), json!(true), json!([7])] {
        let body = json!({"status": "completed", "output": [message("m", "a")], "usage": odd});
        let read = run(|decoder, sink| decoder.whole(&body.to_string(), sink));
        assert_eq!((read.log.usage().total_tokens, read.log.unrecognised()), (0, 1));
        assert_eq!(read.log.snapshot().text(), "a");
    }
}
