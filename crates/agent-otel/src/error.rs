//! The error of telemetry.

use opentelemetry_otlp::ExporterBuildError;
use opentelemetry_sdk::error::OTelSdkError;

/// An error while telemetry is set up or sent. It contains no header value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OtelError {
    /// The address is not the base address of an OTLP receiver.
    #[error("{given:?} is not the address of an OTLP receiver; use one such as http://localhost:4318")]
    Endpoint {
        /// The address without its query and without credentials.
        given: String,
    },
    /// The name or value of a header cannot be sent.
    #[error("the header {name:?} has a name or a value that cannot be sent")]
    Header {
        /// The name of the header.
        name: String,
    },
    /// The address needs TLS, which is not built in.
    #[error(
        "https:// is not built in; enable the feature tls-rustls or tls-native, or use an http:// address"
    )]
    NoTls,
    /// The exporter could not be created.
    #[error("the exporter could not be created: {0}")]
    Exporter(#[from] ExporterBuildError),
    /// The HTTP client or its thread could not be created.
    #[error("the HTTP client of the exporter could not be created: {0}")]
    Client(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The program already has a subscriber.
    #[error(
        "the program already has a tracing subscriber; add `Telemetry::layer` to it instead of calling `install`"
    )]
    SubscriberExists(#[source] tracing::subscriber::SetGlobalDefaultError),
    /// The receiver did not accept what was sent, or did not answer in time.
    #[error(
        "the telemetry was not delivered; check that the OTLP receiver runs at this address and accepts it: {0}"
    )]
    Send(#[from] OTelSdkError),
}
