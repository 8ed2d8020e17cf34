//! Names of tools and arguments that every provider accepts.

use std::collections::BTreeSet;

/// The maximum length of a name that every provider accepts.
const MAX_NAME: usize = 64;

/// The length of the suffix that distinguishes shortened names: an underscore and eight digits.
const MARK: usize = 9;

/// Returns the name of a tool for the model: `{prefix}__{name}`, with at most 64 letters, digits, `_` and `-`, and not in
/// `taken`.
///
/// The name is stable as long as the names before it are. Other characters are replaced by `_`. A name that is too long
/// or already taken ends with eight digits that are derived from the whole name.
///
/// ```
/// use std::collections::BTreeSet;
/// # #[cfg(feature = "mcp")]
/// use agent_tools::mcp::tool_name;
/// # #[cfg(not(feature = "mcp"))]
/// # use agent_tools::openapi::tool_name;
/// let taken = BTreeSet::new();
/// assert_eq!(tool_name(Some("fs"), "read_file", &taken), "fs__read_file");
/// assert_eq!(tool_name(None, "files.read", &taken), "files_read");
/// ```
#[must_use]
pub fn tool_name(prefix: Option<&str>, name: &str, taken: &BTreeSet<String>) -> String {
    let whole = match prefix {
        Some(prefix) if !prefix.is_empty() => format!("{prefix}__{name}"),
        _ => name.to_owned(),
    };
    let valid: String = whole.chars().map(|c| if is_valid(c) { c } else { '_' }).collect();
    // Gemini requires a letter or an underscore first.
    let valid = if valid.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        valid
    } else {
        format!("_{valid}")
    };
    if valid.len() <= MAX_NAME && !taken.contains(&valid) {
        return valid;
    }
    let mut salt = 0_u32;
    loop {
        let marked = marked(&valid, &whole, salt);
        if !taken.contains(&marked) {
            return marked;
        }
        salt = salt.wrapping_add(1);
    }
}

/// The names of one tool's arguments that are already used.
///
/// Anthropic, also on Bedrock and Vertex, rejects a request if the schema of a tool has a property at its top that is
/// not 1 to 64 characters of `A-Z`, `a-z`, `0-9`, `_`, `.` and `-`. Deeper properties are not checked (measured in
/// aws-solutions-library-samples/accelerated-intelligent-document-processing-on-aws#709 on GitHub).
#[derive(Debug, Default)]
pub(crate) struct ArgumentNames {
    taken: BTreeSet<String>,
}

impl ArgumentNames {
    /// Uses exactly this name. Returns `false` if it is already used.
    pub(crate) fn take(&mut self, name: &str) -> bool {
        self.taken.insert(name.to_owned())
    }

    /// Uses this name, with a number if it is already used, and returns it.
    pub(crate) fn first_free(&mut self, name: &str) -> String {
        let mut candidate = name.to_owned();
        let mut n = 2_u32;
        while !self.taken.insert(candidate.clone()) {
            let end = format!("_{n}");
            candidate = format!("{}{end}", crate::text::head(name, MAX_NAME - end.len()));
            n = n.saturating_add(1);
        }
        candidate
    }
}

/// Returns a name for an argument that every provider accepts: at most 64 characters, with `_` for each invalid one.
pub(crate) fn argument_name(name: &str) -> String {
    let valid = |c: char| if is_valid(c) || c == '.' { c } else { '_' };
    let valid: String = name.chars().take(MAX_NAME).map(valid).collect();
    if valid.is_empty() { "_".to_owned() } else { valid }
}

fn is_valid(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

fn marked(valid: &str, whole: &str, salt: u32) -> String {
    let kept = valid.get(..valid.len().min(MAX_NAME - MARK)).unwrap_or_default();
    format!("{kept}_{:08x}", digest(whole, salt))
}

/// FNV-1a with 32 bits. It must be the same on every machine and in every version, because sessions store the names.
fn digest(text: &str, salt: u32) -> u32 {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = text.bytes().fold(0x811C_9DC5, step);
    salt.to_le_bytes().into_iter().fold(hash, step)
}
