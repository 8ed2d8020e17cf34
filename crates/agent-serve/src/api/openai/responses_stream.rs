//! A response as a stream of events.

use axum::response::Response;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::super::error::ApiError;
use super::super::frames::{PIECES, Sender, response};
use super::chat_stream::next;
use super::responses::{ResponseBody, ResponseId, message, part};
use super::run::{Piece, Running};
use crate::service::Service;

pub(super) fn stream(service: &Service, running: Running, body: ResponseBody, id: ResponseId) -> Response {
    let (tx, rx) = mpsc::channel(PIECES);
    let mut events = Events { out: Sender::new(service, tx), sequence: 0, open: None, count: 0 };
    service.inner.shared.spawn(async move {
        // If the client has gone, the run is aborted when it is dropped.
        let _ = events.send(running, body, id).await;
    });
    response(service, rx)
}

struct Events {
    out: Sender,
    /// The number of the next event.
    sequence: u64,
    /// The message that is being sent.
    open: Option<Open>,
    /// The number of messages that began.
    count: usize,
}

struct Open {
    id: String,
    index: usize,
    text: String,
}

impl Events {
    async fn event(&mut self, kind: &str, mut fields: Value) -> Option<()> {
        let mut event = json!({"type": kind, "sequence_number": self.sequence});
        self.sequence += 1;
        if let (Some(event), Some(fields)) = (event.as_object_mut(), fields.as_object_mut()) {
            event.append(fields);
        }
        self.out.named(&event).await
    }

    async fn send(&mut self, mut running: Running, mut body: ResponseBody, id: ResponseId) -> Option<()> {
        self.event("response.created", json!({"response": body})).await?;
        self.event("response.in_progress", json!({"response": body})).await?;
        while let Some(piece) = next(&mut running, &self.out).await? {
            match piece {
                Piece::Text(text) => self.text(&id, &text).await?,
                Piece::Void if self.open.is_some() => {
                    let text = "the model's reply was cut off after a part of it was sent, and the call is repeated; ask \
                                again";
                    let status = axum::http::StatusCode::BAD_GATEWAY;
                    self.failed(&body, &ApiError::new(status, "reply_repeated", text)).await?;
                    return None;
                }
                Piece::Void => {}
                Piece::Activity(text) => {
                    body.output.extend(self.close().await?);
                    body.output.push(self.activity(&id, &text).await?);
                }
                Piece::Reply(text) => {
                    if self.open.is_none() {
                        self.text(&id, &text).await?;
                    }
                    body.output.extend(self.close().await?);
                }
            }
        }
        let usage = running.usage();
        match running.finish().await {
            Ok(finish) => {
                let body = body.finished(finish, usage);
                let kind = format!("response.{}", body.status);
                self.event(&kind, json!({"response": body})).await
            }
            Err(error) => self.failed(&body, &error).await,
        }
    }

    async fn failed(&mut self, body: &ResponseBody, error: &ApiError) -> Option<()> {
        let body = body.clone().failed(error);
        self.event("response.failed", json!({"response": body})).await
    }

    /// Sends what a tool does as the summary of a reasoning, which existing clients show.
    async fn activity(&mut self, id: &ResponseId, text: &str) -> Option<Value> {
        let (item, index) = (format!("rs_{}_{}", id.conversation, self.count), self.count);
        self.count += 1;
        let reasoning = |summary: Value| json!({"type": "reasoning", "id": item, "summary": summary});
        let part = json!({"type": "summary_text", "text": text});
        let at = |more: Value| {
            let mut fields = json!({"item_id": item, "output_index": index, "summary_index": 0});
            if let (Some(fields), Value::Object(mut more)) = (fields.as_object_mut(), more) {
                fields.append(&mut more);
            }
            fields
        };
        let begun = json!({"output_index": index, "item": reasoning(json!([]))});
        self.event("response.output_item.added", begun).await?;
        let empty = json!({"part": {"type": "summary_text", "text": ""}});
        self.event("response.reasoning_summary_part.added", at(empty)).await?;
        self.event("response.reasoning_summary_text.delta", at(json!({"delta": text}))).await?;
        self.event("response.reasoning_summary_text.done", at(json!({"text": text}))).await?;
        self.event("response.reasoning_summary_part.done", at(json!({"part": part}))).await?;
        let done = reasoning(json!([part]));
        self.event("response.output_item.done", json!({"output_index": index, "item": done})).await?;
        Some(done)
    }

    async fn text(&mut self, id: &ResponseId, text: &str) -> Option<()> {
        if text.is_empty() {
            return Some(());
        }
        let (item, index) = match &mut self.open {
            Some(open) => {
                open.text.push_str(text);
                (open.id.clone(), open.index)
            }
            None => {
                let (item, index) = (format!("msg_{}_{}", id.conversation, self.count), self.count);
                self.count += 1;
                let begun = message(&item, "in_progress", None);
                self.event("response.output_item.added", json!({"output_index": index, "item": begun}))
                    .await?;
                let fields =
                    json!({"item_id": item, "output_index": index, "content_index": 0, "part": part("")});
                self.event("response.content_part.added", fields).await?;
                self.open = Some(Open { id: item.clone(), index, text: text.to_owned() });
                (item, index)
            }
        };
        let fields = json!({
            "item_id": item, "output_index": index, "content_index": 0, "delta": text, "logprobs": [],
        });
        self.event("response.output_text.delta", fields).await
    }

    /// Ends the message that is being sent, and returns it.
    async fn close(&mut self) -> Option<Option<Value>> {
        let Some(Open { id, index, text }) = self.open.take() else { return Some(None) };
        let done = json!({
            "item_id": id, "output_index": index, "content_index": 0, "text": text, "logprobs": [],
        });
        self.event("response.output_text.done", done).await?;
        let done = json!({"item_id": id, "output_index": index, "content_index": 0, "part": part(&text)});
        self.event("response.content_part.done", done).await?;
        let item = message(&id, "completed", Some(&text));
        self.event("response.output_item.done", json!({"output_index": index, "item": item})).await?;
        Some(Some(item))
    }
}
