//! `edit_file` against a naive model of what its page says, over generated files and edits.
//!
//! The model ([`model`]) was written from `docs/tools/edit-file.md` and knows nothing of the tool's own code: it looks at every
//! place of a file one after the other. Each case is one call of the tool on a real file; the model says beforehand which
//! bytes must be there afterwards, or why nothing may have changed.
//!
//! A case that differs is made small and printed with the seed; `LOOPTREE_EDIT_SEED` runs the same cases again, and
//! `LOOPTREE_EDIT_CASES` another number of them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests say what is wrong by ending"
)]

mod cases;
mod model;
#[path = "../support/mod.rs"]
mod support;

use agent_core::{ToolError, ToolResult};
use agent_tools::EditFileTool;
use proptest::test_runner::TestCaseError;
use serde_json::{Value, json};

use cases::{Case, Coverage, case};
use model::Outcome;
use support::random::{in_memory, runner};
use support::{Folder, call};

/// How many cases are run unless the environment says otherwise.
const CASES: u32 = 10_000;

/// What the random cases begin from unless the environment says otherwise. A fixed number, so that a change that is not about
/// edits is not stopped by them.
const SEED: u64 = 0x006c_6f6f_7074_7265;

/// B-171, D25.
#[test]
fn ten_thousand_edits_come_out_as_the_naive_model_says() {
    let (mut runner, seed, cases) = runner("EDIT", SEED, CASES);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let folder = in_memory();
    let coverage = std::cell::RefCell::new(Coverage::default());
    let done = runner.run(&case(), |case| {
        let outcome = model::predict(&case.file, &case.edits);
        coverage.borrow_mut().note(&case, &outcome);
        runtime.block_on(compare(&folder, &case, &outcome)).map_err(TestCaseError::fail)
    });
    if let Err(failure) = done {
        panic!("LOOPTREE_EDIT_SEED={seed}: {failure}");
    }
    eprintln!("{:?}", coverage.borrow());
    if cases >= CASES {
        // A generator that makes only one kind of case would prove little.
        coverage.borrow().check(cases);
    }
}

/// Makes the edits with the tool, and holds file and answer against what the model says.
async fn compare(folder: &Folder, case: &Case, outcome: &Outcome) -> Result<(), String> {
    folder.put("f", &case.file);
    let tool = EditFileTool::new(folder.workspace.clone());
    let answer = call(&tool, arguments(case)).await;
    let after = folder.get("f");
    let expected = match outcome {
        Outcome::Changed { file, .. } => file,
        _ => &case.file,
    };
    if after != *expected {
        let (expected, after) = (shown(expected), shown(&after));
        return Err(format!(
            "the model says {outcome:?}\n that is {expected}\n the tool left {after}\n and said {answer:?}"
        ));
    }
    if !agrees(&answer, outcome) {
        return Err(format!("the model says {outcome:?}\n the tool answered {answer:?}"));
    }
    outside_is_the_same(&case.file, &after, outcome)
}

/// The law that matters most, without the model's idea of what goes into a place: the bytes between the places are in the
/// new file, in their order, and nothing else but what was put in the places.
fn outside_is_the_same(before: &[u8], after: &[u8], outcome: &Outcome) -> Result<(), String> {
    let Outcome::Changed { places, .. } = outcome else { return Ok(()) };
    let (first, last) = (places.first().unwrap().start, places.last().unwrap().end);
    let tail = &before[last..];
    if !after.starts_with(&before[..first]) || !after.ends_with(tail) || after.len() < first + tail.len() {
        return Err("bytes before the first or behind the last edit are others".to_owned());
    }
    let mut rest = &after[first..after.len() - tail.len()];
    for pair in places.windows(2) {
        let between = &before[pair[0].end..pair[1].start];
        let at = (0..=rest.len()).find(|at| rest[*at..].starts_with(between));
        let at = at.ok_or("bytes between two edits are others")?;
        rest = &rest[at + between.len()..];
    }
    Ok(())
}

fn arguments(case: &Case) -> Value {
    let edits: Vec<Value> =
        case.edits.iter().map(|(old, new)| json!({"old_text": old, "new_text": new})).collect();
    match edits.as_slice() {
        [one] if !case.as_list => {
            json!({"path": "f", "old_text": one["old_text"], "new_text": one["new_text"]})
        }
        _ => json!({"path": "f", "edits": edits}),
    }
}

/// Whether the tool says what the model says.
fn agrees(answer: &Result<ToolResult, ToolError>, outcome: &Outcome) -> bool {
    let text = match answer {
        Ok(result) => result.to_text(),
        Err(error) => error.to_string(),
    };
    match outcome {
        Outcome::Changed { .. } => {
            answer.as_ref().is_ok_and(|r| !r.is_error) && text.starts_with("Replaced ")
        }
        Outcome::Unchanged => {
            answer.as_ref().is_ok_and(|r| r.is_error) && text == "No changes (old_text == new_text)"
        }
        Outcome::Empty { edit } => {
            answer.is_err() && text.contains(&format!("{}old_text is empty", which(*edit)))
        }
        Outcome::Nowhere { edit } => {
            answer.is_err() && text.contains(&format!("{}old_text not found in f.", which(*edit)))
        }
        Outcome::Many { edit, count } => {
            answer.is_err()
                && text.contains(&format!("{}old_text matches {count} locations in f.", which(*edit)))
        }
        Outcome::Overlap { first, second } => {
            answer.is_err() && text.contains(&format!("edits {first} and {second} overlap in f;"))
        }
    }
}

fn which(edit: Option<usize>) -> String {
    edit.map(|number| format!("edit {number}: ")).unwrap_or_default()
}

fn shown(bytes: &[u8]) -> String {
    format!("{:?}", bytes.escape_ascii().to_string())
}
