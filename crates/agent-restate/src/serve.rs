//! Serves an agent to a Restate server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use restate_sdk::discovery;
use restate_sdk::endpoint::{self, ContextInternal, Endpoint};
use restate_sdk::errors::HandlerResult;
use restate_sdk::http_server::HttpServer;
use restate_sdk::serde::Json;
use restate_sdk::service::macro_support::{ServiceBoxFuture, service_definition};
use restate_sdk::service::{Service, ServiceDefinition};
use serde_json::json;
use tokio::net::{TcpListener, TcpSocket};

use crate::agent::{DurableAgent, Prepared};
use crate::error::ServeError;
use crate::handlers::{Access, Caller, Description, Handlers, Input, MailboxHandler, SessionHandler};
use crate::mailbox;
use crate::record::Mail;
use crate::session::Sessions;

/// The connections that may wait to be accepted.
const BACKLOG: u32 = 1_024;

/// How long the engine waits for a step beyond twice the longest step.
const SPARE: Duration = Duration::from_secs(60);

/// The first delay before the engine repeats an invocation whose worker has failed, in milliseconds.
const RETRY_FIRST_MS: u64 = 50;

/// The longest such delay in milliseconds.
const RETRY_MAX_MS: u64 = 2_000;

/// Returns the name of the virtual object with the messages to running sessions.
pub(crate) fn mailbox_name(agent: &str) -> String {
    format!("{agent}.mailbox")
}

/// Serves an agent until the process receives an interrupt, and then finishes open requests for up to 10 seconds.
///
/// Register the address of the worker at the server once for each version of the agent (`POST /deployments`). Several
/// workers of the same version stand behind one address.
///
/// # Errors
/// Returns [`ServeError`] if the definition of the agent is incomplete, a tool may run for longer than
/// [`longest_step`](DurableAgent::longest_step), or the address cannot be bound.
pub async fn serve(agent: DurableAgent, address: SocketAddr) -> Result<(), ServeError> {
    serve_until(agent, address, async {
        if let Err(error) = tokio::signal::ctrl_c().await {
            tracing::warn!(%error, "interrupts are not received; the worker runs until it is killed");
            std::future::pending::<()>().await;
        }
    })
    .await
}

/// Like [`serve`], until `stop` completes.
///
/// # Errors
/// Returns the same errors as [`serve`].
pub async fn serve_until(
    agent: DurableAgent,
    address: SocketAddr,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let endpoint = endpoint(agent)?;
    let listener = listen(address).map_err(|source| ServeError::Listen { address, source })?;
    HttpServer::new(endpoint).serve_with_cancel(listener, stop).await;
    Ok(())
}

