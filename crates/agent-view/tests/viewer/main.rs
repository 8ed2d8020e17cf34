//! The page in a real browser: headless Chromium, driven through ChromeDriver.
//!
//! Without both programs, the tests print that they are skipped. `cargo xtask browser` installs them on Debian.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

mod browser;
mod compare;
mod hostile;
mod large;
mod page;
mod pictures;
mod scene;
mod text;
