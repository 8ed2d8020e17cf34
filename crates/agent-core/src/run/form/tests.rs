//! Documents in another form, and documents with fields that this version does not know.

use serde_json::{Value, json};

use super::{Checkpoint, FORM, FormError, ReadError, Recorded};
use crate::event::AgentEvent;
use crate::history::History;
use crate::identity::Timestamp;
use crate::run::{AppliedInput, CompactionTask, Input, Phase, Run, RunSetup};

fn run() -> Run {
    let mut events: Vec<AgentEvent> = Vec::new();
    Run::start(RunSetup::new("s.m.1"), History::new(), vec!["Hi".into()], Timestamp(1), &mut events).unwrap()
}

fn checkpoint() -> Value {
    serde_json::to_value(Checkpoint::of(&run())).unwrap()
}

fn recorded() -> Value {
    let inputs = [Input::ReplyStarted, Input::CompactionFailed { message: "no".into() }, Input::QueuesRead];
    let inputs = inputs.into_iter().map(|input| AppliedInput { now: Timestamp(2), input }).collect();
    serde_json::to_value(Recorded::new(Timestamp(2), inputs)).unwrap()
}

/// The results of reading a document from its text and as a part of another one.
fn read(document: &Value) -> [Result<(), String>; 2] {
    let text = document.to_string();
    if document.get("run").is_some() {
        let read = Checkpoint::from_json(&text).map(drop);
        [read.map_err(|e| e.to_string()), Checkpoint::deserialize_value(document)]
    } else {
        let read = Recorded::from_json(&text).map(drop);
        [read.map_err(|e| e.to_string()), Recorded::deserialize_value(document)]
    }
}

trait Whole: for<'de> serde::Deserialize<'de> {
    fn deserialize_value(value: &Value) -> Result<(), String> {
        Self::deserialize(value).map(drop).map_err(|e| e.to_string())
    }
}

impl Whole for Checkpoint {}
impl Whole for Recorded {}

#[track_caller]
fn refused(document: &Value, why: &str) {
    for read in read(document) {
        let error = read.expect_err("a document that is not this version's");
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn another_form_is_refused_in_both_directions_and_the_error_says_what_to_do() {
    let cases = [
        (
            Some(0),
            "an earlier version wrote this run in form 0",
            "finish the run with the version that wrote it",
        ),
        (Some(2), "a later version wrote this run in form 2", "update looptree-core"),
        (None, "this run names no form", "finish the run with the version that wrote it"),
    ];
    for (found, what, what_to_do) in cases {
        for mut document in [checkpoint(), recorded()] {
            assert!(read(&document).iter().all(Result::is_ok), "{document}");
            let fields = document.as_object_mut().unwrap();
            match found {
                Some(found) => fields["form"] = json!(found),
                None => drop(fields.shift_remove("form")),
            }
            refused(&document, what);
            refused(&document, what_to_do);
            let error = match document.get("run") {
                Some(_) => Checkpoint::from_json(&document.to_string()).unwrap_err(),
                None => Recorded::from_json(&document.to_string()).unwrap_err(),
            };
            let ReadError::Form(error) = error else { panic!("{error:?}") };
            assert_eq!(error, FormError { found, supported: FORM });
        }
    }
}

#[test]
fn another_form_is_the_error_even_if_nothing_else_can_be_read() {
    for text in [r#"{"form":2,"run":7}"#, r#"{"run":{"spirit":1},"form":2}"#, r#"{"form":2}"#] {
        let error = Checkpoint::from_json(text).unwrap_err();
        assert!(matches!(error, ReadError::Form(FormError { found: Some(2), .. })), "{error:?}");
    }
    for text in ["", "[]", "{", r#"{"form":"one"}"#, r#"{"form":1}"#] {
        let error = Checkpoint::from_json(text).unwrap_err();
        assert!(matches!(error, ReadError::Json(_)), "{text}: {error:?}");
    }
}

#[test]
fn the_form_is_found_wherever_it_stands() {
    for document in [checkpoint(), recorded()] {
        let mut fields = document.as_object().unwrap().clone();
        let form = fields.shift_remove("form").unwrap();
        fields.insert("form".to_owned(), form);
        assert!(read(&Value::Object(fields)).iter().all(Result::is_ok));
    }
}

#[test]
fn an_unknown_field_is_refused_and_not_read_in_silence() {
    let at = |pointer: &str, mut document: Value| {
        document.pointer_mut(pointer).unwrap().as_object_mut().unwrap().insert("later".to_owned(), json!(1));
        document
    };
    for pointer in ["", "/run", "/run/setup", "/run/turn"] {
        refused(&at(pointer, checkpoint()), "unknown field `later`");
    }
    for pointer in ["", "/inputs/0", "/inputs/0/input", "/inputs/1/input", "/inputs/2/input"] {
        refused(&at(pointer, recorded()), "unknown field `later`");
    }
}

#[test]
fn an_unknown_field_of_a_phase_is_refused() {
    let mut run = run();
    let task = CompactionTask { reason: crate::event::CompactionReason::Budget, budget: 1 };
    let phases = [
        Phase::Calling { started: true, retry: None },
        Phase::Reserving { retry: None, forced: false },
        Phase::BetweenTurns { results_wanted: true },
    ];
    for phase in phases {
        run.phase = phase;
        let mut document = serde_json::to_value(Checkpoint::of(&run)).unwrap();
        let fields = document["run"]["phase"].as_object_mut().unwrap().values_mut().next().unwrap();
        fields["later"] = json!(1);
        refused(&document, "unknown field `later`");
    }
    run.phase = Phase::Compacting(task);
    let mut document = serde_json::to_value(Checkpoint::of(&run)).unwrap();
    document["run"]["phase"] = json!({"Dreaming": {}});
    refused(&document, "unknown variant `Dreaming`");
}
