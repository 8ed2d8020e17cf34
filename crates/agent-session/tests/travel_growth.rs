//! Operations on a loaded session allocate in proportion to its size.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod shapes;

use std::alloc::System;
use std::hint::black_box;

use agent_core::Timestamp;
use agent_session::{LoadedSession, Point, Session, to_markdown};
use shapes::Shape;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

type Operation = (&'static str, fn(&LoadedSession, &Point));

/// Operations that rebuild conversations; if they rebuilt one for each loop, their allocations would grow with the square.
const OPERATIONS: &[Operation] = &[
    ("points", |session, _| drop(black_box(session.points()))),
    ("outline", |session, _| drop(black_box(session.outline().unwrap()))),
    ("history", |session, _| drop(black_box(session.history().unwrap()))),
    ("history_at", |session, point| drop(black_box(session.history_at(point).unwrap()))),
    ("forked", |session, point| drop(black_box(session.forked(point, "s-2", Timestamp(5)).unwrap()))),
    ("compare", |session, point| drop(black_box(session.compare(point, point).unwrap()))),
    ("merged_into", |session, _| {
        let copy = Session::clone(session);
        drop(black_box(copy.clone().merged_into(copy)));
    }),
    ("to_markdown", |session, _| drop(black_box(to_markdown(session)))),
    #[cfg(feature = "pi")]
    ("pi::export and import", |session, _| {
        let file = agent_session::pi::export(session).unwrap();
        drop(black_box(agent_session::pi::import(file.as_bytes(), "s.jsonl".as_ref()).unwrap()));
    }),
];

/// The number and the bytes of the allocations of an operation.
fn allocations((_, run): &Operation, session: &LoadedSession) -> (usize, usize) {
    let last = session.loops.last().unwrap();
    let point = Point::new(last.loop_id.clone(), last.messages.len());
    let region = Region::new(ALLOCATOR);
    run(session, &point);
    let change = region.change();
    (change.allocations + change.reallocations, change.bytes_allocated)
}

#[test]
fn four_times_the_turns_are_four_times_the_allocations() {
    for shape in Shape::ALL {
        let [short, long] = [100, 400].map(|turns| LoadedSession::new(shape.session(turns).unwrap()));
        for operation in OPERATIONS {
            let (short, long) = (allocations(operation, &short), allocations(operation, &long));
            let name = format!("{} of {}: {short:?}, then {long:?}", operation.0, shape.name());
            // Longer ids and lists that grow by doubling add to the factor of four; a square would be sixteen.
            assert!(long.0 <= short.0 * 6 && long.1 <= short.1 * 6, "{name}");
        }
    }
}
