//! A position in the arguments. It is formatted only if an error reports it.

use std::fmt;

use super::{MAX_VALUE_SHOWN, shown};

/// The position of a value in the arguments.
#[derive(Clone, Copy)]
pub(super) enum Path<'p> {
    Root,
    Member(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl Path<'_> {
    /// Returns the path as errors show it.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Root => String::from("(root)"),
            Self::Member(..) | Self::Item(..) => shown(&self.to_string(), MAX_VALUE_SHOWN),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Member(Self::Root, name) => f.write_str(name),
            Self::Member(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, at) => write!(f, "{parent}[{at}]"),
        }
    }
}
