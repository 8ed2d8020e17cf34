//! Panics of the agent under test, which belong into the log and not on the terminal.

use std::cell::RefCell;
use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// The messages of the panics in this thread; `None` outside of a simulated process.
    static NOTED: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Runs `work` and returns the messages of the panics in it, which are not printed.
///
/// The panic hook of the program is replaced once, by one that calls it for every panic outside of a simulation.
pub(crate) fn quietly(work: impl FnOnce()) -> Vec<String> {
    static REPLACED: Once = Once::new();
    REPLACED.call_once(|| {
        let hook = take_hook();
        set_hook(Box::new(move |info| {
            if !note(info) {
                hook(info);
            }
        }));
    });
    let outer = NOTED.replace(Some(Vec::new()));
    work();
    NOTED.replace(outer).unwrap_or_default()
}

fn note(info: &PanicHookInfo<'_>) -> bool {
    NOTED.with_borrow_mut(|noted| match noted {
        Some(noted) => {
            noted.push(info.to_string());
            true
        }
        None => false,
    })
}
