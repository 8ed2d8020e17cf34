//! A tool whose arguments are the answer, for models that cannot be held to a form in another way.

use agent_core::ModelRequest;

/// Its name, unless a tool of the caller has that one.
const RESPOND: &str = "respond_json";

/// What the model is told of it.
pub(crate) const DESCRIPTION: &str =
    "Gives the final answer. Call it once, with the whole answer as its arguments.";

/// A name that none of the caller's tools has.
pub(crate) fn name(request: &ModelRequest) -> String {
    let taken = |name: &str| request.tools.definitions().iter().any(|d| d.name == name);
    let numbered = (2_u32..).map(|n| format!("{RESPOND}_{n}"));
    std::iter::once(RESPOND.to_owned()).chain(numbered).find(|n| !taken(n)).unwrap_or_default()
}
