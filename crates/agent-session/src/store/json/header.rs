//! The members of a session's file that a list or a search needs. The rest of the file is skipped.

use agent_core::{AgentId, CostConfig, GroupMember, LoopId, SessionId, Timestamp, Usage};
use serde::Deserialize;

use super::super::query::{self, TextHit};
use super::super::summary::{self, SessionSummary};
use crate::model::{HeadMark, LoopStatus, ParallelGroupRecord, SpawnRef, head_of};

/// The members of a session that are read.
#[derive(Deserialize)]
pub(super) struct SessionHeader {
    pub(super) version: u64,
    pub(super) session_id: SessionId,
    agent_id: AgentId,
    created_at: Timestamp,
    last_active_at: Timestamp,
    #[serde(default)]
    parent_spawn_ref: Option<SpawnRef>,
    #[serde(default)]
    loops: Vec<LightLoop>,
}

#[derive(Deserialize)]
struct LightLoop {
    loop_id: LoopId,
    session_id: SessionId,
    status: LoopStatus,
    #[serde(default)]
    group: Option<GroupMember>,
    #[serde(default)]
    parallel_group: Option<ParallelGroupRecord>,
    #[serde(default)]
    config: LightConfig,
    #[serde(default)]
    messages: Vec<LightMessage>,
    #[serde(default)]
    other_messages: Vec<LightMessage>,
    #[serde(default)]
    usage: Usage,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct LightConfig {
    model: String,
    prices: Option<CostConfig>,
}

#[derive(Deserialize)]
pub(super) struct LightMessage {
    role: String,
    #[serde(default)]
    content: Vec<LightContent>,
    #[serde(default)]
    model: String,
    #[serde(default)]
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct LightContent {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: Option<serde_json::Value>,
}

impl LightMessage {
    pub(super) fn text(&self) -> String {
        let texts = self.content.iter().filter(|c| c.kind == "text");
        texts.filter_map(|c| c.text.as_ref()?.as_str()).collect()
    }

    fn cost(&self, config: &LightConfig) -> u64 {
        match (&self.usage, &config.prices) {
            (Some(usage), Some(prices)) if self.role == "assistant" && self.model == config.model => {
                usage.cost(prices).total
            }
            _ => 0,
        }
    }
}

impl SessionHeader {
    pub(super) fn summary(&self) -> SessionSummary {
        let mut summary = SessionSummary {
            session_id: self.session_id.clone(),
            agent_id: self.agent_id.clone(),
            created_at: self.created_at,
            last_active_at: self.last_active_at,
            title: None,
            status: summary::status_of(self.loops.iter().map(|r| r.status), self.head_status()),
            loops: self.loops.len() as u64,
            messages: 0,
            models: std::collections::BTreeSet::new(),
            usage: Usage::default(),
            cost_micros: 0,
            parent_session_id: self.parent_spawn_ref.as_ref().map(|r| r.parent_session_id.clone()),
        };
        for record in &self.loops {
            summary.usage = summary.usage.combine(&record.usage);
            summary.add_model(&record.config.model);
            summary.messages += record.messages.len() as u64;
            for message in record.messages.iter().chain(&record.other_messages) {
                let cost = message.cost(&record.config);
                summary.cost_micros = summary.cost_micros.saturating_add(cost);
            }
            if summary.title.is_none() {
                let mut said = record.messages.iter().filter(|m| m.role == "user");
                summary.title = said.find_map(|m| summary::title_of(&m.text()));
            }
        }
        summary
    }

    fn head_status(&self) -> Option<LoopStatus> {
        let head = head_of(&self.loops.iter().map(|r| HeadMark {
            group: r.group.as_ref(),
            of_branch: r.parallel_group.as_ref(),
            is_copy: r.session_id != self.session_id,
        }));
        self.loops.get(head?).map(|r| r.status)
    }

    /// Returns the places of these words, the first few.
    pub(super) fn hits(&self, asked: &[String]) -> Vec<TextHit> {
        let texts = self.loops.iter().flat_map(|record| {
            let texts = record.messages.iter().map(LightMessage::text).enumerate();
            texts.map(|(place, text)| (&record.loop_id, place, text))
        });
        query::hits(texts, asked)
    }
}
