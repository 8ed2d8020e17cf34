//! The table: server, route, check, result and duration.

use std::fmt;
use std::time::{Duration, Instant};

/// A check that has not ended by then never will.
const PATIENCE: Duration = Duration::from_secs(120);

/// One line.
#[derive(Debug)]
struct Row {
    server: &'static str,
    route: String,
    check: &'static str,
    time: Duration,
    /// What was seen, or the first difference.
    result: Result<String, String>,
}

/// Everything that was found out.
#[derive(Debug, Default)]
pub(super) struct Report {
    rows: Vec<Row>,
    skipped: Vec<String>,
}

impl Report {
    /// Runs one check and takes its result in: what it saw, in a few words.
    pub(super) async fn check(
        &mut self,
        server: &'static str,
        route: &str,
        check: &'static str,
        work: impl Future<Output = anyhow::Result<String>>,
    ) {
        let start = Instant::now();
        let result = match tokio::time::timeout(PATIENCE, work).await {
            Ok(result) => result.map_err(|error| format!("{error:#}")),
            Err(_) => Err(format!("no end within {} s", PATIENCE.as_secs())),
        };
        self.rows.push(Row { server, route: route.to_owned(), check, time: start.elapsed(), result });
    }

    /// Notes that a server cannot be had here.
    pub(super) fn skip(&mut self, server: &str, why: &str) {
        self.skipped.push(format!("skipped: {server}: {why}"));
    }

    /// Notes that a server did not start.
    pub(super) fn fail(&mut self, server: &'static str, why: &anyhow::Error) {
        let result = Err(format!("{why:#}"));
        self.rows.push(Row { server, route: String::new(), check: "start", time: Duration::ZERO, result });
    }

    /// Whether nothing that was run has failed.
    pub(super) fn passed(&self) -> bool {
        self.rows.iter().all(|row| row.result.is_ok())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.skipped {
            writeln!(f, "{line}")?;
        }
        let width = |of: fn(&Row) -> &str| self.rows.iter().map(|r| of(r).chars().count()).max().unwrap_or(0);
        let (servers, routes, checks) = (width(|r| r.server), width(|r| &r.route), width(|r| r.check));
        for Row { server, route, check, time, result } in &self.rows {
            let (word, said) = match result {
                Ok(seen) => ("passed", seen.as_str()),
                Err(_) => ("FAILED", "see below"),
            };
            let time = time.as_secs_f64();
            writeln!(
                f,
                "{server:<servers$}  {route:<routes$}  {check:<checks$}  {word}  {time:>6.2} s  {said}"
            )?;
        }
        let failed: Vec<_> = self.rows.iter().filter_map(|r| Some((r, r.result.as_ref().err()?))).collect();
        for (row, why) in &failed {
            writeln!(f, "\n{} {}: {}: {why}", row.server, row.route, row.check)?;
        }
        if !self.rows.is_empty() {
            writeln!(f, "\n{} checks, {} failed", self.rows.len(), failed.len())?;
        }
        Ok(())
    }
}
