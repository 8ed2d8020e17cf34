//! What the runs of a session have spent, as it is recorded there.

use agent_core::{AgentEvent, LoopId, Spending};
use agent_session::{LoadedSession, LoopRecord};

use super::document::Mark;

/// Returns what the loops of a session have spent.
pub(crate) fn of_session(session: &LoadedSession) -> Spending {
    let sum = |sum: Spending, record| sum.plus(&of_loop(session, record));
    session.loops.iter().fold(Spending::default(), sum)
}

/// Returns the loop that the conversation continues from, and what it has spent.
pub(crate) fn last_loop(session: &LoadedSession) -> (Option<LoopId>, Spending) {
    match session.head() {
        Some(record) => (Some(record.loop_id.clone()), of_loop(session, record)),
        None => (None, Spending::default()),
    }
}

/// Returns what the marked run of a session has spent since its mark.
pub(super) fn since(session: &LoadedSession, mark: &Mark) -> Spending {
    if let Ok(Some(run)) = session.open_run()
        && let Some(account) = run.budget().accounts.first()
    {
        // It includes calls of the model that are not the run's own, such as those for summaries.
        return account.spent.minus(&mark.account).without_time();
    }
    let (last, spent) = last_loop(session);
    let before = if last == mark.last_loop { mark.loop_spent } else { Spending::default() };
    spent.minus(&before)
}

fn of_loop(session: &LoadedSession, record: &LoopRecord) -> Spending {
    let end = record.events.iter().rev().find_map(|event| match event.known() {
        Some(AgentEvent::AgentEnd(end)) => Some(end.spent.as_deref().copied()),
        _ => None,
    });
    let spent = match end {
        Some(spent) => spent,
        None => session.open_run_of(&record.loop_id).ok().flatten().and_then(|run| run.spent()),
    };
    // A loop without a budget, or whose state cannot be read, is counted by its tokens.
    spent.unwrap_or_else(|| {
        Spending::of_usage(&record.usage, &record.config.prices.clone().unwrap_or_default())
    })
}
