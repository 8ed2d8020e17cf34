use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_core::testing::{ScriptedProvider, ScriptedReply};
use agent_core::{
    AgentMessage, ApiProtocol, CancellationToken, ErrorKind, History, ModelConfig, ModelRequest,
    ProviderError, StreamProvider as _, Usage,
};
use proptest::prelude::*;
use tokio::time::Instant;

use super::window::Window;
use super::{RateLimit, RateLimited};

fn limited(limit: RateLimit, reply: impl Fn(usize) -> ScriptedReply + Send + Sync + 'static) -> RateLimited {
    let n = Mutex::new(0);
    let model = ScriptedProvider::responding(move |_| {
        let mut n = n.lock().unwrap();
        *n += 1;
        reply(*n - 1)
    });
    RateLimited::new(Arc::new(model)).with_limit("p", limit)
}

/// A prompt of about `tokens` tokens.
fn request(key: &str, tokens: usize) -> ModelRequest {
    let mut history = History::new();
    history.push(AgentMessage::user("a".repeat(tokens * 4))).unwrap();
    ModelRequest::new(ModelConfig::new(ApiProtocol::AnthropicMessages, "p", "m").with_api_key(key), history)
}

/// Makes calls one after the other, and says in which second each began.
async fn seconds(provider: &RateLimited, calls: &[ModelRequest]) -> Vec<u64> {
    let (begin, mut all) = (Instant::now(), Vec::new());
    for call in calls {
        let mut at = None;
        let _ = provider
            .stream(
                call,
                &mut |_| {
                    at.get_or_insert_with(|| begin.elapsed());
                },
                &CancellationToken::new(),
            )
            .await;
        all.push(at.unwrap_or_else(|| begin.elapsed()).as_secs());
    }
    all
}

#[tokio::test(start_paused = true)]
async fn no_minute_holds_more_calls_than_were_allowed() {
    let provider = limited(RateLimit::requests(2), |_| "hi".into());
    let calls = vec![request("k", 1); 5];
    assert_eq!(seconds(&provider, &calls).await, [0, 0, 60, 60, 120]);
}

#[tokio::test(start_paused = true)]
async fn tokens_count_as_the_vendor_counted_them_once_it_has() {
    // Each prompt is estimated at 100; the vendor counts 30 for the prompt that was not cached, and 20 written.
    let usage = Usage::new(10, 20, 1_000, 20);
    let provider = limited(RateLimit::tokens(220), move |_| ScriptedReply::text("hi").using(usage));
    let calls = vec![request("k", 95); 5];
    assert_eq!(seconds(&provider, &calls).await, [0, 0, 0, 60, 60]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_larger_than_a_minute_is_made_when_the_minute_is_empty() {
    let provider = limited(RateLimit::tokens(50), |_| "hi".into());
    let calls = [request("k", 20), request("k", 500), request("k", 500)];
    assert_eq!(seconds(&provider, &calls).await, [0, 60, 120]);
}

#[tokio::test(start_paused = true)]
async fn each_key_has_a_minute_of_its_own_and_clones_share_it() {
    let provider = limited(RateLimit::requests(1), |_| "hi".into());
    assert_eq!(seconds(&provider, &[request("a", 1), request("b", 1)]).await, [0, 0]);
    assert_eq!(seconds(&provider.clone(), &[request("a", 1)]).await, [60]);
}

#[tokio::test(start_paused = true)]
async fn a_vendor_that_asks_to_wait_makes_all_calls_with_the_key_wait() {
    let provider = limited(RateLimit::requests(100), |n| match n {
        0 => ScriptedReply::error(ErrorKind::RateLimited, "slow down").retry_after(Duration::from_secs(7)),
        1 => ScriptedReply::error(ErrorKind::RateLimited, "later").retry_after(Duration::from_hours(7)),
        _ => "hi".into(),
    });
    let calls = [request("k", 1), request("k", 1), request("k", 1), request("other", 1)];
    assert_eq!(seconds(&provider, &calls).await, [0, 7, 67, 67]);
}

#[tokio::test(start_paused = true)]
async fn waiting_calls_go_in_the_order_in_which_they_came() {
    let provider = limited(RateLimit::tokens(100), |_| "hi".into());
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    // The second one is large; the small ones behind it must not overtake it for ever.
    for (n, tokens) in [60, 90, 5, 5].into_iter().enumerate() {
        let (provider, order) = (provider.clone(), Arc::clone(&order));
        tasks.push(tokio::spawn(async move {
            seconds(&provider, &[request("k", tokens)]).await;
            order.lock().unwrap().push(n);
        }));
        tokio::task::yield_now().await;
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn an_abort_ends_the_wait_at_once_and_the_call_is_not_counted() {
    let provider = limited(RateLimit::requests(1), |_| "hi".into());
    seconds(&provider, &[request("k", 1)]).await;
    let (cancel, begin) = (CancellationToken::new(), Instant::now());
    let call = request("k", 1);
    let mut sink = |_: agent_core::StreamEvent<'_>| {};
    let waiting = provider.stream(&call, &mut sink, &cancel);
    let (end, ()) = tokio::join!(waiting, async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        cancel.cancel();
    });
    assert!(matches!(end, Err(ProviderError::Cancelled)));
    assert_eq!(begin.elapsed().as_secs(), 1);
    assert_eq!(seconds(&provider, &[request("k", 1)]).await, [59]);
}

#[tokio::test(start_paused = true)]
async fn keys_that_are_not_used_any_more_are_forgotten() {
    let provider = limited(RateLimit::requests(10), |_| "hi".into());
    for n in 0..20 {
        seconds(&provider, &[request(&format!("tenant {n}"), 1)]).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    assert!(provider.lanes.lock().unwrap().len() < 10);
}

#[tokio::test]
async fn another_provider_is_not_limited_and_no_key_is_shown() {
    let provider = limited(RateLimit::requests(1), |_| "hi".into()).with_limit("other", RateLimit::tokens(1));
    let free =
        ModelRequest::new(ModelConfig::new(ApiProtocol::OllamaChat, "free", "m"), request("k", 1).history);
    assert_eq!(seconds(&provider, &[free.clone(), free.clone(), free]).await, [0, 0, 0]);
    seconds(&provider, &[request("sk-very-secret", 1)]).await;
    assert!(!format!("{provider:?}").contains("very-secret"));
}

proptest! {
    #[test]
    fn within_any_sixty_seconds_there_is_never_more_than_the_limit(
        calls in proptest::collection::vec((0_u64..30_000, 1_u64..50), 1..60),
        requests in 1_u32..10,
        tokens in 50_u64..200,
    ) {
        let mut window = Window::new(RateLimit::requests(requests).and_tokens(tokens));
        let begin = Instant::now();
        let (mut now, mut made) = (begin, Vec::new());
        for (pause, size) in calls {
            now += Duration::from_millis(pause);
            loop {
                match window.enter(now, size) {
                    Ok(_) => break,
                    Err(free) => {
                        prop_assert!(free > now, "a wait that does not end");
                        now = free;
                    }
                }
            }
            made.push((now, size));
        }
        for (at, _) in &made {
            let minute: Vec<_> =
                made.iter().filter(|(t, _)| *t <= *at && *at < *t + Duration::from_secs(60)).collect();
            prop_assert!(minute.len() <= usize::try_from(requests).unwrap());
            prop_assert!(minute.iter().map(|(_, size)| size).sum::<u64>() <= tokens);
        }
    }
}
