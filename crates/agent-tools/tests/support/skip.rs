//! What a test does where a sandbox does not work.

use std::fmt::Display;

/// Prints that a kind of sandbox does not work here. Panics if `LOOPTREE_REQUIRE_SANDBOXES` is set, because a fault of this
/// project that breaks every sandbox otherwise looks like a machine without one.
#[allow(clippy::disallowed_methods, reason = "the variable is a setting of the whole test run")]
pub(crate) fn sandbox(kind: impl Display, error: &dyn Display) {
    assert!(
        std::env::var_os("LOOPTREE_REQUIRE_SANDBOXES").is_none(),
        "the sandbox {kind} does not work: {error}"
    );
    eprintln!("skipped: the sandbox {kind}: {error}");
}
