//! Completes spans before they are sent: what spans of the crate `tracing` cannot express, and the content switch.

use agent_core::trace::names;
use opentelemetry::trace::Status;
use opentelemetry::{Array, KeyValue, StringValue, Value};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use std::time::Duration;

use crate::content::Content;

/// An exporter whose spans follow the conventions.
#[derive(Debug)]
pub(crate) struct Conforming<E> {
    inner: E,
    content: Content,
}

impl<E> Conforming<E> {
    pub(crate) fn new(inner: E, content: Content) -> Self {
        Self { inner, content }
    }
}

impl<E: SpanExporter> SpanExporter for Conforming<E> {
    async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
        for span in &mut batch {
            complete(span, self.content);
        }
        self.inner.export(batch).await
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

/// Removes content unless it is included, makes a list of the finish reason, and sets the status of a failed span.
fn complete(span: &mut SpanData, content: Content) {
    if content == Content::Omitted {
        span.attributes.retain(|attribute| !names::CONTENT.contains(&attribute.key.as_str()));
    }
    for attribute in &mut span.attributes {
        if attribute.key.as_str() == names::FINISH_REASONS
            && let Value::String(reason) = &attribute.value
        {
            attribute.value = reasons(reason.clone());
        }
    }
    let failed = |attribute: &KeyValue| attribute.key.as_str() == names::ERROR_TYPE;
    if span.status == Status::Unset && span.attributes.iter().any(failed) {
        span.status = Status::error("");
    }
}

/// Returns the value of [`names::FINISH_REASONS`] for one reason.
pub(crate) fn reasons(reason: StringValue) -> Value {
    Value::Array(Array::String(vec![reason]))
}
