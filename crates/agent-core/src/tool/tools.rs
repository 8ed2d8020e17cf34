//! The shared list of tools that one or many runs use.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, LazyLock, OnceLock};

use serde_json::Value;

use super::listing::{FoundTool, Listing};
use super::search::SearchTool;
use super::{
    AgentTool, DeferTools, TOOL_SEARCH, ToolConcurrency, ToolDefinition, ToolDefinitions, ToolError,
    ToolLoading, ToolSearchForm,
};
use crate::identity::ToolName;

/// A shared, immutable list of tools, in the order in which the model receives their definitions.
///
/// A clone shares the list. A program with many agents builds one list and gives each agent a clone, so that the
/// definitions are built and encoded once for all of them.
///
/// ```
/// use agent_core::{Tools, tool_fn};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Zone {
///     name: String,
/// }
///
/// let clock = tool_fn("clock", "Tells the time.", |zone: Zone, _| async move { Ok(format!("noon in {}", zone.name)) });
/// let tools = Tools::default().with(clock);
/// assert_eq!(tools.definitions().definitions()[0].name, "clock");
/// assert_eq!(tools.clone().len(), 1);
/// assert_eq!(tools.duplicate_name(), None);
/// ```
#[derive(Clone)]
pub struct Tools {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    tools: Vec<Arc<dyn AgentTool>>,
    /// Built on first use, because describing a tool can be slow and unused lists need not be described.
    ready: OnceLock<Ready>,
}

struct Ready {
    by_name: BTreeMap<String, Arc<dyn AgentTool>>,
    definitions: ToolDefinitions,
    sequential: BTreeSet<ToolName>,
    duplicate: Option<String>,
    /// The tools that a model searches for; `None` if no tool is deferred.
    deferred: Option<Box<Deferred>>,
}

struct Deferred {
    listing: Listing,
    /// The schema of the search tool.
    schema: Value,
}

impl Tools {
    /// Returns the number of tools.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.tools.len()
    }

    /// Returns whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inner.tools.is_empty()
    }

    /// Returns the tools in the order in which they were added, duplicates included.
    #[must_use]
    pub fn tools(&self) -> &[Arc<dyn AgentTool>] {
        &self.inner.tools
    }

    /// Returns a list with these tools and `tool` at the end. This list does not change.
    #[must_use]
    pub fn with(&self, tool: impl AgentTool + 'static) -> Self {
        self.with_all(Self::from(vec![Arc::new(tool) as Arc<dyn AgentTool>]))
    }

    /// Returns a list with these tools and `tools` at the end. This list does not change.
    ///
    /// If this list is empty, the result shares `tools` with its other holders.
    #[must_use]
    pub fn with_all(&self, tools: Self) -> Self {
        if self.is_empty() {
            return tools;
        }
        self.inner.tools.iter().chain(tools.tools()).cloned().collect()
    }

    /// Returns a name that more than one tool has, or `None` if all names differ.
    ///
    /// An agent refuses to run with such a list, because the model could not tell the tools apart.
    #[must_use]
    pub fn duplicate_name(&self) -> Option<&str> {
        self.ready().duplicate.as_deref()
    }

    /// Returns the definitions of all tools, as the model receives them if no tool is deferred. Of several tools with one name, only the last is included.
    #[must_use]
    pub fn definitions(&self) -> &ToolDefinitions {
        &self.ready().definitions
    }

    /// Returns the definitions of a request if tools are deferred: those that the conversation has loaded. `None` if no tool
    /// is deferred.
    pub(crate) fn listed(
        &self,
        policy: DeferTools,
        request: impl FnOnce() -> (ToolSearchForm, Arc<Vec<FoundTool>>),
        forced: Option<&str>,
    ) -> Option<ToolDefinitions> {
        let listing = &self.ready().deferred.as_ref()?.listing;
        if !listing.applies(policy) {
            return None;
        }
        let (search, found) = request();
        Some(listing.definitions(search, &found, forced))
    }

    /// Returns the tool with this name; the last one, if there are several. A list with deferred tools has the tool
    /// [`TOOL_SEARCH`].
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Arc<dyn AgentTool>> {
        self.ready().by_name.get(name)
    }

    /// Returns the name of the only tool that a model can have meant with another name: with a prefix such as `functions.`, in
    /// other letters, or with other signs between the words. `None` if no tool or more than one fits.
    pub(crate) fn only_match(&self, name: &str) -> Option<&str> {
        let bare = |name: &str| -> String {
            name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
        };
        let last = name.rsplit(['.', ':', '/']).next().unwrap_or_default();
        let matching = |wanted: String| {
            let mut fitting = self.ready().by_name.keys().filter(|known| bare(known) == wanted);
            let first = fitting.next().filter(|_| !wanted.is_empty())?;
            fitting.next().is_none().then_some(first.as_str())
        };
        matching(bare(name)).or_else(|| matching(bare(last)))
    }

    /// Returns the error of a call of a tool that does not exist: the near names, and those that exist.
    pub(crate) fn unknown(&self, name: &str) -> String {
        /// The maximum number of names.
        const MOST: usize = 60;
        let mut text = ToolError::NotFound(name.to_owned()).to_string();
        let mut names: Vec<&str> = self.ready().by_name.keys().map(String::as_str).collect();
        if names.is_empty() {
            text.push_str(". There are no tools; answer without one.");
            return text;
        }
        let words = |name: &str| -> BTreeSet<String> {
            let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| word.len() > 2);
            words.map(str::to_ascii_lowercase).collect()
        };
        let wanted = words(name);
        let near: Vec<&str> =
            names.iter().copied().filter(|known| !wanted.is_disjoint(&words(known))).take(5).collect();
        if !near.is_empty() {
            text.push_str(&format!(". Similar names: {}", near.join(", ")));
        }
        let rest = names.len().saturating_sub(MOST);
        names.truncate(MOST);
        text.push_str(&format!(". The tools are: {}", names.join(", ")));
        text.push_str(&if rest > 0 { format!(", and {rest} more.") } else { ".".to_owned() });
        text
    }

    /// Returns the schema that the model received for the tool with this name.
    pub(crate) fn schema(&self, name: &str) -> Option<&Value> {
        let listed = self.definitions().definitions().iter().find(|d| d.name == name).map(|d| &d.parameters);
        listed.or_else(|| self.ready().deferred.as_ref().filter(|_| name == TOOL_SEARCH).map(|d| &d.schema))
    }

    /// Returns the names of the tools that must not run concurrently with others.
    pub(crate) fn sequential(&self) -> &BTreeSet<ToolName> {
        &self.ready().sequential
    }

    fn ready(&self) -> &Ready {
        self.inner.ready.get_or_init(|| Ready::new(&self.inner.tools))
    }
}

