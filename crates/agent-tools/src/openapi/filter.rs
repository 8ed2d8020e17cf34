//! Selects operations by id, tag, path or method.

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
    /// Selects the operations with one of these ids.
    ByOperationId(Vec<String>),
    /// Selects the operations with at least one of these tags.
    ByTag(Vec<String>),
    /// Selects the operations whose path begins with this text.
    ByPathPrefix(String),
    /// Selects the operations with one of these methods, in upper or lower case.
    ByMethod(Vec<String>),
    /// Selects the operations that all of these filters select.
    AllOf(Vec<OperationFilter>),
}

impl OperationFilter {
    /// Selects the operations with one of these ids.
    #[must_use]
    pub fn by_operation_id(ids: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::ByOperationId(ids.into_iter().map(Into::into).collect())
    }

    /// Selects the operations with at least one of these tags.
    #[must_use]
    pub fn by_tag(tags: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::ByTag(tags.into_iter().map(Into::into).collect())
    }

    /// Selects the operations whose path begins with this text.
    #[must_use]
    pub fn by_path_prefix(prefix: impl Into<String>) -> Self {
        Self::ByPathPrefix(prefix.into())
    }

    /// Selects the operations with one of these methods, in upper or lower case.
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

    /// Returns the ids that the filter names.
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
