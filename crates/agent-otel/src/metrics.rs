//! Derives metrics from spans, whether or not a span is sampled.

use std::time::Instant;

use agent_core::trace::names;
use agent_core::trace::names::metrics as of;
use opentelemetry::metrics::{Counter, Histogram, MeterProvider as _, UpDownCounter};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::metrics::SdkMeterProvider;
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

/// The bounds of histograms of calls, in seconds, as the conventions advise.
const CALL_BOUNDS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/// The bounds of histograms of loops, in seconds, as the conventions advise.
const LOOP_BOUNDS: [f64; 13] = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6];

/// The bounds of histograms of the calls of a loop.
const COUNT_BOUNDS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

pub(crate) struct MetricsLayer {
    call: Histogram<f64>,
    first_chunk: Histogram<f64>,
    tokens: [(&'static str, Counter<u64>); 5],
    agent: Histogram<f64>,
    agent_calls: Histogram<u64>,
    agent_tools: Histogram<u64>,
    tool: Histogram<f64>,
    cost: Counter<f64>,
    retries: Counter<u64>,
    queue: Histogram<f64>,
    active: UpDownCounter<i64>,
}

/// The kinds of spans that are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Loop,
    Chat,
    Tool,
}

impl Kind {
    fn of(span: &str) -> Option<Self> {
        match span {
            names::INVOKE_AGENT | "branch" | "judge" => Some(Self::Loop),
            names::CHAT => Some(Self::Chat),
            names::EXECUTE_TOOL => Some(Self::Tool),
            _ => None,
        }
    }
}

/// What a span has recorded so far.
struct Measured {
    kind: Kind,
    begun: Instant,
    labels: Vec<KeyValue>,
    tokens: [u64; 5],
    first_chunk: Option<f64>,
    cost: Option<f64>,
    queue: Option<f64>,
    attempt: i64,
    /// The calls of a loop.
    calls: u64,
    tools: u64,
}

/// The attributes of spans that are attributes of metrics as well. All have few values.
const LABELS: [&str; 6] = [
    names::OPERATION,
    names::PROVIDER,
    names::REQUEST_MODEL,
    names::AGENT_NAME,
    names::TOOL_NAME,
    names::ERROR_TYPE,
];

impl Visit for Measured {
    fn record_i64(&mut self, field: &Field, value: i64) {
        let count = u64::try_from(value).unwrap_or_default();
        let [input, output, read, write, reasoning] = &mut self.tokens;
        match field.name() {
            names::INPUT_TOKENS => *input = count,
            names::OUTPUT_TOKENS => *output = count,
            names::CACHE_READ => *read = count,
            names::CACHE_WRITE => *write = count,
            names::REASONING => *reasoning = count,
            names::ATTEMPT => self.attempt = value,
            _ => {}
        }
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        match field.name() {
            names::FIRST_CHUNK => self.first_chunk = Some(value),
            names::COST => self.cost = Some(value),
            names::QUEUE => self.queue = Some(value),
            _ => {}
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if let Some(name) = LABELS.into_iter().find(|label| *label == field.name()) {
            self.labels.push(KeyValue::new(name, value.to_owned()));
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if let Some(name) = LABELS.into_iter().find(|label| *label == field.name()) {
            self.labels.push(KeyValue::new(name, format!("{value:?}")));
        }
    }
}

impl MetricsLayer {
    pub(crate) fn new(meters: &SdkMeterProvider, scope: InstrumentationScope) -> Self {
        let meter = meters.meter_with_scope(scope);
        let seconds = |name: &'static str, bounds: &[f64]| {
            meter.f64_histogram(name).with_unit("s").with_boundaries(bounds.to_vec()).build()
        };
        let counts = |name: &'static str, unit: &'static str| {
            meter.u64_histogram(name).with_unit(unit).with_boundaries(COUNT_BOUNDS.to_vec()).build()
        };
        let tokens = |name: &'static str| (name, meter.u64_counter(name).with_unit("{token}").build());
        Self {
            call: seconds(of::CHAT_DURATION, &CALL_BOUNDS),
            first_chunk: seconds(of::FIRST_CHUNK, &CALL_BOUNDS),
            tokens: [of::INPUT_TOKENS, of::OUTPUT_TOKENS, of::CACHE_READ, of::CACHE_WRITE, of::REASONING]
                .map(tokens),
            agent: seconds(of::AGENT_DURATION, &LOOP_BOUNDS),
            agent_calls: counts(of::AGENT_CALLS, "{call}"),
            agent_tools: counts(of::AGENT_TOOLS, "{call}"),
            tool: seconds(of::TOOL_DURATION, &CALL_BOUNDS),
            cost: meter.f64_counter(of::COST).with_unit("{USD}").build(),
            retries: meter.u64_counter(of::RETRIES).with_unit("{retry}").build(),
            queue: seconds(of::QUEUE, &CALL_BOUNDS),
            active: meter.i64_up_down_counter(of::ACTIVE).with_unit("{loop}").build(),
        }
    }

    fn chat(&self, ended: &Measured, seconds: f64) {
        let labels = &ended.labels;
        self.call.record(seconds, labels);
        if let Some(first) = ended.first_chunk {
            self.first_chunk.record(first, labels);
        }
        for ((_, counter), count) in self.tokens.iter().zip(ended.tokens) {
            if count > 0 {
                counter.add(count, labels);
            }
        }
        if let Some(cost) = ended.cost {
            self.cost.add(cost, labels);
        }
        if let Some(queue) = ended.queue {
            self.queue.record(queue, labels);
        }
        if ended.attempt > 0 {
            self.retries.add(1, labels);
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for MetricsLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        let metadata = attributes.metadata();
        let kind = Kind::of(metadata.name()).filter(|_| metadata.target() == "looptree");
        let (Some(kind), Some(span)) = (kind, ctx.span(id)) else { return };
        let mut measured = Measured {
            kind,
            begun: now(),
            labels: Vec::new(),
            tokens: [0; 5],
            first_chunk: None,
            cost: None,
            queue: None,
            attempt: 0,
            calls: 0,
            tools: 0,
        };
        attributes.record(&mut measured);
        if kind == Kind::Loop {
            self.active.add(1, &[]);
        }
        span.extensions_mut().insert(measured);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, ctx: Context<'_, S>) {
        if let Some(span) = ctx.span(id)
            && let Some(measured) = span.extensions_mut().get_mut::<Measured>()
        {
            values.record(measured);
        }
    }

    fn on_close(&self, id: Id, ctx: Context<'_, S>) {
        let Some(span) = ctx.span(&id) else { return };
        let Some(ended) = span.extensions_mut().remove::<Measured>() else { return };
        let seconds = now().duration_since(ended.begun).as_secs_f64();
        match ended.kind {
            Kind::Chat => self.chat(&ended, seconds),
            Kind::Tool => self.tool.record(seconds, &ended.labels),
            Kind::Loop => {
                self.active.add(-1, &[]);
                self.agent.record(seconds, &ended.labels);
                self.agent_calls.record(ended.calls, &ended.labels);
                self.agent_tools.record(ended.tools, &ended.labels);
                return;
            }
        }
        for above in span.scope().skip(1) {
            if let Some(above) = above.extensions_mut().get_mut::<Measured>()
                && above.kind == Kind::Loop
            {
                match ended.kind {
                    Kind::Chat => above.calls += 1,
                    Kind::Tool | Kind::Loop => above.tools += 1,
                }
                return;
            }
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the duration of a span is measured where the span is observed"
)]
fn now() -> Instant {
    Instant::now()
}
