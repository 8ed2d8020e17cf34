//! Accounts outside of the process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use agent_core::budget::{BudgetLimit, BudgetPort, BudgetRefusal, ReserveError, Spending};
use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{Answer, BasicAgent, Budget, BudgetLimits, ModelConfig, RunEnd, StopCause, Usage};
use serde_json::json;

/// The account as another process would keep it: it knows amounts by id.
#[derive(Debug, Default)]
struct Bank {
    books: Mutex<Books>,
    is_down: AtomicBool,
}

#[derive(Debug, Default)]
struct Books {
    allowed: u64,
    spent: u64,
    reserved: BTreeMap<String, u64>,
    settled: Vec<String>,
    most: u64,
}

impl Bank {
    fn of(allowed: u64) -> Arc<Self> {
        Arc::new(Self { books: Mutex::new(Books { allowed, ..Books::default() }), ..Self::default() })
    }

    fn up(&self) -> Result<(), agent_core::provider::error::BoxError> {
        if self.is_down.load(Ordering::SeqCst) { Err("the bank is closed".into()) } else { Ok(()) }
    }
}

#[async_trait::async_trait]
impl BudgetPort for Bank {
    async fn reserve(&self, id: &str, amounts: Spending) -> Result<(), ReserveError> {
        self.up().map_err(|source| ReserveError::unavailable("bank", source))?;
        tokio::task::yield_now().await;
        let mut books = self.books.lock().unwrap();
        let (reserved, asked) = (books.reserved.values().sum::<u64>(), amounts.tokens);
        if books.spent + reserved + asked > books.allowed {
            let refusal = BudgetRefusal::new(BudgetLimit::Tokens, books.allowed, books.spent);
            return Err(Box::new(refusal.with_reserved(reserved).with_asked(asked)).into());
        }
        books.reserved.insert(id.to_owned(), asked);
        books.most = books.most.max(books.spent + reserved + asked);
        Ok(())
    }

    async fn settle(
        &self,
        id: Option<&str>,
        spent: Spending,
    ) -> Result<(), agent_core::provider::error::BoxError> {
        self.up()?;
        let mut books = self.books.lock().unwrap();
        if let Some(id) = id {
            assert!(!books.settled.iter().any(|known| known == id), "settled twice");
            // A request whose answer was lost may have reserved nothing.
            books.reserved.remove(id);
            books.settled.push(id.to_owned());
        }
        books.spent += spent.tokens;
        Ok(())
    }

    async fn raise(&self, by: Spending) -> Result<(), agent_core::provider::error::BoxError> {
        self.up()?;
        self.books.lock().unwrap().allowed += by.tokens;
        Ok(())
    }
}

fn agent(bank: &Arc<Bank>) -> BasicAgent {
    let provider = ScriptedProvider::responding(|request| match request.messages().count() {
        1 => ScriptedReply::call("c", "look", json!({})).using(Usage::new(100, 20, 0, 0)),
        _ => ScriptedReply::text("Done.").using(Usage::new(150, 30, 0, 0)),
    });
    // Each process has its own handle.
    BasicAgent::new(ModelConfig::default())
        .with_provider(provider)
        .with_tool(ScriptedTool::saying("look", "seen"))
        .configure(|c| c.request.max_tokens = Some(100))
        .with_budget(Budget::shared("bank", Arc::clone(bank) as Arc<dyn BudgetPort>))
}

