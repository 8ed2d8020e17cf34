//! The names that no argument can set: those of credentials, of the connection, and of method overrides.
//!
//! Servers differ in how they compare names. Many ignore case, a lot of them cut a name at `[` or at a NUL, and PHP
//! ignores blanks and replaces `.` by `_`. CGI takes `_` and `-` in a header for the same. A name is therefore reserved
//! if any of these takes it for a reserved one.

use std::collections::BTreeSet;

use oas3::spec::SecurityScheme;

use super::credentials::Placed;

/// Headers of the connection, the caller and proxies, which no argument can set.
const FORBIDDEN: [&str; 28] = [
    "accept",
    "accept-encoding",
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "origin",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "referer",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
];

/// Names of queries and forms that frameworks take for the method of the request, in the form of [`plain`].
const OVERRIDES: [&str; 6] = [
    "_method",
    "_http_method",
    "http_method_override",
    "x_http_method",
    "x_http_method_override",
    "x_method_override",
];

/// The names that no argument can set.
#[derive(Debug, Default)]
pub(super) struct Reserved {
    /// In the form of [`header`].
    headers: BTreeSet<String>,
    /// In the form of [`plain`].
    queries: BTreeSet<String>,
    /// In the form of [`plain`].
    cookies: BTreeSet<String>,
}

impl Reserved {
    pub(super) fn has_header(&self, name: &str) -> bool {
        let name = header(name);
        FORBIDDEN.contains(&name.as_str()) || self.headers.contains(&name)
    }

    pub(super) fn has_query(&self, name: &str) -> bool {
        contains(&self.queries, name) || is_override(name)
    }

    pub(super) fn has_cookie(&self, name: &str) -> bool {
        contains(&self.cookies, name)
    }

    pub(super) fn add(&mut self, placed: &Placed) {
        match placed {
            Placed::Header(name, _) => self.headers.insert(header(name.as_str())),
            Placed::Query(name, _) => self.queries.insert(plain(name)),
            Placed::Cookie(name, _) => self.cookies.insert(plain(name)),
        };
    }

    /// Reserves the name that a scheme uses, even if there is no credential for it.
    pub(super) fn add_scheme(&mut self, scheme: &SecurityScheme) {
        if let SecurityScheme::ApiKey { name, location, .. } = scheme {
            match location.as_str() {
                "header" => self.headers.insert(header(name)),
                "query" => self.queries.insert(plain(name)),
                _ => self.cookies.insert(plain(name)),
            };
        }
    }
}

/// Returns whether a field of a query or a form overrides the method of the request.
pub(super) fn is_override(name: &str) -> bool {
    let name = plain(name).replace('-', "_");
    OVERRIDES.iter().any(|known| is_or_is_in(&name, known))
}

fn contains(reserved: &BTreeSet<String>, name: &str) -> bool {
    let name = plain(name);
    reserved.iter().any(|known| is_or_is_in(&name, known))
}

/// Returns whether the name is the reserved one or names a part of it, as `key[]` and `key[0]` do.
fn is_or_is_in(name: &str, reserved: &str) -> bool {
    name.strip_prefix(reserved).is_some_and(|rest| rest.is_empty() || rest.starts_with('['))
}

fn header(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
}

/// Returns the name as the most lenient server reads it: in lower case, without blanks around it, up to the first control
/// character within it, and with `_` for `.` and blanks.
fn plain(name: &str) -> String {
    let is_around = |c: char| c.is_whitespace() || c.is_control();
    let name = name.trim_matches(is_around);
    let name = name.split(char::is_control).next().unwrap_or_default().trim_end();
    // A blank before a bracket is around the name as well.
    let (head, rest) = name.split_at(name.find('[').unwrap_or(name.len()));
    let fold = |c: char| if c == '.' || c.is_whitespace() { '_' } else { c };
    head.trim_end().chars().flat_map(char::to_lowercase).map(fold).collect::<String>() + &rest.to_lowercase()
}

#[cfg(test)]
mod tests;
