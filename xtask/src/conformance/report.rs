//! What came out of it, for people and as JSON.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use super::compare::Difference;

/// All protocols of a run.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) protocols: Vec<ProtocolReport>,
}

/// One protocol.
#[derive(Debug)]
pub(super) struct ProtocolReport {
    pub(super) name: String,
    passed: usize,
    failures: Vec<Failure>,
    /// The cases that could not be run since this build has no provider for them. They count as failed.
    pub(super) without_provider: usize,
    /// The cases whose vendor contradicts itself, and how.
    contradictions: Vec<(String, String)>,
    /// In how many cases each rule changed what was expected.
    fired: BTreeMap<&'static str, usize>,
}

/// A case that failed: in which delivery, and how.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) case: String,
    pub(super) delivery: &'static str,
    pub(super) difference: Difference,
}

impl ProtocolReport {
    pub(super) fn new(name: &str) -> Self {
        let name = name.to_owned();
        Self {
            name,
            passed: 0,
            failures: Vec::new(),
            without_provider: 0,
            contradictions: Vec::new(),
            fired: BTreeMap::new(),
        }
    }

    /// Adds a case.
    pub(super) fn add(&mut self, failure: Option<Failure>, fired: &[&'static str]) {
        for rule in fired {
            *self.fired.entry(rule).or_default() += 1;
        }
        match failure {
            Some(failure) => self.failures.push(failure),
            None => self.passed += 1,
        }
    }

    /// Adds a case whose vendor contradicts itself.
    pub(super) fn contradicts(&mut self, case: &str, how: String) {
        self.contradictions.push((case.to_owned(), how));
    }

    fn failed(&self) -> usize {
        self.failures.len() + self.without_provider
    }
}

impl Report {
    /// Whether every case passed.
    pub(super) fn passed(&self) -> bool {
        self.protocols.iter().all(|p| p.failed() == 0)
    }

    /// The same for programs.
    pub(super) fn to_json(&self) -> Value {
        let protocols: Vec<Value> = self
            .protocols
            .iter()
            .map(|p| {
                let failures: Vec<Value> = p
                    .failures
                    .iter()
                    .map(|f| {
                        json!({
                            "case": f.case,
                            "delivery": f.delivery,
                            "field": f.difference.field,
                            "expected": f.difference.wanted,
                            "found": f.difference.found,
                        })
                    })
                    .collect();
                json!({
                    "protocol": p.name,
                    "passed": p.passed,
                    "failed": p.failed(),
                    "without_provider": p.without_provider,
                    "failures": failures,
                    "contradictions": p.contradictions,
                    "rules": p.fired,
                })
            })
            .collect();
        json!({ "passed": self.passed(), "protocols": protocols })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<20} {:>7} {:>7}", "protocol", "passed", "failed")?;
        for protocol in &self.protocols {
            writeln!(f, "{:<20} {:>7} {:>7}", protocol.name, protocol.passed, protocol.failed())?;
        }
        for protocol in &self.protocols {
            if protocol.without_provider > 0 {
                writeln!(f, "\n{}: no provider is built in for it", protocol.name)?;
            }
            for failure in &protocol.failures {
                writeln!(f, "\n{}/{} ({})", protocol.name, failure.case, failure.delivery)?;
                writeln!(f, "  {}", failure.difference.field)?;
                writeln!(f, "    expected {}", failure.difference.wanted)?;
                writeln!(f, "    found    {}", failure.difference.found)?;
            }
        }
        for protocol in &self.protocols {
            for (case, how) in &protocol.contradictions {
                writeln!(f, "\n{}/{case} (usage): {how}", protocol.name)?;
            }
        }
        let mut rules: BTreeMap<&str, usize> = BTreeMap::new();
        for (rule, count) in self.protocols.iter().flat_map(|p| &p.fired) {
            *rules.entry(rule).or_default() += count;
        }
        if !rules.is_empty() {
            writeln!(f, "\n{:<58} {:>7}", "rule", "cases")?;
        }
        for (rule, count) in rules {
            writeln!(f, "{rule:<58} {count:>7}")?;
        }
        Ok(())
    }
}
