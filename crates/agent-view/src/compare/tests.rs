use super::*;

/// Makes turns from words like `p1.r1`: the prompt, and the reply.
fn turns(text: &str) -> Vec<Fingerprint> {
    let number = |text: &str| text.bytes().fold(7, |sum: u64, byte| sum * 31 + u64::from(byte));
    let turn = |(at, word): (usize, &str)| {
        let (prompt, reply) = word.split_once('.').unwrap();
        Fingerprint {
            place: (0, at),
            prompt: number(prompt),
            reply: number(reply),
            calls: 0,
            names: 0,
            results: 0,
        }
    };
    text.split_whitespace().enumerate().map(turn).collect()
}

/// Writes the rows as `a=b`, `a~b` for turns that differ, and `a-` or `-b` for turns of one session.
fn rows(a: &str, b: &str) -> String {
    let row = |pair: &Pair| match (pair.a, pair.b) {
        (Some((_, a)), Some((_, b))) => format!("{a}{}{b}", if pair.d == 0 { '=' } else { '~' }),
        (Some((_, a)), None) => format!("{a}-"),
        (None, Some((_, b))) => format!("-{b}"),
        (None, None) => "nothing".to_owned(),
    };
    align(&turns(a), &turns(b)).iter().map(row).collect::<Vec<_>>().join(" ")
}

#[test]
fn equal_turns_are_aligned_and_differences_marked() {
    for (a, b, expected) in [
        ("", "", ""),
        ("p.r q.s", "p.r q.s", "0=0 1=1"),
        ("p.r q.s", "p.r q.t", "0=0 1~1"),
        ("p.r", "p.r q.s", "0=0 -1"),
        ("p.r x.x q.s", "p.r q.s", "0=0 1- 2=1"),
        ("p.r q.s", "p.r x.x q.s", "0=0 -1 1=2"),
        ("p.r a.a q.s", "p.r b.b q.s", "0=0 1~1 2=2"),
        ("a.a b.b c.c d.d", "x.x b.b y.y z.z d.d", "0~0 1=1 2~2 -3 3=4"),
    ] {
        assert_eq!(rows(a, b), expected, "{a} | {b}");
    }
}

#[test]
fn each_turn_is_in_exactly_one_row_and_in_order_also_without_anchors() {
    let long = |prefix: &str, n: usize| (0..n).map(|i| format!("{prefix}{i}.r ")).collect::<String>();
    let (a, b) = (turns(&long("a", 3_000)), turns(&long("b", 2_500)));
    let pairs = align(&a, &b);
    let of_a: Vec<_> = pairs.iter().filter_map(|pair| pair.a).collect();
    let of_b: Vec<_> = pairs.iter().filter_map(|pair| pair.b).collect();
    assert_eq!(of_a, a.iter().map(|turn| turn.place).collect::<Vec<_>>());
    assert_eq!(of_b, b.iter().map(|turn| turn.place).collect::<Vec<_>>());
}
