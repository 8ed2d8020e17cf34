//! Reads the standard input.

use std::io::{IsTerminal as _, Read as _};
use std::time::Duration;

use anyhow::Result;

use crate::exit::usage;
use crate::screen::Screen;

/// The maximum number of bytes that are read. More would not fit into a conversation.
const MAX_BYTES: usize = 10 << 20;
/// The time after which the program tells the user that it waits for the standard input.
const PATIENCE: Duration = Duration::from_secs(3);

/// Reads the standard input to its end; `None` for a terminal and for nothing.
pub(crate) async fn read(screen: &Screen) -> Result<Option<String>> {
    if std::io::stdin().is_terminal() {
        return Ok(None);
    }
    let reading = tokio::task::spawn_blocking(|| {
        let mut bytes = Vec::new();
        let limit = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX).saturating_add(1);
        std::io::stdin().lock().take(limit).read_to_end(&mut bytes).map(|_| bytes)
    });
    tokio::pin!(reading);
    let read = tokio::select! {
        read = &mut reading => read,
        () = tokio::time::sleep(PATIENCE) => {
            screen.line("waiting for the end of the standard input; --no-stdin does not read it");
            reading.await
        }
    };
    // A closed standard input is the same as an empty one.
    let Ok(bytes) = read? else { return Ok(None) };
    if bytes.len() > MAX_BYTES {
        return Err(usage(format!(
            "the standard input has more than {MAX_BYTES} bytes; name a file in the task instead"
        )));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| usage("the standard input is not UTF-8 text; name a file in the task instead"))?;
    Ok((!text.trim().is_empty()).then_some(text))
}

/// Joins a task and the text of the standard input.
pub(crate) fn prompt(task: Option<&str>, input: Option<String>) -> Option<String> {
    match (task, input) {
        (Some(task), Some(input)) => Some(format!("{task}\n\n<stdin>\n{}\n</stdin>", input.trim_end())),
        (Some(task), None) => Some(task.to_owned()),
        (None, input) => input.map(|input| input.trim_end().to_owned()),
    }
}
