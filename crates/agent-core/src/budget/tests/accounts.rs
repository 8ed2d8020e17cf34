use std::time::Duration;

use crate::budget::{
    Ask, AtLimit, Budget, BudgetLimit, BudgetLimits, LEAST_OUTPUT, Money, Reservation, Spending,
};
use crate::identity::Timestamp;
use crate::message::CostConfig;

const T: Timestamp = Timestamp(0);

fn tokens(limit: u64) -> Budget {
    Budget::new(BudgetLimits::none().with_tokens(limit))
}

fn ask(n: u64) -> Ask {
    Ask::exactly(Spending::of_tokens(n))
}

#[test]
fn a_limit_is_what_may_be_spent_and_not_one_more() {
    #[track_caller]
    fn check(limit: u64, spent: u64, asked: u64, granted: bool) {
        let budget = tokens(limit);
        budget.charge(Spending::of_tokens(spent));
        assert_eq!(budget.try_reserve(&ask(asked), T).is_ok(), granted);
    }
    check(10, 0, 10, true);
    check(10, 0, 11, false);
    check(10, 4, 6, true);
    check(10, 4, 7, false);
    check(10, 11, 1, false);
    check(10, 11, 0, true);
}

#[test]
fn each_kind_has_its_own_limit_and_a_call_is_refused_only_by_what_it_asks_of() {
    let all = BudgetLimits::none()
        .with_tokens(1)
        .with_money(Money::from_micros(1))
        .with_model_calls(1)
        .with_tool_calls(1)
        .with_time(Duration::from_millis(1));
    for limit in BudgetLimit::ALL {
        let spent = Spending {
            tokens: u64::from(limit == BudgetLimit::Tokens),
            money: Money::from_micros(u64::from(limit == BudgetLimit::Money)),
            time_ms: u64::from(limit == BudgetLimit::Time),
            model_calls: u64::from(limit == BudgetLimit::ModelCalls),
            tool_calls: u64::from(limit == BudgetLimit::ToolCalls),
        };
        let budget = Budget::new(all);
        budget.charge(spent);
        let one =
            Spending { tokens: 1, money: Money::from_micros(1), time_ms: 0, model_calls: 1, tool_calls: 1 };
        let refusal = budget.try_reserve(&Ask::exactly(one), T).unwrap_err();
        assert_eq!((refusal.limit, refusal.allowed, refusal.spent), (limit, 1, 1));
        let tool = budget.try_reserve(&Ask::tool_call(), T);
        assert_eq!(tool.is_err(), matches!(limit, BudgetLimit::ToolCalls | BudgetLimit::Time), "{limit}");
    }
}

#[test]
fn a_reservation_holds_until_it_is_settled_or_dropped() {
    let budget = tokens(10);
    let open = budget.try_reserve(&ask(8), T).unwrap();
    let refusal = budget.try_reserve(&ask(3), T).unwrap_err();
    assert_eq!((refusal.spent, refusal.reserved, refusal.asked, refusal.waits()), (0, 8, 3, true));
    open.settle(Spending::of_tokens(2));
    assert_eq!((budget.spent().tokens, budget.reserved().tokens), (2, 0));
    drop(budget.try_reserve(&ask(8), T).unwrap());
    assert_eq!((budget.spent().tokens, budget.reserved().tokens), (2, 0));
    assert!(!budget.try_reserve(&ask(9), T).unwrap_err().waits(), "nobody will give anything back");
}

#[test]
fn what_a_child_spends_is_spent_above_and_either_limit_holds() {
    let root = Budget::named("user", BudgetLimits::none().with_tokens(10)).pausing();
    let child = root.child("helper", BudgetLimits::none().with_tokens(6));
    let sibling = root.child("other", BudgetLimits::none());
    assert_eq!((root.policy(), child.policy()), (AtLimit::Pause, AtLimit::Stop));
    child.try_reserve(&ask(6), T).unwrap().settle(Spending::of_tokens(5));
    assert_eq!((child.spent().tokens, root.spent().tokens, sibling.spent().tokens), (5, 5, 0));
    let refusal = child.try_reserve(&ask(2), T).unwrap_err();
    assert_eq!((refusal.budget.as_str(), refusal.level), ("helper", 0));
    sibling.charge(Spending::of_tokens(5));
    let refusal = child.try_reserve(&ask(1), T).unwrap_err();
    assert_eq!((refusal.budget.as_str(), refusal.level), ("user", 1));
    assert_eq!(child.reserved(), Spending::default(), "a refusal above leaves nothing set aside below");
    child.raise_at(refusal.level, Spending::of_tokens(1));
    assert_eq!(root.limits().tokens, Some(11));
    assert!(child.try_reserve(&ask(1), T).is_ok());
}

#[test]
fn a_share_is_a_part_of_what_is_left() {
    let root = Budget::new(BudgetLimits::none().with_tokens(100).with_tool_calls(8));
    root.charge(Spending::of_tokens(20));
    let share = root.share("a", 25, T);
    assert_eq!(share.limits(), BudgetLimits::none().with_tokens(20).with_tool_calls(2));
    assert_eq!(root.share("b", 200, T).limits().tokens, Some(80));
    assert_eq!(share.share("c", 50, T).left_at(T).tokens, Some(10));
}

