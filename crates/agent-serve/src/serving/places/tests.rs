use super::*;

fn peer(n: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, n])
}

fn is_closed(seat: &Seat) -> bool {
    seat.closed.is_cancelled()
}

fn fill(places: &Arc<Places>, number: usize, from: u8) -> Vec<Seat> {
    (0..number).map(|_| places.take(peer(from)).0).collect()
}

#[test]
fn the_oldest_connection_of_the_address_with_most_strangers_is_closed() {
    let places = Places::new(8);
    let alone = places.take(peer(1)).0;
    let many = fill(&places, RESERVE + 7, 2);
    let (new, evicted) = places.take(peer(3));
    assert!(evicted && is_closed(&many[0]) && !is_closed(&many[1]));
    assert!(!is_closed(&alone) && !is_closed(&new));
}

#[test]
fn a_connection_whose_request_has_a_key_is_never_closed_for_another_one() {
    let places = Places::new(8);
    let busy = fill(&places, 8, 1);
    for seat in &busy {
        seat.admit().unwrap();
    }
    let strangers = fill(&places, 3 * RESERVE, 1);
    assert!(busy.iter().all(|seat| !is_closed(seat)));
    assert_eq!(strangers.iter().filter(|seat| is_closed(seat)).count(), 2 * RESERVE);
    assert_eq!(strangers[3 * RESERVE - 1].admit(), Err(AllBusy { most: 8 }));
    drop(busy[0].request());
    strangers[3 * RESERVE - 1].admit().unwrap();
}

#[test]
fn idle_connections_of_clients_with_a_key_outlast_a_flood_of_strangers() {
    let places = Places::new(RESERVE);
    let idle = fill(&places, 16, 1);
    for seat in &idle {
        let request = seat.request();
        seat.admit().unwrap();
        drop(request);
    }
    let strangers = fill(&places, 10 * RESERVE, 2);
    assert!(idle.iter().all(|seat| !is_closed(seat)));
    assert_eq!(strangers.iter().filter(|seat| !is_closed(seat)).count(), 2 * RESERVE - 16);
}

#[test]
fn idle_connections_give_way_when_strangers_have_less_than_their_part() {
    let places = Places::new(RESERVE);
    let idle = fill(&places, 2 * RESERVE, 1);
    for seat in &idle {
        let request = seat.request();
        seat.admit().unwrap();
        drop(request);
    }
    let (new, evicted) = places.take(peer(2));
    assert!(evicted && is_closed(&idle[0]) && !is_closed(&new));
}

#[test]
fn a_place_is_free_when_its_connection_has_ended() {
    let places = Places::new(1);
    let seats = fill(&places, RESERVE + 1, 1);
    seats[0].admit().unwrap();
    drop(seats);
    let taken = places.lock();
    assert_eq!((taken.places.len(), taken.busy), (0, 0));
}

#[test]
fn addresses_of_one_ipv6_network_count_as_one() {
    let of = |text: &str| network(text.parse().unwrap());
    assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
    assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
    assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
}
