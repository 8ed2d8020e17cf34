//! Sets up exporters and the layer of the program's subscriber.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use agent_core::drive;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{MetricExporter, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

use crate::connection::Connection;
use crate::content::Content;
use crate::error::OtelError;
use crate::exporter::Conforming;
use crate::metrics::MetricsLayer;
use crate::sender::Sender;

/// The target of all spans of agents.
const TARGET: &str = "looptree";

/// The name of the service if neither the program nor `OTEL_SERVICE_NAME` sets one.
const SERVICE: &str = "looptree";

/// Whether metrics are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Metrics {
    /// They are sent every 60 seconds, or at the interval of `OTEL_METRIC_EXPORT_INTERVAL`. This is the default.
    #[default]
    Sent,
    /// They are not, for receivers that accept traces only.
    Omitted,
}

/// The settings of telemetry. [`install`](Self::install) and [`start`](Self::start) begin to export.
///
/// The variables of the OpenTelemetry specification apply where the program sets nothing: `OTEL_EXPORTER_OTLP_ENDPOINT`,
/// `OTEL_EXPORTER_OTLP_HEADERS`, the same for `_TRACES_` and `_METRICS_`, `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER`, `OTEL_BSP_*` and
/// `OTEL_METRIC_EXPORT_INTERVAL`. Values of headers do not appear in `Debug`.
#[derive(Clone, Default)]
pub struct Telemetry {
    endpoint: Option<String>,
    service: Option<String>,
    headers: BTreeMap<String, String>,
    attributes: Vec<(String, String)>,
    targets: Vec<String>,
    content: Content,
    metrics: Metrics,
}

impl Telemetry {
    /// Sends to the OTLP receiver with this base address, such as `http://localhost:4318`. The paths `/v1/traces` and
    /// `/v1/metrics` are added.
    #[must_use]
    pub fn to(endpoint: impl Into<String>) -> Self {
        Self { endpoint: Some(endpoint.into()), ..Self::default() }
    }

    /// Sends to the receiver that `OTEL_EXPORTER_OTLP_ENDPOINT` names, by default `http://localhost:4318`.
    #[must_use]
    pub fn from_env() -> Self {
        Self::default()
    }

    /// Sets the name of the service. Default: the value of `OTEL_SERVICE_NAME`, or `looptree`.
    #[must_use]
    pub fn with_service_name(mut self, name: impl Into<String>) -> Self {
        self.service = Some(name.into());
        self
    }

    /// Adds a header to each request, for example `authorization`. The headers of `OTEL_EXPORTER_OTLP_HEADERS` are sent, too,
    /// and take precedence.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Adds an attribute to the resource, for example `deployment.environment.name`.
    #[must_use]
    pub fn with_resource_attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.attributes.push((name.into(), value.into()));
        self
    }

    /// Sets whether text of conversations is sent. Default: it is not.
    #[must_use]
    pub fn with_content(mut self, content: Content) -> Self {
        self.content = content;
        self
    }

    /// Sets whether metrics are sent. Default: they are.
    #[must_use]
    pub fn with_metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// Exports also the spans of this target, and of those below it, from the level `INFO` on: for example the spans of the
    /// requests that start runs. Their fields are sent as they are. Default: only the spans of agents.
    #[must_use]
    pub fn with_target(mut self, target: impl Into<String>) -> Self {
        self.targets.push(target.into());
        self
    }

    /// Starts the exporters and makes the layer the subscriber of the process.
    ///
    /// # Errors
    /// Returns the errors of [`start`](Self::start), and [`OtelError::SubscriberExists`] if the process has a subscriber.
    pub fn install(self) -> Result<Installed, OtelError> {
        let started = self.start()?;
        let subscriber = tracing_subscriber::registry().with(started.layer());
        tracing::subscriber::set_global_default(subscriber).map_err(OtelError::SubscriberExists)?;
        Ok(started)
    }

    /// Starts the exporters, for a program that adds [`Installed::layer`] to its own subscriber.
    ///
    /// # Errors
    /// Returns an error if the address or a header is invalid, or the exporters cannot be created. Nothing is sent yet, so
    /// an unreachable receiver is no error.
    pub fn start(self) -> Result<Installed, OtelError> {
        let sender = self.sender()?;
        let resource = self.resource();
        let exporter = Conforming::new(self.span_exporter(&sender)?, self.content);
        let tracers = SdkTracerProvider::builder()
            .with_resource(resource.clone())
            .with_batch_exporter(exporter)
            .build();
        let meters = match self.metrics {
            Metrics::Omitted => None,
            Metrics::Sent => {
                let exporter = self.metric_exporter(&sender)?;
                Some(
                    SdkMeterProvider::builder()
                        .with_resource(resource)
                        .with_periodic_exporter(exporter)
                        .build(),
                )
            }
        };
        Ok(Installed { tracers, meters, content: self.content, targets: self.targets.into() })
    }

    /// Creates the HTTP client of the exporters.
    pub(crate) fn sender(&self) -> Result<Sender, OtelError> {
        for (name, value) in &self.headers {
            let valid = http::HeaderName::from_bytes(name.as_bytes()).is_ok()
                && http::HeaderValue::from_str(value).is_ok();
            if !valid {
                return Err(OtelError::Header { name: name.clone() });
            }
        }
        // An address of the environment is not known here; a client with certificates serves both.
        let secure_by_default = cfg!(any(feature = "tls-rustls", feature = "tls-native"));
        let is_secure = match &self.endpoint {
            Some(endpoint) => is_secure(endpoint)?,
            None => secure_by_default,
        };
        Sender::new(is_secure)
    }

    pub(crate) fn resource(&self) -> Resource {
        let attributes =
            self.attributes.iter().map(|(name, value)| KeyValue::new(name.clone(), value.clone()));
        let build = |service: Option<&str>| {
            let builder = Resource::builder().with_attributes(attributes.clone());
            match service {
                Some(name) => builder.with_service_name(name.to_owned()).build(),
                None => builder.build(),
            }
        };
        if let Some(service) = &self.service {
            return build(Some(service));
        }
        let resource = build(None);
        let name =
            resource.iter().find(|(key, _)| key.as_str() == "service.name").map(|(_, v)| v.to_string());
        if name.is_none_or(|name| name.starts_with("unknown_service")) {
            build(Some(SERVICE))
        } else {
            resource
        }
    }

    pub(crate) fn span_exporter(&self, sender: &Sender) -> Result<SpanExporter, OtelError> {
        let builder = SpanExporter::builder().with_http().with_http_client(sender.clone());
        let builder = builder.with_headers(self.headers.clone().into_iter().collect());
        Ok(match self.address("v1/traces") {
            Some(address) => builder.with_endpoint(address).build()?,
            None => builder.build()?,
        })
    }

    fn metric_exporter(&self, sender: &Sender) -> Result<MetricExporter, OtelError> {
        let builder = MetricExporter::builder().with_http().with_http_client(sender.clone());
        let builder = builder.with_headers(self.headers.clone().into_iter().collect());
        Ok(match self.address("v1/metrics") {
            Some(address) => builder.with_endpoint(address).build()?,
            None => builder.build()?,
        })
    }

    /// Returns the address for a signal; `None` leaves it to the environment.
    fn address(&self, path: &str) -> Option<String> {
        let endpoint = self.endpoint.as_deref()?;
        Some(format!("{}/{path}", endpoint.trim_end_matches('/')))
    }

    #[cfg(feature = "session")]
    pub(crate) fn content(&self) -> Content {
        self.content
    }
}

