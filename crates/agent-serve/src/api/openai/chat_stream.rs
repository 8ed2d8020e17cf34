//! A chat completion as a stream of chunks.

use axum::response::Response;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::super::error::ApiError;
use super::super::frames::{Sender, response};
use super::chat::{ChatUsage, Head, finish_reason};
use super::run::{BETWEEN_REPLIES, Piece, Running};
use crate::service::Service;

pub(super) fn stream(service: &Service, running: Running, head: Head, include_usage: bool) -> Response {
    let (tx, rx) = mpsc::channel(super::super::frames::PIECES);
    let sender = Sender::new(service, tx);
    service.inner.shared.spawn(async move {
        // If the client has gone, the run is aborted when it is dropped.
        let _ = send(running, &head, include_usage, &sender).await;
    });
    response(service, rx)
}

fn chunk(head: &Head, delta: &Value, finish: Option<&str>) -> Value {
    json!({
        "id": head.id,
        "object": "chat.completion.chunk",
        "created": head.created,
        "model": head.model,
        "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}],
    })
}

async fn send(mut running: Running, head: &Head, include_usage: bool, out: &Sender) -> Option<()> {
    out.data(&chunk(head, &json!({"role": "assistant", "content": ""}), None)).await?;
    // The text of the current reply that was sent, and whether an earlier reply had text.
    let (mut sent, mut has_earlier) = (0, false);
    while let Some(piece) = next(&mut running, out).await? {
        let text = match piece {
            Piece::Text(text) => text,
            Piece::Void if sent > 0 => {
                let text = "the model's reply was cut off after a part of it was sent, and the call is repeated; ask again";
                let status = axum::http::StatusCode::BAD_GATEWAY;
                out.error(&ApiError::new(status, "reply_repeated", text)).await?;
                return None;
            }
            Piece::Void => continue,
            // Existing clients show this member, or ignore it.
            Piece::Activity(text) => {
                out.data(&chunk(head, &json!({"reasoning_content": format!("{text}\n")}), None)).await?;
                continue;
            }
            // A provider may deliver a reply without parts.
            Piece::Reply(text) if sent == 0 && !text.is_empty() => {
                let between = if has_earlier { BETWEEN_REPLIES } else { "" };
                out.data(&chunk(head, &json!({"content": format!("{between}{text}")}), None)).await?;
                has_earlier = true;
                continue;
            }
            Piece::Reply(_) => {
                has_earlier |= sent > 0;
                sent = 0;
                continue;
            }
        };
        let between = if sent == 0 && has_earlier && !text.is_empty() { BETWEEN_REPLIES } else { "" };
        sent += text.len();
        out.data(&chunk(head, &json!({"content": format!("{between}{text}")}), None)).await?;
    }
    let usage = running.usage();
    match running.finish().await {
        Ok(finish) => {
            out.data(&chunk(head, &json!({}), Some(finish_reason(finish)))).await?;
            if include_usage {
                let mut last = chunk(head, &json!({}), None);
                if let Some(last) = last.as_object_mut() {
                    last.insert("choices".to_owned(), json!([]));
                    last.insert("usage".to_owned(), serde_json::to_value(ChatUsage::from(usage)).ok()?);
                }
                out.data(&last).await?;
            }
            out.done().await
        }
        Err(error) => out.error(&error).await,
    }
}

/// Returns the next piece, or `None` when the client has gone.
pub(super) async fn next(running: &mut Running, out: &Sender) -> Option<Option<Piece>> {
    tokio::select! {
        () = out.closed() => None,
        piece = running.next() => Some(piece),
    }
}
