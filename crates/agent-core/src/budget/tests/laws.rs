use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use crate::budget::{Ask, Budget, BudgetLimits, Reservation, Spending};
use crate::identity::Timestamp;
use crate::message::CostConfig;

const T: Timestamp = Timestamp(0);

/// What one step of a branch does. Numbers choose accounts, amounts and parts of what was set aside.
#[derive(Debug, Clone)]
enum Move {
    Reserve {
        account: usize,
        prompt: u64,
        most: u64,
    },
    /// Settles an open call at a part of what was set aside, in per cent.
    Settle {
        call: usize,
        percent: u64,
    },
    Drop {
        call: usize,
    },
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        3 => (0..6_usize, 0..400_u64, 1..3_000_u64)
            .prop_map(|(account, prompt, most)| Move::Reserve { account, prompt, most }),
        2 => (0..8_usize, 0..=100_u64).prop_map(|(call, percent)| Move::Settle { call, percent }),
        1 => (0..8_usize).prop_map(|call| Move::Drop { call }),
    ];
    prop::collection::vec(one, 0..80)
}

/// A root, two children, and grandchildren of the first.
fn tree(limits: &[u64; 6]) -> Vec<Budget> {
    let of = |n: usize| BudgetLimits::none().with_tokens(limits[n]).with_model_calls(limits[n] / 300);
    let root = Budget::new(of(0));
    let (a, b) = (root.child("a", of(1)), root.child("b", of(2)));
    let (c, d) = (a.child("c", of(3)), a.child("d", of(4)));
    let e = d.child("e", of(5));
    vec![root, a, b, c, d, e]
}

fn holds(budgets: &[Budget]) {
    for budget in budgets {
        let (limits, spent, reserved) = (budget.limits(), budget.spent(), budget.reserved());
        let used = spent.plus(&reserved);
        assert!(used.tokens <= limits.tokens.unwrap(), "{budget:?}");
        assert!(used.model_calls <= limits.model_calls.unwrap(), "{budget:?}");
    }
    let sum = |of: &dyn Fn(&Budget) -> Spending, all: &[usize]| {
        all.iter().fold(Spending::default(), |sum, n| sum.plus(&of(&budgets[*n])))
    };
    for of in [&Budget::spent as &dyn Fn(&Budget) -> Spending, &Budget::reserved] {
        for (parent, children) in [(0, &[1, 2][..]), (1, &[3, 4]), (4, &[5])] {
            let below = sum(of, children);
            assert_eq!(
                below.max(&of(&budgets[parent])),
                of(&budgets[parent]),
                "what is below is in {parent}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Whatever is reserved, settled and dropped, in whatever order and anywhere in a tree: what is spent and set aside is
    /// within every limit, above and below, as long as no call costs more than was set aside for it.
    #[test]
    fn no_interleaving_of_branches_overspends(
        limits in prop::array::uniform6(0..20_000_u64),
        moves in moves(),
    ) {
        let budgets = tree(&limits);
        let mut open: Vec<Reservation> = Vec::new();
        for one in moves {
            match one {
                Move::Reserve { account, prompt, most } => {
                    let ask = Ask::model_call(prompt, most, &CostConfig::default());
                    open.extend(budgets[account].try_reserve(&ask, T).ok());
                }
                Move::Settle { call, percent } if call < open.len() => {
                    let call = open.swap_remove(call);
                    let tokens = call.amounts().tokens * percent / 100;
                    call.settle(Spending { tokens, model_calls: 1, ..Spending::default() });
                }
                Move::Drop { call } if call < open.len() => drop(open.swap_remove(call)),
                _ => {}
            }
            holds(&budgets);
        }
        open.clear();
        for budget in &budgets {
            prop_assert_eq!(budget.reserved(), Spending::default());
        }
    }
}

/// The same with real threads: what they are granted is never more than there is.
#[test]
fn threads_that_spend_at_once_stay_within_the_limit() {
    let root = Budget::new(BudgetLimits::none().with_tokens(100_000));
    let spent = Arc::new(AtomicU64::new(0));
    let worst = Arc::new(Mutex::new(0_u64));
    let threads: Vec<_> = (0..8)
        .map(|n| {
            let (spent, worst) = (Arc::clone(&spent), Arc::clone(&worst));
            let branch = root.child(format!("branch {n}"), BudgetLimits::none().with_tokens(30_000));
            let root = root.clone();
            std::thread::spawn(move || {
                for step in 0..2_000_u64 {
                    let ask = Ask::exactly(Spending::of_tokens(1 + (step * 7 + n) % 90));
                    let Ok(call) = branch.try_reserve(&ask, T) else { continue };
                    let used = root.spent().plus(&root.reserved()).tokens;
                    let mut worst = worst.lock().unwrap();
                    *worst = used.max(*worst);
                    drop(worst);
                    let real = call.amounts().tokens - step % 2;
                    spent.fetch_add(real, Ordering::Relaxed);
                    call.settle(Spending::of_tokens(real));
                }
                assert!(branch.spent().tokens <= 30_000);
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert!(*worst.lock().unwrap() <= 100_000, "spent and set aside at any moment");
    assert_eq!(root.spent().tokens, spent.load(Ordering::Relaxed));
    assert!(root.spent().tokens <= 100_000 && root.spent().tokens > 99_000, "{:?}", root.spent());
    assert_eq!(root.reserved(), Spending::default());
}
