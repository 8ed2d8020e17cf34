//! The summary of a session in its journal, so that a list does not read the records.
//!
//! The third line of a journal has a fixed length and is written again after each record. It has the number of that record,
//! the size of the file after it, and the summary of the session. A reader uses the summary only if both agree with the
//! file, and loads the session otherwise: nothing else depends on this line.

use std::sync::Arc;

use agent_core::AgentId;
use serde::Deserialize;

use super::super::lines;
use super::super::summary::{SessionSummary, Waits};
use super::acknowledged::append_number;

/// The length of the line with its line feed.
pub(crate) const SUMMARY: usize = 1920;

/// The content of the line. The summary has no parent, which is that of the session's file or of the journal's first line.
#[derive(Debug, Deserialize)]
pub(in crate::store) struct JournalSummary {
    /// The number of the last record.
    pub(in crate::store) n: u64,
    /// The size of the file after this record.
    pub(in crate::store) bytes: u64,
    pub(in crate::store) summary: SessionSummary,
    /// What waits in the session; `None` if it was too long for the line, or is not known.
    #[serde(default)]
    pub(in crate::store) waits: Option<Waits>,
}

impl JournalSummary {
    /// Reads the line without its line feed; `None` if it is damaged, or was too long to be written.
    pub(in crate::store) fn read(line: &[u8]) -> Option<Self> {
        lines::parse(line.trim_ascii_end()).ok()
    }
}

/// Writes the line. What rarely changes is encoded once.
#[derive(Debug, Default)]
pub(in crate::store) struct SummaryLine {
    /// The members that rarely change, and what they were encoded from.
    fixed: Vec<u8>,
    agent: Option<AgentId>,
    has_title: bool,
    models: usize,
    /// What waits in the session as JSON, and what it was encoded from.
    waits: (Option<Arc<Waits>>, Vec<u8>),
    /// The length of the longest line so far. A shorter one covers it.
    longest: usize,
}

impl SummaryLine {
    /// Appends the line without its end, which is spaces. A line that would be too long is empty.
    ///
    /// # Errors
    /// When the summary cannot be written as JSON.
    pub(in crate::store) fn append_to(
        &mut self,
        out: &mut Vec<u8>,
        n: u64,
        bytes: u64,
        (summary, waits): (&SessionSummary, Option<&Arc<Waits>>),
    ) -> Result<(), serde_json::Error> {
        self.encode_fixed(summary)?;
        self.encode_waits(waits)?;
        let from = out.len();
        self.seal(out, n, bytes, summary, &self.waits.1)?;
        if out.len() - from >= SUMMARY && !self.waits.1.is_empty() {
            out.truncate(from);
            self.seal(out, n, bytes, summary, &[])?;
        }
        if out.len() - from >= SUMMARY {
            out.truncate(from);
        }
        self.longest = self.longest.max(out.len() - from);
        out.resize(from + self.longest, b' ');
        Ok(())
    }

    fn seal(
        &self,
        out: &mut Vec<u8>,
        n: u64,
        bytes: u64,
        summary: &SessionSummary,
        waits: &[u8],
    ) -> Result<(), serde_json::Error> {
        lines::seal(out, |out| {
            out.extend_from_slice(b"{\"n\":");
            append_number(out, n);
            let mut member = |name: &[u8], value| {
                out.extend_from_slice(name);
                append_number(out, value);
            };
            member(b",\"bytes\":", bytes);
            member(b",\"summary\":{\"created_at\":", summary.created_at.0);
            member(b",\"last_active_at\":", summary.last_active_at.0);
            member(b",\"loops\":", summary.loops);
            member(b",\"messages\":", summary.messages);
            member(b",\"cost_micros\":", summary.cost_micros);
            let usage = &summary.usage;
            member(b",\"usage\":{\"input\":", usage.input);
            member(b",\"output\":", usage.output);
            for (name, tokens) in [
                (&b",\"reasoning\":"[..], usage.reasoning),
                (b",\"cache_read\":", usage.cache_read),
                (b",\"cache_write\":", usage.cache_write),
                (b",\"cache_write_long\":", usage.cache_write_long),
                (b",\"total_tokens\":", usage.total_tokens),
                (b",\"server_tool_calls\":", u64::from(usage.server_tool_calls)),
                (b",\"web_searches\":", u64::from(usage.web_searches)),
            ] {
                if tokens > 0 {
                    member(name, tokens);
                }
            }
            out.extend_from_slice(b"},\"status\":");
            serde_json::to_writer(&mut *out, &summary.status)?;
            out.extend_from_slice(&self.fixed);
            out.push(b'}');
            out.extend_from_slice(waits);
            out.push(b'}');
            Ok::<(), serde_json::Error>(())
        })
    }

    fn encode_waits(&mut self, waits: Option<&Arc<Waits>>) -> Result<(), serde_json::Error> {
        let (of, encoded) = &mut self.waits;
        let is_same = match (&*of, waits) {
            (None, None) => true,
            (Some(of), Some(waits)) => Arc::ptr_eq(of, waits),
            _ => false,
        };
        if is_same {
            return Ok(());
        }
        encoded.clear();
        if let Some(waits) = waits {
            encoded.extend_from_slice(b",\"waits\":");
            serde_json::to_writer(encoded, waits)?;
        }
        *of = waits.cloned();
        Ok(())
    }

    fn encode_fixed(&mut self, summary: &SessionSummary) -> Result<(), serde_json::Error> {
        let SessionSummary { session_id, agent_id, title, models, .. } = summary;
        // A title does not change, and models are only added.
        let is_same = self.agent.as_ref() == Some(agent_id)
            && self.has_title == title.is_some()
            && self.models == models.len();
        if is_same {
            return Ok(());
        }
        self.fixed.clear();
        for (name, value) in [
            ("session_id", serde_json::to_value(session_id)?),
            ("agent_id", serde_json::to_value(agent_id)?),
            ("title", serde_json::to_value(title)?),
            ("models", serde_json::to_value(models)?),
        ] {
            self.fixed.extend_from_slice(format!(",\"{name}\":{value}").as_bytes());
        }
        self.agent = Some(agent_id.clone());
        self.has_title = title.is_some();
        self.models = models.len();
        Ok(())
    }
}
