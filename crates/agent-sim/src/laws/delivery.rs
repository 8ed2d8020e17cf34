//! Laws about the messages that the user sends while a run is open.

use agent_core::run::QueueKind;
use agent_core::{AgentEvent, Ended, Message};

use super::Evidence;
use crate::log::What;
use crate::script::Action;

/// Every message is delivered once or waits, unless only the memory of a killed process had it.
pub(super) fn messages(evidence: &Evidence<'_>) -> Result<(), String> {
    let queued = evidence.processes.last().map(|process| process.queued.as_slice()).unwrap_or_default();
    for (sent, entry) in evidence.log.entries.iter().enumerate() {
        let What::Acted(Action::Steer(text) | Action::FollowUp(text) | Action::Complete(text)) = &entry.what
        else {
            continue;
        };
        let delivered = evidence.log.events().filter(|event| delivers(event, text)).count();
        if delivered > 1 {
            return Err(format!("`{text}` was delivered {delivered} times"));
        }
        let is_it = |queued: &String| is_message(&entry.what, queued, text);
        let waits = queued.iter().any(is_it);
        if delivered == 1 && waits {
            return Err(format!("`{text}` was delivered and is still queued"));
        }
        // Each process after the one in which it was sent must have found it in the journal.
        let kept =
            evidence.kills.iter().filter(|kill| kill.at > sent).all(|kill| kill.queued.iter().any(is_it));
        if kept && delivered == 0 && !waits {
            return Err(format!("`{text}` was not delivered and is not queued"));
        }
    }
    Ok(())
}

/// Returns whether a queued text is this message. The message with a deferred result introduces it.
fn is_message(what: &What, queued: &str, text: &str) -> bool {
    match what {
        What::Acted(Action::Complete(_)) => queued.contains(text),
        _ => queued == text,
    }
}

fn delivers(event: &AgentEvent, text: &str) -> bool {
    match event {
        AgentEvent::MessageEnd { message, .. } => {
            match message.as_llm() {
                // The message with a deferred result introduces it.
                Some(Message::User(user)) if user.deferred.is_some() => message.text().contains(text),
                Some(Message::User(_)) => message.text() == text,
                _ => false,
            }
        }
        _ => false,
    }
}

/// A run that completed has delivered the steering and the follow-ups that it had accepted.
pub(super) fn queues(evidence: &Evidence<'_>) -> Result<(), String> {
    for entry in &evidence.disk.entries {
        if !matches!(entry.run.ended(), Some(Ended::Completed)) {
            continue;
        }
        for kind in [QueueKind::Steering, QueueKind::FollowUp] {
            if let Some(left) = entry.run.queued(kind).next() {
                return Err(format!(
                    "{} completed and left `{}` in its queue",
                    entry.run.loop_id(),
                    left.entry.message().text()
                ));
            }
        }
    }
    Ok(())
}
