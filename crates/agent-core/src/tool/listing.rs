//! The list of tools of a request when tools are deferred.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::search::SearchTool;
use super::{DeferTools, ToolDefinition, ToolDefinitions, ToolLoading, ToolSearchForm};

/// The number of lists that are cached. Loops that share tools and have found different ones encode theirs again.
const MAX_CACHED: usize = 8;

/// How a conversation shows that a model knows a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FoundBy {
    /// The agent's search returned it.
    Agent,
    /// The vendor's search returned it.
    Vendor,
    /// The model called it.
    Call,
}

/// A tool that a conversation shows, and how it did so first.
pub(crate) type FoundTool = (String, FoundBy);

/// The definitions of tools of which some are deferred.
#[derive(Debug)]
pub(super) struct Listing {
    always: Vec<ToolDefinition>,
    deferred: Vec<ToolDefinition>,
    /// The positions in `deferred`.
    by_name: BTreeMap<String, usize>,
    /// The estimated tokens of the deferred definitions.
    tokens: u64,
    cached: Mutex<Vec<Cached>>,
}

/// A list that was made before, so that its encoded form is used again.
#[derive(Debug)]
struct Cached {
    search: ToolSearchForm,
    loaded: Vec<usize>,
    definitions: ToolDefinitions,
}

impl Listing {
    pub(super) fn new(always: Vec<ToolDefinition>, deferred: Vec<ToolDefinition>) -> Self {
        let by_name = deferred.iter().enumerate().map(|(at, tool)| (tool.name.clone(), at)).collect();
        let tokens = deferred.iter().map(ToolDefinition::tokens).sum();
        Self { always, deferred, by_name, tokens, cached: Mutex::default() }
    }

    /// Returns whether the policy defers tools.
    pub(super) fn applies(&self, policy: DeferTools) -> bool {
        match policy {
            DeferTools::Marked => true,
            DeferTools::Above { tokens } => self.tokens > tokens,
            DeferTools::Never => false,
        }
    }

    /// Returns the definitions for a request: the tools that are always loaded, the search, the found tools in the order in
    /// which they were found, and for a vendor that searches all others. A longer conversation only appends.
    pub(super) fn definitions(
        &self,
        search: ToolSearchForm,
        found: &[FoundTool],
        forced: Option<&str>,
    ) -> ToolDefinitions {
        let is_listed = |by: FoundBy| match search {
            ToolSearchForm::Listed => true,
            // The conversation contains the definition.
            ToolSearchForm::FromResults => by != FoundBy::Agent,
            ToolSearchForm::Vendor => by != FoundBy::Vendor,
        };
        let names = found.iter().filter(|(_, by)| is_listed(*by)).map(|(name, _)| name.as_str());
        let mut loaded: Vec<usize> = Vec::new();
        for at in names.chain(forced).filter_map(|name| self.by_name.get(name)) {
            if !loaded.contains(at) {
                loaded.push(*at);
            }
        }
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = cached.iter().find(|known| known.search == search && known.loaded == loaded) {
            return known.definitions.clone();
        }
        let definitions = self.list(search, &loaded);
        if cached.len() >= MAX_CACHED {
            cached.remove(0);
        }
        cached.push(Cached { search, loaded, definitions: definitions.clone() });
        definitions
    }

    fn list(&self, search: ToolSearchForm, loaded: &[usize]) -> ToolDefinitions {
        let listed = loaded.iter().filter_map(|at| self.deferred.get(*at)).cloned();
        let mut all: Vec<ToolDefinition> = self.always.clone();
        all.push(SearchTool::definition());
        all.extend(listed);
        if search == ToolSearchForm::Vendor {
            let rest = self.deferred.iter().enumerate().filter(|(at, _)| !loaded.contains(at));
            all.extend(
                rest.map(|(_, tool)| ToolDefinition { loading: ToolLoading::Deferred, ..tool.clone() }),
            );
        }
        ToolDefinitions::from(all).with_search(search)
    }
}
