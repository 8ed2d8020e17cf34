//! A retry is written into the log of the program.

use agent_core::compat::SeedSetters as _;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use agent_core::ErrorKind;
use agent_core::RetryConfig;
use agent_core::testing::ScriptedReply;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::room::{agent, model, run};

type Line = (Level, Vec<(String, String)>);

/// Keeps what is logged.
#[derive(Clone, Default)]
struct Keeping(Arc<Mutex<Vec<Line>>>);

struct Fields(Vec<(String, String)>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push((field.name().to_owned(), format!("{value:?}")));
    }
}

impl Subscriber for Keeping {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("agent_core")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(Vec::new());
        event.record(&mut fields);
        self.0.lock().unwrap().push((*event.metadata().level(), fields.0));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// REQ-135.
#[tokio::test]
async fn a_retry_is_logged_with_its_number_the_most_the_wait_and_the_error() {
    let log = Keeping::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let model = model([
        ScriptedReply::error(ErrorKind::Network, "gone"),
        ScriptedReply::error(ErrorKind::RateLimited, "slow down")
            .retry_after(std::time::Duration::from_millis(2_500)),
        "hello".into(),
    ]);
    run(&agent(&model).with_retry_config(RetryConfig::default().with_max_retries(5))).await;
    let lines = log.0.lock().unwrap().clone();
    let retries: Vec<_> =
        lines.iter().filter(|(_, fields)| fields.iter().any(|(name, _)| name == "delay_ms")).collect();
    assert_eq!(retries.len(), 2, "{lines:?}");
    for (n, (level, fields)) in retries.iter().enumerate() {
        let of = |name: &str| fields.iter().find(|(f, _)| f == name).map(|(_, v)| v.clone()).unwrap();
        assert_eq!(*level, Level::WARN);
        assert_eq!((of("attempt"), of("max_retries")), ((n + 1).to_string(), "5".to_owned()));
        let (wait, error) = (of("delay_ms").parse::<u64>().unwrap(), of("error"));
        if n == 0 {
            assert!((800..=1_200).contains(&wait) && error.contains("gone"), "{fields:?}");
        } else {
            assert!(wait == 2_500 && error.contains("slow down"), "{fields:?}");
        }
    }
}