/// Opens a listener without Nagle's algorithm, which would delay every step by up to 40 ms. The accepted connections
/// inherit the setting.
fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.set_nodelay(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn endpoint(agent: DurableAgent) -> Result<Endpoint, ServeError> {
    let agent = Arc::new(agent.prepare()?);
    let mut builder = Endpoint::builder();
    if let Some(key) = &agent.identity_key {
        builder = builder
            .identity_key(key)
            .map_err(|error| ServeError::IdentityKey { reason: error.to_string() })?;
    }
    let sessions = Arc::new(Sessions {
        agent: Arc::clone(&agent),
        mailbox: mailbox_name(&agent.name),
        running: Arc::new(Mutex::new(BTreeMap::new())),
    });
    let mailboxes = MailboxService(Arc::clone(&sessions));
    Ok(builder
        .bind(definition::<SessionHandler>(SessionService(sessions), &agent, &agent.name)?)
        .bind(definition::<MailboxHandler>(mailboxes, &agent, &mailbox_name(&agent.name))?)
        .build())
}

/// Describes a service whose name is known at run time only, in the form in which the engine asks for it.
fn definition<H: Handlers>(
    service: impl Service<Future = ServiceBoxFuture> + Send + Sync + 'static,
    agent: &Prepared,
    name: &str,
) -> Result<ServiceDefinition, ServeError> {
    let handlers: Vec<_> = H::ALL
        .iter()
        .map(|handler| {
            let Description { name, access, input, caller } = handler.description();
            json!({
                "name": name,
                "ty": match access {
                    Access::Exclusive => "EXCLUSIVE",
                    Access::Shared => "SHARED",
                },
                "input": match input {
                    Input::Json => json!({"required": true, "contentType": "application/json"}),
                    Input::Nothing => json!({}),
                },
                "output": {"contentType": "application/json", "setContentTypeIfEmpty": false},
                "ingressPrivate": caller == Caller::Services,
            })
        })
        .collect();
    let longest = u64::try_from(agent.longest_step.as_millis()).unwrap_or(u64::MAX);
    let spare = u64::try_from(SPARE.as_millis()).unwrap_or(u64::MAX);
    let described = json!({
        "name": name,
        "ty": "VIRTUAL_OBJECT",
        "handlers": handlers,
        "enableLazyState": true,
        "inactivityTimeout": longest,
        "abortTimeout": longest.saturating_add(spare),
        // A worker that has died is replaced within seconds, and a session is never given up.
        "retryPolicyInitialInterval": RETRY_FIRST_MS,
        "retryPolicyExponentiationFactor": 2.0,
        "retryPolicyMaxInterval": RETRY_MAX_MS,
        "retryPolicyMaxAttempts": u32::MAX,
    });
    let discovered: discovery::Service = serde_json::from_value(described)
        .map_err(|source| ServeError::Description { name: name.to_owned(), source })?;
    Ok(service_definition(service, discovered))
}

struct SessionService(Arc<Sessions>);

impl Service for SessionService {
    type Future = ServiceBoxFuture;

    fn handle(&self, ctx: ContextInternal) -> ServiceBoxFuture {
        let sessions = Arc::clone(&self.0);
        Box::pin(async move {
            let Some(handler) = SessionHandler::named(ctx.handler_name()) else { return unknown(&ctx) };
            match handler {
                SessionHandler::Prompt => {
                    let (Json(input), meta) = ctx.input().await;
                    reply(&ctx, sessions.prompt(&ctx, meta, input).await)
                }
                SessionHandler::Explore => {
                    let (Json(input), meta) = ctx.input().await;
                    reply(&ctx, sessions.explore(&ctx, meta, input).await)
                }
                SessionHandler::Answer => {
                    let (Json(input), meta) = ctx.input().await;
                    reply(&ctx, sessions.answer(&ctx, meta, input).await)
                }
                SessionHandler::Advance => {
                    let ((), meta) = ctx.input().await;
                    reply(&ctx, sessions.advance(&ctx, meta).await)
                }
                SessionHandler::Wake => {
                    let ((), meta) = ctx.input().await;
                    reply(&ctx, sessions.wake(&ctx, meta).await)
                }
                SessionHandler::Questions => {
                    let ((), _) = ctx.input().await;
                    reply(&ctx, sessions.questions(&ctx).await)
                }
                SessionHandler::History => {
                    let ((), _) = ctx.input().await;
                    reply(&ctx, sessions.history(&ctx).await)
                }
                SessionHandler::Events => {
                    let (Json(input), meta) = ctx.input().await;
                    reply(&ctx, sessions.events(&ctx, &meta, input).await)
                }
                SessionHandler::Turn => {
                    let (Json(input), _) = ctx.input().await;
                    reply(&ctx, sessions.turn(&ctx, input).await)
                }
            }
        })
    }
}

struct MailboxService(Arc<Sessions>);

impl Service for MailboxService {
    type Future = ServiceBoxFuture;

    fn handle(&self, ctx: ContextInternal) -> ServiceBoxFuture {
        let sessions = Arc::clone(&self.0);
        Box::pin(async move {
            let Some(handler) = MailboxHandler::named(ctx.handler_name()) else { return unknown(&ctx) };
            match handler {
                MailboxHandler::Put => {
                    let (Json(mail), meta) = ctx.input::<Json<Mail>>().await;
                    let wake = sessions.target(&meta.key, SessionHandler::Wake);
                    let abort_here = |invocation: &str| sessions.abort_here(&meta.key, invocation);
                    reply(&ctx, mailbox::put(&ctx, wake, mail, abort_here).await)
                }
                MailboxHandler::Attach => {
                    let (Json(input), _) = ctx.input().await;
                    reply(&ctx, mailbox::attach(&ctx, input).await)
                }
                MailboxHandler::Detach => {
                    let (Json(input), _) = ctx.input().await;
                    reply(&ctx, mailbox::detach(&ctx, input).await)
                }
                MailboxHandler::DropAborts => {
                    let ((), _) = ctx.input().await;
                    reply(&ctx, mailbox::drop_aborts(&ctx).await)
                }
            }
        })
    }
}

/// The error of a handler that this version does not have.
fn unknown(ctx: &ContextInternal) -> Result<(), endpoint::Error> {
    Err(endpoint::Error::unknown_handler(ctx.service_name(), ctx.handler_name()))
}

/// Writes the output of a handler as JSON.
#[expect(clippy::unnecessary_wraps, reason = "the result of every handler")]
fn reply<T: serde::Serialize>(
    ctx: &ContextInternal,
    result: HandlerResult<T>,
) -> Result<(), endpoint::Error> {
    ctx.handle_handler_result(result.map(Json));
    ctx.end();
    Ok(())
}