/// An answer gets what is left where its longest form is too dear, and no call is made for a word or two.
#[test]
fn an_answer_is_bounded_by_half_of_what_is_left() {
    #[track_caller]
    fn check(limit: u64, prompt: u64, most: u64, expect: Option<Option<u64>>) {
        let ask = Ask::model_call(prompt, most, &CostConfig::default());
        let found = tokens(limit).try_reserve(&ask, T).ok();
        let amounts = found.as_ref().map(|r| r.amounts().tokens);
        assert_eq!(found.as_ref().map(Reservation::output), expect);
        let output = expect.map(|bound| prompt + bound.unwrap_or(most));
        assert_eq!(amounts, output);
    }
    check(10_000, 1_000, 9_000, Some(None));
    check(10_000, 1_000, 9_001, Some(Some(4_500)));
    check(10_000, 1_000, 64_000, Some(Some(4_500)));
    check(2_500, 1_000, 64_000, Some(Some(LEAST_OUTPUT)));
    check(1_000 + LEAST_OUTPUT, 1_000, 64_000, Some(Some(LEAST_OUTPUT)));
    check(999 + LEAST_OUTPUT, 1_000, 64_000, None);
    check(1_100, 1_000, 100, Some(None));
    check(1_099, 1_000, 100, None);
}

#[test]
fn money_bounds_an_answer_by_its_price_and_a_prompt_counts_at_its_dearest() {
    let prices = CostConfig::per_million(3_000_000, 15_000_000, 300_000, 3_750_000);
    let budget = Budget::new(BudgetLimits::none().with_money("0.50".parse().unwrap()));
    let open = budget.try_reserve(&Ask::model_call(10_000, 64_000, &prices), T).unwrap();
    // 0.0375 for the prompt, 0.4625 is left: 30,833 tokens at 15 a million.
    assert_eq!(open.output(), Some(15_416));
    assert!(open.amounts().money <= "0.50".parse().unwrap());
}

#[test]
fn time_runs_while_a_run_goes_on_and_is_counted_once_for_many() {
    #[derive(Debug)]
    struct At(std::sync::atomic::AtomicU64);
    impl crate::Environment for At {
        fn now(&self) -> Timestamp {
            Timestamp(self.0.load(std::sync::atomic::Ordering::Relaxed))
        }
        fn sleep(&self, _: Duration) -> crate::BoxFuture<'static, ()> {
            Box::pin(async {})
        }
        fn spawn(&self, _: crate::BoxFuture<'static, ()>) -> Result<crate::TaskHandle, crate::NoRuntime> {
            Err(crate::NoRuntime)
        }
        fn random_id(&self) -> String {
            String::new()
        }
    }
    let clock = std::sync::Arc::new(At(0.into()));
    let environment: std::sync::Arc<dyn crate::Environment> = clock.clone();
    let go = |to: u64| clock.0.store(to, std::sync::atomic::Ordering::Relaxed);
    let root = Budget::new(BudgetLimits::none().with_time(Duration::from_millis(100)));
    let child = root.child("c", BudgetLimits::none());
    let first = root.clock(&environment);
    go(10);
    let second = child.clock(&environment);
    go(30);
    drop(first);
    go(40);
    assert_eq!(root.spent_at(Timestamp(40)).time_ms, 40);
    drop(second);
    assert_eq!((root.spent().time_ms, child.spent().time_ms), (40, 30));
    go(90_000);
    assert!(root.try_reserve(&ask(1), Timestamp(90_000)).is_ok(), "a pause is not counted");
    let third = root.clock(&environment);
    assert!(root.try_reserve(&ask(1), Timestamp(90_059)).is_ok());
    let refusal = root.try_reserve(&ask(1), Timestamp(90_060)).unwrap_err();
    assert_eq!(refusal.to_string(), "the budget of 0.1 s in time is used up: 0.1 s is spent");
    drop(third);
}

#[test]
fn what_a_snapshot_knows_is_taken_over_once_and_money_never_comes_back() {
    let root = tokens(100);
    let child = root.child("c", BudgetLimits::none().with_tokens(50));
    child.charge(Spending::of_tokens(30));
    child.raise(Spending::of_tokens(7));
    let text = serde_json::to_string(&child.snapshot(T)).unwrap();
    assert_eq!(
        text,
        r#"{"accounts":[{"spent":{"tokens":30},"raised":{"tokens":7}},{"spent":{"tokens":30}}]}"#
    );
    let known = serde_json::from_str(&text).unwrap();

    let root = tokens(100);
    root.charge(Spending::of_tokens(10));
    let child = root.child("c", BudgetLimits::none().with_tokens(50));
    for _ in 0..2 {
        child.restore(&known);
        assert_eq!((child.spent().tokens, root.spent().tokens), (30, 30));
        assert_eq!(child.limits().tokens, Some(57));
    }
    child.charge(Spending::of_tokens(5));
    child.restore(&known);
    assert_eq!((child.spent().tokens, root.spent().tokens), (35, 35));
}
