//! Whether a session that was killed is as good as one that was not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use agent_core::{AgentEvent, Answer, Message};
use agent_session::{BlockingSessionStore, LoadedSession, LoopRecord, LoopStatus, Session, SessionError};
use serde_json::{Value, json};

use crate::child::{EFFECTS, SESSION, UNKNOWN, events_of, has_explored, prompted};
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
        let session = store.load_session(SESSION).unwrap();
        let messages = messages(&session);
        assert_eq!(messages.len(), 2 + 8 + 11 + 4, "prompts, replies, results, and the selected branch");
        let counts = effects(home);
        assert_eq!(counts.len(), 9 + 2 + 2, "{counts:?}");
        assert_eq!(helpers(&*store, &session, &BTreeSet::new()), 2);
        Self { messages }
    }

    /// Compares a session that is done with this one.
    pub(crate) fn compare(&self, home: &Path, store: &dyn BlockingSessionStore) -> CutCalls {
        let session = store.load_session(SESSION).unwrap();
        let statuses: Vec<_> = prompted(&session).map(|r| r.status).collect();
        assert_eq!(statuses, [LoopStatus::Completed; 2]);
        assert!(has_explored(&session));
        let mut answers = answers(&session);
        answers.extend(answers_of_helpers(store, &session));
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

        assert_eq!(helpers(store, &session, &closed), 2);
        one_group(&session);
        let allowed = |call: &str| answers.iter().filter(|(id, a)| id == call && *a == Answer::Allow).count();
        for ((tool, call), lines) in effects(home) {
            assert_eq!(lines.keys.len(), 1, "the key of {call} is always the same: {:?}", lines.keys);
            let (begins, ends) = lines.sum();
            let asked = answers.iter().any(|(id, _)| *id == call);
            if tool != "charge" {
                assert!(!asked && ends > 0, "{tool} may be repeated, so nobody is asked about it");
                continue;
            }
            let most = 1 + allowed(&call);
            assert!(begins <= most, "{call} ran {begins} times, {most} were allowed");
            if !asked {
                assert_eq!((begins, ends), (1, 1), "{call} ran once and to its end");
            } else if !closed.contains(call.as_str()) {
                assert!(ends >= 1, "{call} was allowed to run again and did");
            }
        }
        let calls = effects(home).into_keys().map(|(_, call)| call).collect::<BTreeSet<_>>();
        let own = (0..9).map(|n| format!("c{n}"));
        for call in own.chain(["c9/k", "c10/k", "b0", "b1"].map(str::to_owned)) {
            assert!(calls.contains(&call) || closed.contains(call.as_str()), "{call} never ran");
        }
        CutCalls {
            run_again: answers.iter().filter(|(_, a)| *a == Answer::Allow).count(),
            closed: closed.len(),
        }
    }
}

/// Checks the sessions of the helpers, and returns their number.
fn helpers(store: &dyn BlockingSessionStore, session: &Session, closed: &BTreeSet<&str>) -> usize {
    let links: Vec<_> = session.loops.iter().flat_map(|r| &r.child_loop_refs).collect();
    for link in &links {
        let helper = store.load_session(link.child_session_id.as_str()).unwrap();
        let statuses: Vec<_> = helper.loops.iter().map(|r| r.status).collect();
        assert_eq!(statuses, [LoopStatus::Completed], "{}", link.tool_call_id);
        let said: Vec<String> = helper.history().unwrap().llm_messages().map(Message::text).collect();
        let call = format!("{}/k", link.tool_call_id);
        let result = match closed.contains(call.as_str()) {
            true => UNKNOWN.to_owned(),
            false => format!("charge for {call}: done"),
        };
        assert_eq!(said[1..], ["I pay that.".to_owned(), result, format!("Paid for {call}.")]);
    }
    assert_eq!(store.list_session_ids().unwrap().len(), 1 + links.len(), "no helper began twice");
    links.len()
}

/// The group that was cut off is the only one, with one judge and one selection.
fn one_group(session: &Session) {
    let is_branch = |r: &&LoopRecord| r.parallel_group.is_some();
    let branches: Vec<_> = session.loops.iter().filter(is_branch).collect();
    let selected = branches.iter().filter(|r| r.parallel_group.as_ref().is_some_and(|g| g.is_selected));
    assert_eq!((branches.len(), selected.count()), (2, 1));
    let is_judge = |r: &&LoopRecord| r.group.is_some() && r.parallel_group.is_none();
    assert_eq!(session.loops.iter().filter(is_judge).count(), 1);
}

/// The answers that the helpers got.
fn answers_of_helpers(store: &dyn BlockingSessionStore, session: &Session) -> Vec<(String, Answer)> {
    let links = session.loops.iter().flat_map(|r| &r.child_loop_refs);
    links.flat_map(|link| answers(&store.load_session(link.child_session_id.as_str()).unwrap())).collect()
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
    /// How often the call began and ended, by its key.
    keys: BTreeMap<String, (usize, usize)>,
}

impl Lines {
    fn sum(&self) -> (usize, usize) {
        self.keys.values().fold((0, 0), |sum, key| (sum.0 + key.0, sum.1 + key.1))
    }
}

fn effects(home: &Path) -> BTreeMap<(String, String), Lines> {
    let text = std::fs::read_to_string(home.join(EFFECTS)).unwrap();
    let mut effects: BTreeMap<_, Lines> = BTreeMap::new();
    for line in text.lines() {
        let [what, tool, call, key] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line:?}") };
        let lines = effects.entry((tool.to_owned(), call.to_owned())).or_default();
        let counts = lines.keys.entry(key.to_owned()).or_default();
        match what {
            "begin" => counts.0 += 1,
            _ => counts.1 += 1,
        }
    }
    effects
}
