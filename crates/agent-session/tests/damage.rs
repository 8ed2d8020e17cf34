//! Files that are cut, foreign or hostile.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod harm;
mod scene;

use std::path::Path;

use agent_core::{AgentEvent, ToolExecutionStrategy};
use agent_session::{
    BlockingSessionStore, JsonStore, LoadedSession, SessionError, SessionQuery, SessionRecorder,
    SessionSummary,
};
use harm::{is_noticed, step};
use scene::{Act, Play, agent, each_store, perform};

/// A session of two loops, in both forms: its journal and its file.
fn recorded(dir: &Path) -> (Vec<u8>, Vec<u8>) {
    let store = JsonStore::open(dir).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let plays = [Play::Calls(vec!["fail"]), Play::Text(100), Play::Text(3)];
        let mut agent = agent(&plays, ToolExecutionStrategy::Parallel);
        let recorder = SessionRecorder::attach(&mut agent, store);
        perform(&agent, &[Act::Prompt(100), Act::Prompt(2)]).await;
        let journal = std::fs::read(dir.join("s-1.journal.jsonl")).unwrap();
        recorder.close().await.unwrap();
        (journal, std::fs::read(dir.join("s-1.json")).unwrap())
    })
}

/// Where to cut: everywhere near the ends and near the end of each line, and at every seventh byte between.
fn cuts(bytes: &[u8]) -> Vec<usize> {
    let near = |at: usize| {
        let around = bytes.get(at.saturating_sub(3)..(at + 3).min(bytes.len())).unwrap_or_default();
        at < 200 || at + 200 > bytes.len() || around.contains(&b'\n')
    };
    let indented = bytes.iter().filter(|b| **b == b'\n').count() * 40 > bytes.len();
    (0..=bytes.len()).filter(|at| at % 7 == 0 || (near(*at) && (!indented || at % 3 == 0))).collect()
}

fn events_of(session: &LoadedSession) -> usize {
    session.loops.iter().map(|r| r.events.len()).sum()
}

/// REQ-216.
#[test]
fn a_file_that_is_cut_anywhere_is_a_typed_error_that_names_file_and_place() {
    let dir = tempfile::tempdir().unwrap();
    let (_, json) = recorded(dir.path());
    let store = JsonStore::open(dir.path()).unwrap();
    let whole = store.load_session("s-1").unwrap();
    let path = store.path_of("s-1").unwrap();
    // Whitespace at the end is no loss.
    let last = json.iter().rposition(|b| *b == b'}').unwrap();
    for cut in cuts(&json).into_iter().filter(|at| *at < json.len()) {
        std::fs::write(&path, &json[..cut]).unwrap();
        match store.load_session("s-1") {
            Err(SessionError::Corrupt { path: at, place, .. }) => {
                assert_eq!(at, path);
                assert!(place.contains("line"), "{place}");
            }
            Ok(loaded) => {
                assert!(cut > last, "cut at {cut}");
                assert_eq!(loaded, whole);
            }
            Err(other) => panic!("cut at {cut}: {other}"),
        }
    }
}

/// B-178. A cut journal lost records that were acknowledged. What was not acknowledged is dropped.
#[test]
fn a_journal_that_is_cut_anywhere_is_an_error_unless_nothing_acknowledged_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = recorded(dir.path());
    let store = JsonStore::open(dir.path()).unwrap();
    let whole = store.load_session("s-1").unwrap();
    std::fs::remove_file(store.path_of("s-1").unwrap()).unwrap();
    let path = dir.path().join("s-1.journal.jsonl");
    for cut in cuts(&journal).into_iter().filter(|cut| *cut < journal.len()) {
        std::fs::write(&path, &journal[..cut]).unwrap();
        match store.load_session("s-1") {
            Err(SessionError::Corrupt { path: at, .. }) => assert_eq!(at, path),
            other => panic!("cut at {cut}: {other:?}"),
        }
        if let Ok(salvaged) = store.salvage_session("s-1") {
            assert!(!salvaged.losses.is_empty(), "cut at {cut}");
            for (kept, was) in salvaged.session.loops.iter().zip(&whole.loops) {
                assert_eq!(kept.events[..], was.events[..kept.events.len()], "cut at {cut}");
            }
            salvaged.session.history().unwrap();
        }
    }
    // A record that was being written when the process ended.
    let torn = [&journal[..], b"{\"crc\":\"0123"].concat();
    std::fs::write(&path, torn).unwrap();
    let loaded = store.load_session("s-1").unwrap();
    assert_eq!((loaded.torn_bytes(), events_of(&loaded)), (12, events_of(&whole)));
    loaded.history().unwrap();
    loaded.open_run().unwrap();
}

