//! Checks what a server that claims to be OpenAI-compatible supports.
//!
//! It sends a row of small requests, each with one feature that some servers refuse, ignore or implement differently. From the
//! answers come a table for people and a [`ChatDialect`] for
//! [`ModelConfig::with_dialect`](looptree::ModelConfig::with_dialect). At the end an agent with that dialect does a turn with
//! a tool.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use looptree_cli::endpoint::{Target, check};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! let target = Target {
//!     base_url: "http://localhost:8080/v1".to_owned(),
//!     model: None,
//!     key: None,
//!     patience: Duration::from_secs(60),
//! };
//! println!("{}", check(&target).await?);
//! # Ok(())
//! # }
//! ```

mod ask;
mod probes;
mod report;
mod trial;

use std::time::Duration;

use anyhow::{Context as _, Result};
use looptree::model::ChatDialect;
use looptree::model::Secret;

pub use ask::Outcome;
pub use report::{Finding, Report};

use ask::Asker;

/// The endpoint to check, and the time limit of one answer.
#[derive(Debug, Clone)]
pub struct Target {
    /// The address below which `/chat/completions` is.
    pub base_url: String,
    /// The model; the first one that the server lists when absent.
    pub model: Option<String>,
    /// The key, where the server wants one.
    pub key: Option<Secret>,
    /// The longest wait for one whole answer.
    pub patience: Duration,
}

/// Runs all checks against the server.
///
/// # Errors
/// When it cannot be reached, has no model, or does not answer the plainest question.
pub async fn check(target: &Target) -> Result<Report> {
    let mut asker = Asker::new(target)?;
    let listed = asker.models().await;
    let (model, models) = match (&target.model, listed) {
        // Some servers have no list.
        (Some(model), listed) => (model.clone(), listed.unwrap_or_default()),
        (None, listed) => {
            let models = listed.context("the models of the server are unknown; name one with --model")?;
            let first = models.first().context("the server lists no models; name one with --model")?;
            (first.clone(), models)
        }
    };
    asker.model.clone_from(&model);
    let mut report = Report::new(&target.base_url, &model, models);
    if !probes::plain(&asker, &mut report).await? {
        return Ok(report);
    }
    probes::limit(&asker, &mut report).await;
    probes::usage(&asker, &mut report).await;
    probes::fields(&asker, &mut report).await;
    probes::answers(&asker, &mut report).await;
    probes::tools(&asker, &mut report).await;
    trial::agent(target, &mut report).await;
    Ok(report)
}

/// A dialect with nothing set: what is not found out is left to be detected.
fn nothing() -> ChatDialect {
    ChatDialect::default()
}
