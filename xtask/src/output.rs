//! Printing that a closed pipe does not turn into a panic: `cargo xtask requirements --list | head` is fine.

use std::fmt;
use std::io::Write as _;

/// Writes to standard output. A reader that has gone away is no error of this program's.
pub(crate) fn write(text: fmt::Arguments<'_>, end: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_fmt(text).and_then(|()| out.write_all(end.as_bytes())).and_then(|()| out.flush());
}

/// `println!` for this program.
macro_rules! say {
    ($($part:tt)*) => { $crate::output::write(format_args!($($part)*), "\n") };
}

/// `print!` for this program.
macro_rules! say_as_is {
    ($($part:tt)*) => { $crate::output::write(format_args!($($part)*), "") };
}