/// A torn line is dropped for good when the session is written again; nothing else is.
#[test]
fn writing_goes_on_after_a_torn_line() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = recorded(dir.path());
    let store = JsonStore::open(dir.path()).unwrap();
    std::fs::remove_file(store.path_of("s-1").unwrap()).unwrap();
    std::fs::write(dir.path().join("s-1.journal.jsonl"), [&journal[..], b"{\"crc\""].concat()).unwrap();
    let before = store.load_session("s-1").unwrap();
    assert_eq!((before.loops.len(), before.torn_bytes()), (2, 6));
    store.save_session(&before).unwrap();
    let after = store.load_session("s-1").unwrap();
    assert_eq!((after.torn_bytes(), events_of(&after)), (0, events_of(&before)));
    assert!(!dir.path().join("s-1.journal.jsonl").exists());
}

/// The line with the summary for lists, without its line feed. Nothing else is read from it.
fn summary_line(name: &str, bytes: &[u8]) -> std::ops::Range<usize> {
    let mut ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at);
    match name {
        "s-1.json" => 0..0,
        _ => ends.nth(1).unwrap() + 1..ends.next().unwrap(),
    }
}

/// A list reads fewer bytes of a file of this test.
const LISTED_BYTES: usize = 5_000;

/// The summary of the session in a list; `None` if it is unreadable.
fn list(store: &JsonStore) -> Option<SessionSummary> {
    let mut found = BlockingSessionStore::find_sessions(store, &SessionQuery::new()).unwrap();
    assert_eq!(found.sessions.len() + found.unreadable.len(), 1);
    found.sessions.pop().map(|found| found.summary)
}

/// REQ-216. Attack 12.
#[test]
fn every_flipped_bit_and_every_truncation_of_a_session_is_noticed() {
    for name in ["s-1.journal.jsonl", "s-1.json"] {
        let dir = tempfile::tempdir().unwrap();
        let (journal, json) = recorded(dir.path());
        let store = JsonStore::open(dir.path()).unwrap();
        std::fs::remove_file(store.path_of("s-1").unwrap()).unwrap();
        let bytes = if name == "s-1.json" { json } else { journal };
        let path = dir.path().join(name);
        std::fs::write(&path, &bytes).unwrap();
        let whole = store.load_session("s-1").unwrap();
        assert_eq!(whole.loops.iter().map(|r| r.turns.len()).sum::<usize>(), 3, "three turns");
        let (mut noticed, mut all) = (0, 0);
        let summary = summary_line(name, &bytes);
        let listed = list(&store);
        for bit in (0..bytes.len() * 8).step_by(step(7)) {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, flipped).unwrap();
            let is_noticed = is_noticed(Ok(&store), &whole, &|| format!("{name}, bit {bit}"));
            if !summary.contains(&(bit / 8)) {
                noticed += usize::from(is_noticed);
                all += 1;
            }
            if bit / 8 < LISTED_BYTES {
                let found = list(&store);
                assert!(found.is_none() || found == listed, "{name}, bit {bit}: {found:?}");
            }
        }
        assert!(noticed * 100 > all * 98, "{noticed} of {all} in {name}");
        for length in (0..bytes.len()).step_by(step(7)) {
            std::fs::write(&path, &bytes[..length]).unwrap();
            assert!(
                is_noticed(Ok(&store), &whole, &|| format!("{name}, length {length}")),
                "{name} {length}"
            );
        }
        println!("{name}: {noticed} of {all} flipped bits are errors, the others change nothing");
    }
}

