//! Which operations become tools.

/// Selects the operations that become tools. An operation without an `operationId` is never selected.
///
/// ```
/// use agent_tools::openapi::OperationFilter;
/// let filter = OperationFilter::AllOf(vec![
///     OperationFilter::by_tag(["pets"]),
///     OperationFilter::by_method(["GET"]),
/// ]);
/// # let _ = filter;
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OperationFilter {
    /// Selects every operation of the description.
    #[default]
    All,
    /// Those with one of these ids.
    ByOperationId(Vec<String>),
    /// Those with at least one of these tags.
    ByTag(Vec<String>),
    /// Those whose path begins with this text.
    ByPathPrefix(String),
    /// Those with one of these methods, in either case.
    ByMethod(Vec<String>),
    /// Those that all of these take.
    AllOf(Vec<OperationFilter>),
}

impl OperationFilter {
    /// Those with one of these ids.
    #[must_use]
    pub fn by_operation_id(ids: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::ByOperationId(ids.into_iter().map(Into::into).collect())
    }

    /// Those with at least one of these tags.
    #[must_use]
    pub fn by_tag(tags: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::ByTag(tags.into_iter().map(Into::into).collect())
    }

    /// Those whose path begins with this text.
    #[must_use]
    pub fn by_path_prefix(prefix: impl Into<String>) -> Self {
        Self::ByPathPrefix(prefix.into())
    }

    /// Those with one of these methods.
    #[must_use]
    pub fn by_method(methods: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::ByMethod(methods.into_iter().map(Into::into).collect())
    }

    pub(super) fn takes(&self, operation: &Candidate<'_>) -> bool {
        match self {
            Self::All => true,
            Self::ByOperationId(ids) => ids.iter().any(|id| id == operation.id),
            Self::ByTag(tags) => operation.tags.iter().any(|tag| tags.iter().any(|wanted| wanted == tag)),
            Self::ByPathPrefix(prefix) => operation.path.starts_with(prefix.as_str()),
            Self::ByMethod(methods) => methods.iter().any(|m| m.eq_ignore_ascii_case(operation.method)),
            Self::AllOf(filters) => filters.iter().all(|filter| filter.takes(operation)),
        }
    }

    /// The ids that it names.
    pub(super) fn ids(&self) -> Vec<&str> {
        match self {
            Self::ByOperationId(ids) => ids.iter().map(String::as_str).collect(),
            Self::AllOf(filters) => filters.iter().flat_map(Self::ids).collect(),
            Self::All | Self::ByTag(_) | Self::ByPathPrefix(_) | Self::ByMethod(_) => Vec::new(),
        }
    }
}

/// The properties of an operation that a filter checks.
pub(super) struct Candidate<'a> {
    pub(super) id: &'a str,
    pub(super) tags: &'a [&'a str],
    pub(super) path: &'a str,
    pub(super) method: &'a str,
}
