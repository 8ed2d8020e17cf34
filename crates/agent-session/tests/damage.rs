//! Files that are cut, foreign or hostile.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod scene;

use std::path::Path;

use agent_core::ToolExecutionStrategy;
use agent_session::{
    BlockingSessionStore, JsonStore, LoadedSession, LoopStatus, SessionError, SessionRecorder,
};
use scene::{Act, Play, agent, perform};

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

/// B-178.
#[test]
fn a_journal_that_is_cut_anywhere_gives_all_whole_lines_and_says_what_was_torn() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = recorded(dir.path());
    let store = JsonStore::open(dir.path()).unwrap();
    let whole = store.load_session("s-1").unwrap();
    std::fs::remove_file(store.path_of("s-1").unwrap()).unwrap();
    let path = dir.path().join("s-1.journal.jsonl");
    let mut events = 0;
    for cut in cuts(&journal) {
        std::fs::write(&path, &journal[..cut]).unwrap();
        let line = journal[..cut].iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        let loaded = match store.load_session("s-1") {
            Ok(loaded) => loaded,
            Err(SessionError::NotFound { .. }) => {
                assert_eq!(line, 0, "a whole line was there at {cut}");
                continue;
            }
            Err(other) => panic!("cut at {cut}: {other}"),
        };
        assert_eq!(loaded.torn_bytes(), cut - line);
        assert!(events_of(&loaded) >= events, "cut at {cut}");
        events = events_of(&loaded);
        for (at, record) in loaded.loops.iter().enumerate() {
            assert_eq!(record.events[..], whole.loops[at].events[..record.events.len()]);
            assert_eq!(record.ended_at.is_none(), record.status == LoopStatus::Interrupted);
        }
        loaded.history().unwrap();
        loaded.open_run().unwrap();
    }
    assert_eq!(events, events_of(&whole), "the last cut is none");
}

/// A torn line is dropped for good when the session is written again; nothing else is.
#[test]
fn writing_goes_on_after_a_torn_line() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = recorded(dir.path());
    let store = JsonStore::open(dir.path()).unwrap();
    std::fs::remove_file(store.path_of("s-1").unwrap()).unwrap();
    std::fs::write(dir.path().join("s-1.journal.jsonl"), &journal[..journal.len() - 5]).unwrap();
    let before = store.load_session("s-1").unwrap();
    assert_eq!(before.loops.len(), 2);
    store.save_session(&before).unwrap();
    let after = store.load_session("s-1").unwrap();
    assert_eq!((after.torn_bytes(), events_of(&after)), (0, events_of(&before)));
    assert!(!dir.path().join("s-1.journal.jsonl").exists());
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
    refuse(&[("s-1.json", br#"{"version":2}"#)], "has version 2, and this version reads up to 1");
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
    let bad = lines.len() / 2;
    lines[bad] = b"not json\n";
    std::fs::write(dir.path().join("s-1.journal.jsonl"), lines.concat()).unwrap();
    assert!(matches!(store.load_session("s-1"), Err(SessionError::Corrupt { .. })));
    let salvaged = store.salvage_session("s-1").unwrap();
    let [loss] = &salvaged.losses[..] else { panic!("{:?}", salvaged.losses) };
    assert!(loss.reason.contains(&format!("line {}", bad + 1)), "{loss:?}");
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