/// Attack 12: every intact line of a damaged session is returned.
#[test]
fn what_is_intact_around_damage_is_salvaged() {
    for name in ["s-1.journal.jsonl", "s-1.json"] {
        let dir = tempfile::tempdir().unwrap();
        let (journal, json) = recorded(dir.path());
        let store = JsonStore::open(dir.path()).unwrap();
        let whole = store.load_session("s-1").unwrap();
        std::fs::remove_file(store.path_of("s-1").unwrap()).unwrap();
        let bytes = if name == "s-1.json" { json } else { journal };
        let lines: Vec<&[u8]> = bytes.split_inclusive(|b| *b == b'\n').collect();
        for damaged in 0..lines.len() {
            let mut file: Vec<Vec<u8>> = lines.iter().map(|line| line.to_vec()).collect();
            let middle = file[damaged].len() / 2;
            file[damaged][middle] ^= 1;
            std::fs::write(dir.path().join(name), file.concat()).unwrap();
            let salvaged = match store.salvage_session("s-1") {
                Ok(salvaged) => salvaged,
                Err(error) => panic!("{name}, line {}: {error}", damaged + 1),
            };
            let events = |session: &agent_session::Session| -> Vec<agent_session::RecordedEvent> {
                session.loops.iter().flat_map(|r| &r.events).map(|e| e.event.clone()).collect()
            };
            let (kept, was) = (events(&salvaged.session), events(&whole));
            let in_line = lines[damaged].windows(7).filter(|w| *w == b"\"type\":").count();
            // A line of a message has two events, and blocks of content have types, too.
            assert!(
                kept.len() + 2 * in_line + 4 >= was.len(),
                "{name}, line {}: {}",
                damaged + 1,
                kept.len()
            );
            // The ends of turns and loops list messages, of which some can be missing.
            let is_end = |event: &agent_session::RecordedEvent| {
                matches!(event, agent_session::RecordedEvent::Known(event)
                    if matches!(**event, AgentEvent::TurnEnd { .. } | AgentEvent::AgentEnd(_)))
            };
            let changed = kept.iter().find(|event| !is_end(event) && !was.contains(event));
            assert_eq!(changed, None, "{name}, line {}", damaged + 1);
            let named = format!("line {}", damaged + 1);
            let told = salvaged.losses.iter().any(|loss| loss.place.ends_with(&named));
            assert!(told || kept.len() == was.len(), "{name}, {named}: {:?}", salvaged.losses);
            // A damaged record is counted as one, so no other one is reported as missing.
            let gap = salvaged.losses.iter().find(|loss| loss.reason.contains("before it are missing"));
            assert_eq!(gap, None, "{name}, {named}");
        }
    }
}

/// A line is damaged, and what can be read becomes a session that loads as it was saved, in each store.
#[test]
fn what_is_salvaged_can_be_saved_and_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, json) = recorded(dir.path());
    let mut missing = 0;
    for (name, bytes) in [("s-1.journal.jsonl", journal), ("s-1.json", json)] {
        let folder = tempfile::tempdir().unwrap();
        let store = JsonStore::open(folder.path()).unwrap();
        let mut from = 0;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let mut damaged = bytes.clone();
            damaged[from + line.len() / 2] ^= 1;
            from += line.len();
            std::fs::write(folder.path().join(name), damaged).unwrap();
            let Ok(salvaged) = store.salvage_session("s-1") else { continue };
            missing += salvaged.missing_messages();
            let new = salvaged.into_new_session("new".into());
            each_store(|kind, other| {
                other.save_session(&new).unwrap();
                let loaded = other.load_session("new").unwrap_or_else(|e| panic!("{kind:?} {name}: {e}"));
                assert_eq!(*loaded, new, "{kind:?} {name}");
                assert!(!agent_session::to_markdown(&loaded).is_empty());
            });
        }
    }
    assert!(missing > 0, "a line with messages was damaged");
}

#[track_caller]
fn refuse(files: &[(&str, &[u8])], expect: &str) {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap().with_max_file_bytes(1 << 20);
    for (name, bytes) in files {
        std::fs::write(dir.path().join(name), bytes).unwrap();
    }
    let error = store.load_session("s-1").unwrap_err();
    assert!(error.to_string().contains(expect), "{error}");
    assert!(error.to_string().contains("s-1"), "{error}");
    // Nobody writes over what nobody can read.
    let session = agent_session::Session::new("s-1".into(), "a".into(), agent_core::Timestamp(1));
    assert!(store.save_session(&session).is_err());
    for (name, bytes) in files {
        assert_eq!(std::fs::read(dir.path().join(name)).unwrap(), *bytes);
    }
}

