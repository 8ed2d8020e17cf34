//! Whether a session that was killed is as good as one that was not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use agent_core::{AgentEvent, Answer, Message};
use agent_session::{BlockingSessionStore, LoadedSession, LoopStatus, Session, SessionError};
use serde_json::{Value, json};

use crate::child::{EFFECTS, SESSION, UNKNOWN, events_of};
use crate::scene::Kind;

/// The session loads, has what was acknowledged, and begins with what it had before.
pub(crate) fn loads(
    store: &dyn BlockingSessionStore,
    safe: usize,
    before: Option<&Session>,
) -> Option<LoadedSession> {
    let loaded = match store.load_session(SESSION) {
        Ok(loaded) => loaded,
        Err(SessionError::NotFound { .. }) => {
            assert!(
                safe == 0 && before.is_none(),
                "a session is gone of which {safe} events were acknowledged"
            );
            return None;
        }
        Err(error) => panic!("the session does not load: {error}"),
    };
    let found = events_of(&loaded);
    assert!(found >= safe, "{safe} events were acknowledged, {found} are there");
    for record in before.iter().flat_map(|s| &s.loops) {
        let now = loaded.get_loop(record.loop_id.as_str()).expect("a loop that was there");
        assert!(
            now.events.starts_with(&record.events),
            "events of {} are other than they were",
            record.loop_id
        );
        assert!(now.messages.starts_with(&record.messages));
    }
    loaded.history().unwrap();
    Some(loaded)
}

/// An undisturbed run.
pub(crate) struct Reference {
    messages: Vec<Value>,
}

/// What became of calls that were cut off.
pub(crate) struct CutCalls {
    pub(crate) run_again: usize,
    pub(crate) closed: usize,
}

impl Reference {
    pub(crate) fn of(home: &Path, kind: Kind) -> Self {
        let store = kind.open(home);
        let messages = messages(&store.load_session(SESSION).unwrap());
        assert_eq!(messages.len(), 2 + 7 + 8, "prompts, replies, results");
        let counts = effects(home);
        assert_eq!(counts.len(), 8, "{counts:?}");
        Self { messages }
    }

    /// Compares a session that is done with this one.
    pub(crate) fn compare(&self, home: &Path, store: &dyn BlockingSessionStore) -> CutCalls {
        let session = store.load_session(SESSION).unwrap();
        let statuses: Vec<_> = session.loops.iter().map(|r| r.status).collect();
        assert_eq!(statuses, [LoopStatus::Completed; 2]);
        let answers = answers(&session);
        let closed: BTreeSet<&str> = answers
            .iter()
            .filter(|(_, a)| matches!(a, Answer::Deny { .. }))
            .map(|(id, _)| id.as_str())
            .collect();

        let found = messages(&session);
        assert_eq!(found.len(), self.messages.len());
        for (found, calm) in found.iter().zip(&self.messages) {
            let call = calm["toolCallId"].as_str();
            if call.is_some_and(|id| closed.contains(id)) {
                let text = found["content"][0]["text"].as_str();
                assert_eq!(text, Some(UNKNOWN), "closed with what is known");
                assert_eq!(found["isError"], json!(true));
            } else {
                assert_eq!(found, calm);
            }
        }

        let allowed = |call: &str| answers.iter().filter(|(id, a)| id == call && *a == Answer::Allow).count();
        for ((tool, call), lines) in effects(home) {
            assert_eq!(lines.keys.len(), 1, "the key of {call} is always the same: {:?}", lines.keys);
            let asked = answers.iter().any(|(id, _)| *id == call);
            if tool != "charge" {
                assert!(!asked && lines.ends > 0, "{tool} may be repeated, so nobody is asked about it");
                continue;
            }
            let most = 1 + allowed(&call);
            assert!(lines.begins <= most, "{call} ran {} times, {most} were allowed", lines.begins);
            if !asked {
                assert_eq!((lines.begins, lines.ends), (1, 1), "{call} ran once and to its end");
            } else if !closed.contains(call.as_str()) {
                assert!(lines.ends >= 1, "{call} was allowed to run again and did");
            }
        }
        let calls = effects(home).into_keys().map(|(_, call)| call).collect::<BTreeSet<_>>();
        for n in 0..8 {
            let call = format!("c{n}");
            assert!(calls.contains(&call) || closed.contains(call.as_str()), "{call} never ran");
        }
        CutCalls {
            run_again: answers.iter().filter(|(_, a)| *a == Answer::Allow).count(),
            closed: closed.len(),
        }
    }
}

/// The answers of a session, in their order.
fn answers(session: &Session) -> Vec<(String, Answer)> {
    let events = session.loops.iter().flat_map(|r| &r.events).filter_map(|e| e.known());
    events
        .filter_map(|e| match e {
            AgentEvent::QuestionAnswered { question_id, answer, .. } => {
                Some((question_id.to_string(), answer.clone()))
            }
            _ => None,
        })
        .collect()
}

/// The conversation without times.
fn messages(session: &Session) -> Vec<Value> {
    let history = session.history().unwrap();
    let mut messages: Vec<Value> = history.llm_messages().map(|m: &Message| json!(m)).collect();
    for message in &mut messages {
        for key in ["timestamp", "durationMs"] {
            if let Some(value) = message.get_mut(key) {
                *value = Value::Null;
            }
        }
    }
    messages
}

/// What the log of effects says of a call.
#[derive(Debug, Default)]
struct Lines {
    begins: usize,
    ends: usize,
    keys: BTreeSet<String>,
}

fn effects(home: &Path) -> BTreeMap<(String, String), Lines> {
    let text = std::fs::read_to_string(home.join(EFFECTS)).unwrap();
    let mut effects: BTreeMap<_, Lines> = BTreeMap::new();
    for line in text.lines() {
        let [what, tool, call, key] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line:?}") };
        let lines = effects.entry((tool.to_owned(), call.to_owned())).or_default();
        match what {
            "begin" => lines.begins += 1,
            _ => lines.ends += 1,
        }
        lines.keys.insert(key.to_owned());
    }
    effects
}
