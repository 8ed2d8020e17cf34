//! The routes of a service and their description. Both are made from one list, so that they agree.

mod auth;
mod conversations;
mod description;
mod error;
mod events;
mod extract;
#[cfg(feature = "files")]
mod files;
mod frames;
mod meta;
mod openai;
mod questions;
mod routes;

use axum::extract::State;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::{Router, body::Body, middleware};

use crate::service::Service;
use error::ApiError;

impl Service {
    /// Returns the routes of the service, for a server of your own. [`serve`](Self::serve) adds limits of connections, the recovery
    /// at the start and the shutdown at the end; without it, call [`recover`](Self::recover) and [`shutdown`](Self::shutdown).
    pub fn router(&self) -> Router {
        let mut router = Router::new();
        for route in routes::all() {
            // Some clients end an address with a slash.
            let with_slash = format!("{}/", route.path);
            router = router.route(route.path, (route.handler)()).route(&with_slash, (route.handler)());
        }
        router
            .fallback(unknown)
            .method_not_allowed_fallback(wrong_method)
            .layer(middleware::from_fn_with_state(self.clone(), auth::require))
            .layer(middleware::from_fn_with_state(self.clone(), auth::measure))
            .with_state(self.clone())
    }

    /// Returns the OpenAPI 3.1 description of the routes, which `/openapi.json` serves.
    #[must_use]
    pub fn description() -> serde_json::Value {
        description::document()
    }
}

async fn unknown() -> Response {
    ApiError::not_found("there is no such route; GET /openapi.json describes those there are").into_response()
}

async fn wrong_method(State(_): State<Service>, request: Request<Body>) -> Response {
    let text = format!("this route does not have the method {}", request.method());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", text).into_response()
}
