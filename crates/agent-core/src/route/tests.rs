use super::{ErrorKind, LostRoutes, Route, RouteSetup};
use crate::model::ModelConfig;
use ErrorKind::{Auth, Cancelled, ContextOverflow, Network, Quota, RateLimited};

fn routes(on: &[&[ErrorKind]]) -> Vec<RouteSetup> {
    let route = |on: &&[ErrorKind]| Route::new(ModelConfig::ollama("m")).on(on.iter().copied()).setup();
    on.iter().map(route).collect()
}

fn lost(failures: &[(u32, ErrorKind)]) -> LostRoutes {
    let mut lost = LostRoutes::default();
    failures.iter().for_each(|(route, failure)| lost.note(*route, *failure));
    lost
}

#[test]
fn the_next_route_is_the_first_later_one_that_is_meant_for_the_failure() {
    #[track_caller]
    fn check(on: &[&[ErrorKind]], from: (u32, ErrorKind), gone: &[(u32, ErrorKind)], expect: Option<u32>) {
        assert_eq!(lost(gone).after(&routes(on), from.0, from.1), expect);
    }
    let two: &[&[ErrorKind]] = &[&[Network], &[Network, Quota]];
    check(&[], (0, Network), &[], None);
    check(two, (0, Network), &[], Some(1));
    check(two, (0, Quota), &[], Some(2));
    check(two, (0, ContextOverflow), &[], None);
    check(two, (1, Network), &[], Some(2));
    check(two, (2, Network), &[], None);
    check(two, (0, Network), &[(1, Auth)], Some(2));
    check(&[&[Cancelled]], (0, Cancelled), &[], None);
}

#[test]
fn a_turn_begins_with_the_first_route_that_can_still_serve() {
    #[track_caller]
    fn check(on: &[&[ErrorKind]], gone: &[(u32, ErrorKind)], expect: u32) {
        assert_eq!(lost(gone).first(&routes(on)), expect);
    }
    let two: &[&[ErrorKind]] = &[&[Auth, Network], &[Auth, Quota]];
    check(two, &[], 0);
    check(two, &[(0, Network), (1, RateLimited)], 0);
    check(two, &[(0, Auth)], 1);
    check(two, &[(0, Quota)], 2);
    check(two, &[(0, Auth), (1, Auth)], 2);
    check(two, &[(0, Auth), (1, Auth), (2, Auth)], 0);
}