/// REQ-216.
#[test]
fn foreign_and_hostile_files_are_typed_errors_and_stay_as_they_are() {
    let deep = "[".repeat(100_000);
    let head = br#"{"version":1,"session_id":"s-1","agent_id":"a","created_at":1,"last_active_at":1,"formation":{"FirstLoop":{"timestamp":1}}"#;
    let with = |rest: &str| [head.as_slice(), rest.as_bytes()].concat();
    let first =
        |rest: &str| [br#"{"journal":1,"head":"#.as_slice(), &with("}"), b"}\n", rest.as_bytes()].concat();
    refuse(&[("s-1.json", b"")], "line 1, column 0");
    refuse(&[("s-1.json", b"<html>")], "line 1, column 1");
    refuse(&[("s-1.json", b"{}")], "there is no version");
    refuse(&[("s-1.json", b"[]")], "there is no version");
    refuse(&[("s-1.json", br#"{"version":3}"#)], "has version 3, and this version reads up to 2");
    refuse(&[("s-1.json", br#"{"version":2}"#)], "not the first line of a session");
    refuse(&[("s-1.json", br#"{"version":1}"#)], "session_id");
    refuse(&[("s-1.json", deep.as_bytes())], "recursion limit");
    refuse(&[("s-1.json", &vec![b' '; (1 << 20) + 1])], "larger than 1048576 bytes");
    refuse(&[("s-1.json", &[0xff; 10])], "line 1, column 1");
    refuse(&[("s-1.json", &with(r#","loops":{}}"#))], "loops");
    refuse(&[("s-1.json", &with(r#","loops":[{"loop_id":"x"}]}"#))], "loops[0]");
    let record = r#"{"loop_id":"l","session_id":"s-1","agent_id":"a","started_at":1,"status":"Completed","events":[{"sequence":0,"event":EVENT}]}"#;
    for (event, expect) in [
        (r#"{"type":"MessageEnd","loop_id":"l","message":7}"#, "names message 7 of 0"),
        (r#"{"type":"X","text":{"$text":"/nowhere"}}"#, "/nowhere is no text of this loop"),
        (r#"{"type":"X","text":{"$json":"["}}"#, "$json"),
    ] {
        let loops = format!(r#","loops":[{}]}}"#, record.replace("EVENT", event));
        refuse(&[("s-1.json", &with(&loops))], expect);
        refuse(&[("s-1.json", &with(&loops))], "loops[0].events[0]");
    }
    let other = String::from_utf8(with("}")).unwrap().replace("s-1", "s-2");
    refuse(&[("s-1.json", other.as_bytes())], "the file holds session \"s-2\"");
    refuse(&[("s-1.journal.jsonl", b"{}\n")], "line 1");
    refuse(&[("s-1.journal.jsonl", &first("nonsense\n"))], "line 2");
    refuse(&[("s-1.journal.jsonl", &first("{\"n\":2}\n"))], "record 1 is missing");
    refuse(&[("s-1.journal.jsonl", &first("{\"n\":1,\"at\":1,\"loop\":\"l\"}\n"))], "begins no loop");
    refuse(&[("s-1.journal.jsonl", &first("{\"n\":1,\"loop\":{\"$text\":9}}\n"))], "text 9 of 0");
}

/// A small file whose references unfold to gigabytes.
#[test]
fn references_cannot_fill_the_memory() {
    let long = "x".repeat(200_000);
    let event = r#"{"sequence":0,"event":{"type":"X","a":[REFS]}}"#;
    let refs = vec![r#"{"$text":"/metadata/t"}"#; 10_000].join(",");
    let json = format!(
        r#"{{"version":1,"session_id":"s-1","agent_id":"a","created_at":1,"last_active_at":1,
        "formation":{{"FirstLoop":{{"timestamp":1}}}},"loops":[{{"loop_id":"l","session_id":"s-1","agent_id":"a",
        "started_at":1,"status":"Completed","metadata":{{"t":"{long}"}},"events":[{}]}}]}}"#,
        event.replace("REFS", &refs)
    );
    refuse(&[("s-1.json", json.as_bytes())], "unfold to far more than the file holds");
}

/// What is offered of a file that breaks off: the loops before the cut, and of the last one what is whole.
#[test]
fn what_can_be_read_of_a_cut_file_is_offered_with_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let (_, json) = recorded(dir.path());
    let store = JsonStore::open(dir.path()).unwrap();
    let whole = store.load_session("s-1").unwrap();
    let untouched = store.salvage_session("s-1").unwrap();
    assert_eq!((untouched.session, untouched.losses.len()), (whole.clone().into_session(), 0));
    let path = store.path_of("s-1").unwrap();
    let mut most = (0, 0);
    for cut in (0..json.len()).step_by(61) {
        std::fs::write(&path, &json[..cut]).unwrap();
        match store.salvage_session("s-1") {
            Ok(salvaged) => {
                assert!(!salvaged.losses.is_empty(), "cut at {cut}");
                assert!(salvaged.losses[0].place.contains("s-1.json"));
                let found = (salvaged.session.loops.len(), events_in(&salvaged.session));
                assert!(found >= most, "cut at {cut}: {found:?} after {most:?}");
                most = found;
                for (kept, was) in salvaged.session.loops.iter().zip(&whole.loops) {
                    assert_eq!(kept.events[..], was.events[..kept.events.len()], "cut at {cut}");
                }
            }
            Err(SessionError::Corrupt { .. }) => assert_eq!(most, (0, 0), "cut at {cut}"),
            Err(other) => panic!("cut at {cut}: {other}"),
        }
    }
    assert!(most.0 == whole.loops.len() && most.1 > events_of(&whole) / 2, "{most:?}");
}

fn events_in(session: &agent_session::Session) -> usize {
    session.loops.iter().map(|r| r.events.len()).sum()
}

/// The lines before a bad one are offered.
#[test]
fn what_can_be_read_of_a_journal_with_a_bad_line_is_offered() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = recorded(dir.path());
    let store = JsonStore::open(dir.path()).unwrap();
    std::fs::remove_file(store.path_of("s-1").unwrap()).unwrap();
    let mut lines: Vec<&[u8]> = journal.split_inclusive(|b| *b == b'\n').collect();
    let bad = lines.len() / 2 + 1;
    lines[bad] = b"not json\n";
    std::fs::write(dir.path().join("s-1.journal.jsonl"), lines.concat()).unwrap();
    assert!(matches!(store.load_session("s-1"), Err(SessionError::Corrupt { .. })));
    let salvaged = store.salvage_session("s-1").unwrap();
    let loss = &salvaged.losses[0];
    assert!(loss.place.ends_with(&format!("s-1.journal.jsonl: line {}", bad + 1)), "{loss:?}");
    assert_eq!(loss.to_string().matches("s-1.journal.jsonl").count(), 1, "{loss}");
    assert!(!salvaged.session.loops.is_empty());
    assert!(salvaged.session.loops.iter().all(|r| !r.is_open()));
    salvaged.session.history().unwrap();
}

/// REQ-216. A file of 1 GB is refused by its size, before any of it is read; so is a journal.
#[test]
fn a_file_of_a_gigabyte_is_refused_by_its_size() {
    #[track_caller]
    fn check(dir: &Path, name: &str) {
        let path = dir.join(name);
        std::fs::File::create(&path).unwrap().set_len(1 << 30).unwrap();
        let error = JsonStore::open(dir).unwrap().load_session("s-1").unwrap_err();
        assert!(matches!(&error, SessionError::TooLarge { path: at, .. } if *at == path), "{error}");
        std::fs::remove_file(path).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    check(dir.path(), "s-1.json");
    recorded(dir.path());
    check(dir.path(), "s-1.journal.jsonl");
}

/// Version 1 emptied a journal with a save. Beside a file of form 2, an empty journal has lost its records.
#[test]
fn an_empty_journal_belongs_to_version_1_only() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path());
    let store = JsonStore::open(dir.path()).unwrap();
    let whole = store.load_session("s-1").unwrap();
    let journal = dir.path().join("s-1.journal.jsonl");
    std::fs::write(&journal, "").unwrap();
    assert!(matches!(store.load_session("s-1"), Err(SessionError::Corrupt { .. })));

    std::fs::write(store.path_of("s-1").unwrap(), serde_json::to_string_pretty(&*whole).unwrap()).unwrap();
    assert_eq!(store.load_session("s-1").unwrap(), whole);
    store.save_session(&whole).unwrap();
    assert!(!journal.exists());
    assert_eq!(store.load_session("s-1").unwrap(), whole);

    // What a killed process of version 1 left before its first record.
    std::fs::write(dir.path().join("s-2.journal.jsonl"), "").unwrap();
    assert_eq!(store.list_session_ids().unwrap(), ["s-1"]);
}
