//! The operations on a loaded session, measured at several sizes.
//!
//! The time is CPU time, and the processor's caches have other content before each run. Otherwise a small session would be
//! read from a cache and a large one from memory, and a single pass would seem to grow faster than the session.

use std::hint::black_box;

use agent_core::{Timestamp, TurnId};
use agent_session::{BoxError, LoadedSession, Point, Session, to_markdown};
use serde_json::json;

use crate::shapes::Shape;

/// Runs of each operation; the least time counts.
const RUNS: usize = 3;

/// Bytes that are written before each run, more than the caches of the processor have.
const OTHER_BYTES: usize = 64 << 20;

type Operation = (&'static str, Box<dyn Fn(&Loaded) -> Result<(), BoxError>>);

/// A session, and arguments for the operations on it.
struct Loaded {
    session: LoadedSession,
    end: Point,
    middle: Point,
    last_loop: String,
    last_turn: TurnId,
}

/// Measures every operation on sessions of one shape with these numbers of turns, and prints the seconds of CPU time.
pub(crate) fn travel(shape: &str, sizes: &[&str]) -> Result<(), BoxError> {
    let shape = Shape::ALL.into_iter().find(|s| s.name() == shape).ok_or("there is no such shape")?;
    let operations = operations();
    let mut other = vec![0_u8; OTHER_BYTES];
    let mut times: Vec<Vec<f64>> = operations.iter().map(|_| Vec::new()).collect();
    for size in sizes {
        let loaded = Loaded::of(shape.session(size.parse()?)?)?;
        for ((_, operation), times) in operations.iter().zip(&mut times) {
            let mut least = f64::INFINITY;
            for _ in 0..RUNS {
                other.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
                black_box(&other);
                let (user, system) = crate::cpu()?;
                operation(&loaded)?;
                let after = crate::cpu()?;
                least = least.min((after.0 - user + after.1 - system) / 1e6);
            }
            times.push(least);
        }
    }
    let named = operations.iter().map(|(name, _)| *name).zip(times);
    let measured: Vec<_> = named.map(|(name, seconds)| json!({ "name": name, "seconds": seconds })).collect();
    println!("{}", json!({ "operations": measured }));
    Ok(())
}

impl Loaded {
    fn of(session: Session) -> Result<Self, BoxError> {
        let last = session.loops.last().ok_or("a session without loops")?;
        let middle = session.loops.get(session.loops.len() / 2).ok_or("a session without loops")?;
        let middle = Point::new(middle.loop_id.clone(), middle.messages.len() / 2);
        Ok(Self {
            end: Point::new(last.loop_id.clone(), last.messages.len()),
            middle,
            last_loop: last.loop_id.to_string(),
            last_turn: last.turns.last().ok_or("a loop without turns")?.turn_id.clone(),
            session: LoadedSession::new(session),
        })
    }
}

fn operation<T>(
    name: &'static str,
    run: impl Fn(&Loaded) -> Result<T, agent_session::SessionError> + 'static,
) -> Operation {
    let run = move |loaded: &Loaded| {
        black_box(run(black_box(loaded))?);
        Ok(())
    };
    (name, Box::new(run))
}

fn operations() -> Vec<Operation> {
    vec![
        operation("points", |l| Ok(l.session.points())),
        operation("outline", |l| l.session.outline()),
        operation("point_after_turn", |l| Ok(l.session.point_after_turn(&l.last_turn))),
        operation("point_before_turn", |l| Ok(l.session.point_before_turn(&l.last_turn))),
        operation("end_point", |l| Ok(l.session.end_point())),
        operation("head", |l| Ok(l.session.head().map(|r| r.loop_id.clone()))),
        operation("root_loops", |l| Ok(l.session.root_loops().count())),
        operation("loop_chain_to", |l| Ok(l.session.loop_chain_to(&l.last_loop).len())),
        operation("children_of", |l| Ok(l.session.children_of(&l.last_loop).count())),
        operation("parallel_siblings", |l| Ok(l.session.parallel_siblings(&l.last_loop).len())),
        operation("loop_counters", |l| Ok(l.session.loop_counters())),
        operation("history", |l| l.session.history()),
        operation("history_after", |l| l.session.history_after(&l.last_loop)),
        operation("history_at the end", |l| l.session.history_at(&l.end)),
        operation("history_at the middle", |l| l.session.history_at(&l.middle)),
        operation("files_at", |l| l.session.files_at(&l.end)),
        operation("usage_to", |l| l.session.usage_to(&l.end)),
        operation("compare", |l| l.session.compare(&l.middle, &l.end)),
        operation("forked at the end", |l| l.session.forked(&l.end, "s-2", Timestamp(5))),
        operation("forked in the middle", |l| l.session.forked(&l.middle, "s-2", Timestamp(5))),
        operation("open_run", |l| l.session.open_run()),
        operation("deferred", |l| l.session.deferred()),
        operation("unfinished", |l| l.session.unfinished()),
        operation("clone, merged_into", |l| {
            let session = Session::clone(&l.session);
            Ok(session.clone().merged_into(session))
        }),
        operation("to_markdown", |l| Ok(to_markdown(&l.session))),
        #[cfg(feature = "pi")]
        operation("pi::export", |l| agent_session::pi::export(&l.session)),
        #[cfg(feature = "pi")]
        operation("pi::export, import", |l| {
            let file = agent_session::pi::export(&l.session)?;
            agent_session::pi::import(file.as_bytes(), "session.jsonl".as_ref())
        }),
    ]
}