/// X4. Processes that share an account do not overspend it together, and the account has what each has spent.
#[tokio::test]
async fn processes_share_an_account_and_do_not_overspend_it() {
    let bank = Bank::of(2_000);
    let runs = (0..12).map(|_| {
        let agent = agent(&bank);
        async move { agent.prompt("go").unwrap().end().await }
    });
    let ends = futures_util::future::join_all(runs).await;
    let completed = ends.iter().filter(|end| matches!(end, RunEnd::Completed(_))).count();
    let stopped = ends.iter().filter(|end| matches!(end, RunEnd::Stopped(StopCause::Budget { .. }))).count();
    assert_eq!(completed + stopped, 12, "{ends:?}");
    assert!(completed >= 1 && stopped >= 2, "{completed} completed, {stopped} stopped");
    let books = bank.books.lock().unwrap();
    assert!(books.most <= 2_000, "{books:?}");
    assert!(books.reserved.is_empty(), "everything is released: {books:?}");
    assert_eq!(books.spent % 60, 0, "each call has 120 or 180 tokens: {books:?}");
    assert!(books.spent >= completed as u64 * 300, "{books:?}");
}

/// X4. A run that pauses at the limit of the outer account raises it there.
#[tokio::test]
async fn an_answer_raises_the_limit_of_the_outer_account() {
    let bank = Bank::of(10);
    let pausing = Budget::shared("bank", Arc::clone(&bank) as Arc<dyn BudgetPort>).pausing();
    let agent = agent(&bank).with_budget(pausing);
    let end = agent.prompt("go").unwrap().end().await;
    let RunEnd::Suspended(questions) = end else { panic!("{end:?}") };
    let refusal = questions[0].budget.as_deref().unwrap();
    assert_eq!((refusal.budget.as_str(), refusal.level, refusal.allowed), ("bank", 0, 10));
    let answer = Answer::Raise { by: Spending::of_tokens(5_000) };
    let end = agent.answer(questions[0].id.clone(), answer).unwrap().end().await;
    assert!(matches!(end, RunEnd::Completed(_)), "{end:?}");
    let books = bank.books.lock().unwrap();
    assert_eq!((books.allowed, books.spent), (5_010, 300));
}

/// X4. No call is made while the outer account cannot be reached, and what was spent before is reported later.
#[tokio::test]
async fn an_account_that_cannot_be_reached_stops_the_run() {
    let bank = Bank::of(10_000);
    let closing = Arc::clone(&bank);
    let agent = agent(&bank);
    let budget = Budget::shared("bank", Arc::clone(&bank) as Arc<dyn BudgetPort>);
    let own = budget.clone();
    let agent = agent.configure(move |c| c.services.budget = Some(own));
    let tool = ScriptedTool::new("look", move |_, _| {
        closing.is_down.store(true, Ordering::SeqCst);
        async { Ok("seen".into()) }
    });
    let mut agent = agent;
    agent.set_tools(vec![Arc::new(tool)]);
    let end = agent.prompt("go").unwrap().end().await;
    let RunEnd::Failed(failure) = &end else { panic!("{end:?}") };
    let text = format!("{failure:?}");
    assert!(text.contains("bank") && text.contains("the bank is closed"), "{text}");
    assert_eq!(bank.books.lock().unwrap().spent, 120, "the first call, which the tool's reservation flushed");
    budget.charge(Spending::of_tokens(7));
    assert!(budget.flush().await.is_err());
    bank.is_down.store(false, Ordering::SeqCst);
    budget.flush().await.unwrap();
    let books = bank.books.lock().unwrap();
    assert_eq!((books.spent, books.reserved.len()), (127, 0));
}

/// X4. Children of the account have limits of their own, and their spending reaches the outer account.
#[tokio::test]
async fn a_child_of_an_outer_account_has_its_own_limit() {
    let bank = Bank::of(10_000);
    let shared = Budget::shared("bank", Arc::clone(&bank) as Arc<dyn BudgetPort>);
    let child = shared.child("task", BudgetLimits::none().with_model_calls(1));
    let agent = agent(&bank).with_budget(child);
    let end = agent.prompt("go").unwrap().end().await;
    let RunEnd::Stopped(StopCause::Budget { refusal }) = &end else { panic!("{end:?}") };
    assert_eq!((refusal.budget.as_str(), refusal.limit), ("task", BudgetLimit::ModelCalls));
    assert_eq!(bank.books.lock().unwrap().spent, 120);
}
