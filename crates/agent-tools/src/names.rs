//! Names that every provider takes (D22).

use std::collections::BTreeSet;

/// The longest name that every provider takes.
const MAX_NAME: usize = 64;

/// How long the part is that tells two shortened names apart: a line and eight digits.
const MARK: usize = 9;

/// The name of a tool for a model: `{prefix}__{name}`, of letters, digits, `_` and `-`, at most 64, and none of `taken`.
///
/// The same tool gets the same name each time, as long as the names before it are the same. What does not fit is
/// replaced by `_`; a name that is too long, or that another tool has, ends with eight digits made from the whole.
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
    // Gemini wants a letter or a line first.
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

fn is_valid(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

fn marked(valid: &str, whole: &str, salt: u32) -> String {
    let kept = valid.get(..valid.len().min(MAX_NAME - MARK)).unwrap_or_default();
    format!("{kept}_{:08x}", digest(whole, salt))
}

/// FNV-1a with 32 bits: the same on every machine and in every version, since the names stand in sessions.
fn digest(text: &str, salt: u32) -> u32 {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = text.bytes().fold(0x811C_9DC5, step);
    salt.to_le_bytes().into_iter().fold(hash, step)
}
