//! The manual pages, which clap_mangen makes from the command line.

use std::io::Write as _;
use std::path::Path;

use clap::CommandFactory as _;
use clap_mangen::Man;

use crate::args::{Cli, Color};
use crate::exit::Exit;
use crate::screen::{Screen, Stream};

/// Prints the manual page of the command, or writes the pages of all commands to a directory.
pub(crate) fn run(folder: Option<&Path>) -> Exit {
    let Some(folder) = folder else {
        let mut page = Vec::new();
        let printed =
            Man::new(Cli::command()).render(&mut page).and_then(|()| std::io::stdout().write_all(&page));
        return if printed.is_ok() { Exit::Done } else { Exit::Unread };
    };
    let written =
        std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(Cli::command(), folder));
    match written {
        Ok(()) => Exit::Done,
        Err(error) => {
            let text = format!("error: cannot write the manual pages to {}: {error}", folder.display());
            Screen::new(Stream::Err, Color::Never).error_line(text);
            Exit::Failed
        }
    }
}
