//! Accounts, money, and the law that nobody overspends.

mod accounts;
mod laws;
mod meter;
mod money;
