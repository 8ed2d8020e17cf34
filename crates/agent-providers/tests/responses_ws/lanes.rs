//! Several replies at the same time: branches of a conversation share its connection.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::server::{Fault, Server, Upgrade};
use crate::{answered, call, hello, provider, sent_items};

#[tokio::test]
async fn branches_continue_the_same_reply_over_one_connection() {
    let (first, second) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let faults = [(2, Fault::Wait(Arc::clone(&first))), (3, Fault::Wait(Arc::clone(&second)))];
    let server = Server::start(0, Upgrade::Open, faults).await;
    let provider = provider();
    let mut base = hello(&server);
    let reply = call(&provider, &base).await.0.unwrap();
    answered(&mut base, &reply);
    let (mut left, mut right) = (base.clone(), base);
    left.history.push("left".into()).unwrap();
    right.history.push("right".into()).unwrap();
    let both = async { tokio::join!(call(&provider, &left), call(&provider, &right)) };
    let release = async {
        while server.asked().len() < 3 {
            tokio::task::yield_now().await;
        }
        // The replies end in another order than they began.
        second.notify_one();
        first.notify_one();
    };
    let ((left_end, right_end), ()) = tokio::join!(both, release);
    assert_eq!((left_end.0.unwrap().text(), right_end.0.unwrap().text()), ("text 2".into(), "text 3".into()));
    let asked = server.asked();
    assert!(asked.iter().all(|asked| asked.connection == 0 && sent_items(asked) == 1));
    assert_eq!(asked[1].body["previous_response_id"], "resp_1");
    assert_eq!(asked[2].body["previous_response_id"], "resp_1");
    assert_eq!((asked[1].body.get("stream_id"), &asked[2].body["stream_id"]), (None, &"lane-1".into()));
    assert_eq!(server.problems(), Vec::<String>::new());
}

/// Only OpenAI's own API is known to mark events with the lane of their request.
#[tokio::test]
async fn another_server_gets_a_connection_for_each_reply_in_progress() {
    let wait = Arc::new(Notify::new());
    let server = Server::start(0, Upgrade::Open, [(1, Fault::Wait(Arc::clone(&wait)))]).await;
    let provider = provider();
    let mut request = hello(&server);
    "xai".clone_into(&mut Arc::make_mut(&mut request.model).provider);
    let later = async {
        while server.asked().is_empty() {
            tokio::task::yield_now().await;
        }
        let end = call(&provider, &request).await;
        wait.notify_one();
        end
    };
    let (one, two) = tokio::join!(call(&provider, &request), later);
    assert_eq!((one.0.unwrap().text(), two.0.unwrap().text()), ("text 1".into(), "text 2".into()));
    let asked = server.asked();
    assert_eq!(asked.iter().map(|asked| asked.connection).collect::<Vec<_>>(), [0, 1]);
    assert!(asked.iter().all(|asked| asked.body.get("stream_id").is_none()));
}

/// A lane whose reply is cancelled is not used again, and the other reply is not disturbed.
#[tokio::test]
async fn a_cancelled_branch_does_not_disturb_the_other() {
    let (first, second) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let faults = [(1, Fault::Wait(Arc::clone(&first))), (2, Fault::Wait(Arc::clone(&second)))];
    let server = Server::start(0, Upgrade::Open, faults).await;
    let provider = provider();
    let request = hello(&server);
    let opened = call(&provider, &request);
    let other = async {
        while server.asked().is_empty() {
            tokio::task::yield_now().await;
        }
        let mut cancelled = Box::pin(call(&provider, &request));
        tokio::select! {
            _ = &mut cancelled => panic!("the reply waits"),
            () = async { while server.asked().len() < 2 { tokio::task::yield_now().await; } } => {}
        }
        drop(cancelled);
        second.notify_one();
        first.notify_one();
    };
    let (end, ()) = tokio::join!(opened, other);
    assert_eq!(end.0.unwrap().text(), "text 1");
    // The next call opens another connection.
    assert_eq!(call(&provider, &request).await.0.unwrap().text(), "text 3");
    assert_eq!(server.asked().iter().map(|asked| asked.connection).collect::<Vec<_>>(), [0, 0, 1]);
}