impl Ready {
    fn new(tools: &[Arc<dyn AgentTool>]) -> Self {
        let mut by_name: BTreeMap<_, _> =
            tools.iter().map(|t| (t.name().to_owned(), Arc::clone(t))).collect();
        let mut duplicate = None;
        let mut described = BTreeSet::new();
        let mut definitions: Vec<ToolDefinition> = Vec::with_capacity(tools.len());
        for tool in tools.iter().rev() {
            if !described.insert(tool.name()) {
                duplicate.get_or_insert_with(|| tool.name().to_owned());
            } else {
                let schema = tool.parameters_schema();
                let definition = ToolDefinition::new(tool.name(), tool.description(), schema);
                definitions.push(definition.with_callers(tool.callers()));
            }
        }
        definitions.reverse();
        let sequential = tools.iter().filter(|t| t.concurrency() == ToolConcurrency::Sequential);
        let sequential = sequential.map(|t| t.name().into()).collect();
        let is_deferred =
            |name: &str| by_name.get(name).is_some_and(|t| t.loading() == ToolLoading::Deferred);
        let (marked, always): (Vec<_>, Vec<_>) =
            definitions.iter().cloned().partition(|d| is_deferred(&d.name));
        let deferred = (!marked.is_empty()).then(|| {
            if by_name.contains_key(TOOL_SEARCH) {
                duplicate.get_or_insert_with(|| TOOL_SEARCH.to_owned());
            }
            by_name.insert(TOOL_SEARCH.to_owned(), Arc::new(SearchTool::new(marked.clone())));
            let schema = SearchTool::definition().parameters;
            Box::new(Deferred { listing: Listing::new(always, marked), schema })
        });
        Self { by_name, definitions: definitions.into(), sequential, duplicate, deferred }
    }
}

impl Default for Tools {
    /// Returns the empty list. It is shared by the whole process, so it allocates nothing.
    fn default() -> Self {
        static NONE: LazyLock<Arc<Inner>> = LazyLock::new(Arc::default);
        Self { inner: Arc::clone(&NONE) }
    }
}

impl From<Vec<Arc<dyn AgentTool>>> for Tools {
    fn from(tools: Vec<Arc<dyn AgentTool>>) -> Self {
        Self { inner: Arc::new(Inner { tools, ready: OnceLock::new() }) }
    }
}

impl FromIterator<Arc<dyn AgentTool>> for Tools {
    fn from_iter<I: IntoIterator<Item = Arc<dyn AgentTool>>>(tools: I) -> Self {
        Self::from(tools.into_iter().collect::<Vec<_>>())
    }
}

impl IntoIterator for Tools {
    type Item = Arc<dyn AgentTool>;
    type IntoIter = std::vec::IntoIter<Arc<dyn AgentTool>>;

    fn into_iter(self) -> Self::IntoIter {
        self.inner.tools.clone().into_iter()
    }
}

impl fmt::Debug for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.inner.tools.iter().map(AgentTool::name)).finish()
    }
}
