//! Names the arguments of a tool.

use oas3::spec::ParameterIn;

use crate::names::{ArgumentNames, argument_name};

/// The names that are already used.
#[derive(Debug, Default)]
pub(super) struct Names(ArgumentNames);

impl Names {
    /// Returns a unique name for a parameter of letters, digits, `_`, `.` and `-`. If another parameter has the same
    /// name, the place of the parameter precedes it, and a number follows if necessary.
    pub(super) fn of_parameter(&mut self, name: &str, place: ParameterIn) -> String {
        let plain = argument_name(name);
        if self.0.take(&plain) {
            return plain;
        }
        let placed = match place {
            ParameterIn::Path => "path",
            ParameterIn::Query => "query",
            ParameterIn::Header => "header",
            ParameterIn::Cookie => "cookie",
        };
        self.0.first_free(&argument_name(&format!("{placed}_{name}")))
    }

    /// Returns the name of the body argument: `body`, or `_request_body` if a parameter has that name.
    pub(super) fn of_body(&mut self) -> String {
        if self.0.take("body") {
            return "body".to_owned();
        }
        self.0.first_free("_request_body")
    }
}
