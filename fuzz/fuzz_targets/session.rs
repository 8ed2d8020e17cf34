//! The files of a session: whole, or a typed error; what was read can be written and read again.
#![no_main]

use std::sync::OnceLock;

use agent_session::JsonStore;

/// Between the two files in an input.
const BETWEEN: &[u8] = b"\n=====\n";

fn store() -> &'static (tempfile::TempDir, JsonStore) {
    static STORE: OnceLock<(tempfile::TempDir, JsonStore)> = OnceLock::new();
    STORE.get_or_init(|| {
        // In memory where the system has such a place.
        let shared = std::path::Path::new("/dev/shm");
        let folder = if shared.is_dir() { tempfile::tempdir_in(shared) } else { tempfile::tempdir() };
        let folder = folder.expect("a folder");
        let store = JsonStore::open(folder.path()).expect("a store");
        (folder, store)
    })
}

/// Sets the checksum of each line, so that changed lines are read.
fn sealed(data: &[u8]) -> Vec<u8> {
    const BEFORE: &[u8] = b"{\"crc\":\"";
    const PREFIX: usize = BEFORE.len() + 10;
    let mut data = data.to_vec();
    for line in data.split_mut(|b| *b == b'\n') {
        if !line.starts_with(BEFORE) || line.len() < PREFIX {
            continue;
        }
        let (prefix, rest) = line.split_at_mut(PREFIX);
        let rest: &[u8] = rest.strip_suffix(b",").unwrap_or(rest);
        let digits = format!("{:08x}", crc32fast::hash(rest));
        prefix[BEFORE.len()..BEFORE.len() + 8].copy_from_slice(digits.as_bytes());
    }
    data
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let (folder, store) = store();
    let data = &sealed(data)[..];
    let at = data.windows(BETWEEN.len()).position(|w| w == BETWEEN);
    let (file, journal) = match at {
        Some(at) => (&data[..at], Some(&data[at + BETWEEN.len()..])),
        None => (data, None),
    };
    let put = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).expect("a file");
    let (file_name, journal_name) = ("s.json", "s.journal.jsonl");
    for name in [file_name, journal_name] {
        let _ = std::fs::remove_file(folder.path().join(name));
    }
    if !file.is_empty() {
        put(file_name, file);
    }
    if let Some(journal) = journal {
        put(journal_name, journal);
    }
    let Ok(loaded) = store.load_session("s") else { return };
    let _ = (loaded.open_run().is_ok(), loaded.last_loop_id(), loaded.loop_counters(), loaded.torn_bytes());
    let session = loaded.into_session();
    let history = session.history().ok();
    let _ = (session.root_loops().count(), session.total_usage());
    for record in &session.loops {
        let id = record.loop_id.as_str();
        let _ = (session.loop_chain_to(id).len(), session.parallel_siblings(id).len());
        let _ = (session.children_of(id).count(), session.history_after(id).is_ok());
    }
    if session.session_id.as_str() != "s" {
        return;
    }
    store.save_session(&session).expect("what was read can be written");
    let again = store.load_session("s").expect("and read again").into_session();
    assert_eq!(again.loops.len(), session.loops.len());
    assert_eq!(again.history().ok().map(|h| h.len()), history.map(|h| h.len()));
});