/// Returns whether the address begins with `https://`. Credentials belong into a header, so an address with them is refused.
fn is_secure(endpoint: &str) -> Result<bool, OtelError> {
    let given = || {
        endpoint
            .split(['?', '#'])
            .next()
            .unwrap_or_default()
            .rsplit('@')
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let url = reqwest::Url::parse(endpoint).map_err(|_| OtelError::Endpoint { given: given() })?;
    let plain = url.username().is_empty() && url.password().is_none() && url.query().is_none();
    match url.scheme() {
        "http" if plain => Ok(false),
        "https" if plain => Ok(true),
        _ => Err(OtelError::Endpoint { given: given() }),
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry")
            .field("service", &self.service)
            .field("headers", &self.headers.keys())
            .field("targets", &self.targets)
            .field("content", &self.content)
            .field("metrics", &self.metrics)
            .finish_non_exhaustive()
    }
}

/// Running telemetry. A clone is the same telemetry.
///
/// Call [`shutdown`](Self::shutdown) before the program ends; otherwise the last spans and metrics are lost.
#[derive(Clone)]
pub struct Installed {
    tracers: SdkTracerProvider,
    meters: Option<SdkMeterProvider>,
    content: Content,
    targets: Arc<[String]>,
}

impl Installed {
    /// Returns the layer that exports spans and derives metrics from them, for a program with its own subscriber. It ignores
    /// log events.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let scope = InstrumentationScope::builder(TARGET).with_version(env!("CARGO_PKG_VERSION")).build();
        let spans = tracing_opentelemetry::layer()
            .with_tracer(self.tracers.tracer_with_scope(scope.clone()))
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_target(false)
            .with_level(false);
        let metrics = self.meters.as_ref().map(|meters| MetricsLayer::new(meters, scope));
        let targets = Arc::clone(&self.targets);
        let wanted = move |metadata: &Metadata<'_>| is_wanted(metadata, &targets);
        spans.and_then(metrics).with_filter(filter_fn(wanted))
    }

    /// Returns the connection for [`WithTelemetry::with_telemetry`](crate::WithTelemetry::with_telemetry). With it, tools, MCP
    /// servers and model servers receive the trace context, and spans receive content if it is included.
    #[must_use]
    pub fn connection(&self) -> Arc<dyn drive::Telemetry> {
        Arc::new(Connection { content: self.content })
    }

    /// Sends what has been collected and waits until it has arrived, at most for some seconds. Blocks the thread.
    ///
    /// # Errors
    /// Returns an error if the receiver did not accept it or did not answer in time.
    pub fn flush(&self) -> Result<(), OtelError> {
        self.tracers.force_flush()?;
        self.meters.as_ref().map_or(Ok(()), SdkMeterProvider::force_flush)?;
        Ok(())
    }

    /// Sends what has been collected and stops the exporters. Later spans are dropped. Blocks the thread for some seconds at
    /// most.
    ///
    /// # Errors
    /// Returns an error if the receiver did not accept it or did not answer in time.
    pub fn shutdown(&self) -> Result<(), OtelError> {
        let spans = self.tracers.shutdown();
        self.meters.as_ref().map_or(Ok(()), SdkMeterProvider::shutdown)?;
        Ok(spans?)
    }
}

impl fmt::Debug for Installed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Installed")
            .field("content", &self.content)
            .field("metrics", &self.meters.is_some())
            .finish_non_exhaustive()
    }
}

/// Returns whether the layer exports a span: those of agents, and those of the targets that the program named.
fn is_wanted(metadata: &Metadata<'_>, targets: &[String]) -> bool {
    let target = metadata.target();
    let below = |named: &String| {
        target.strip_prefix(named.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    metadata.is_span()
        && *metadata.level() <= tracing::Level::INFO
        && (target == TARGET || targets.iter().any(below))
}
