//! Sessions on a real Restate server, which each test starts for itself.

#[cfg(test)]
mod sessions;
#[cfg(test)]
mod server;
#[cfg(test)]
mod worker;
