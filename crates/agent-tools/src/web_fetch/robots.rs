//! Reads `robots.txt` by the rules of RFC 9309.

/// The name by which `robots.txt` files address this tool.
pub(super) const PRODUCT: &str = "looptree-web-fetch";

/// The maximum number of bytes of the file that are used: 500 KiB, as the RFC requires.
pub(super) const MAX_ROBOTS_BYTES: usize = 500 * 1024;

/// The rules of a server for this tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Robots {
    rules: Vec<Rule>,
    denies_all: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    allows: bool,
    pattern: String,
}

impl Robots {
    /// Returns the rules of a server whose file could not be read, for example because it is down.
    pub(super) fn unreachable() -> Self {
        Self { rules: Vec::new(), denies_all: true }
    }

    /// Reads the groups for this tool, otherwise those for all.
    pub(super) fn parse(text: &str) -> Self {
        let (mut own, mut others): (Option<Vec<Rule>>, Vec<Rule>) = (None, Vec::new());
        // Whether the current group is for this tool, and whether it is for all.
        let (mut is_own, mut is_any, mut in_rules) = (false, false, false);
        for line in text.trim_start_matches('\u{feff}').split(['\r', '\n']) {
            let line = line.split('#').next().unwrap_or_default();
            let Some((key, value)) = line.split_once(':') else { continue };
            let (key, value) = (key.trim(), value.trim());
            if key.eq_ignore_ascii_case("user-agent") {
                if in_rules {
                    (is_own, is_any, in_rules) = (false, false, false);
                }
                is_any |= value == "*";
                if value.eq_ignore_ascii_case(PRODUCT) {
                    is_own = true;
                    own.get_or_insert_default();
                }
                continue;
            }
            let allows = key.eq_ignore_ascii_case("allow");
            if !allows && !key.eq_ignore_ascii_case("disallow") {
                continue;
            }
            in_rules = true;
            // An empty rule is none.
            let rule = || Rule { allows, pattern: plain(value) };
            if is_own && !value.is_empty() {
                own.get_or_insert_default().push(rule());
            }
            if is_any && !value.is_empty() {
                others.push(rule());
            }
        }
        Self { rules: own.unwrap_or(others), denies_all: false }
    }

    /// Returns whether a path with its query may be fetched: the longest rule that matches decides, and permission wins.
    pub(super) fn permits(&self, path: &str) -> bool {
        let path = plain(path);
        let matching = self.rules.iter().filter(|rule| matches(&rule.pattern, &path));
        let longest = matching.max_by_key(|rule| (rule.pattern.len(), rule.allows));
        !self.denies_all && longest.is_none_or(|rule| rule.allows)
    }
}

/// Returns a path in the form in which paths are compared: characters outside of ASCII are escaped, and letters, digits and
/// `-._~` are not.
fn plain(path: &str) -> String {
    let bytes = path.as_bytes();
    let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let mut text = String::with_capacity(path.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let escaped = digit(at + 1).zip(digit(at + 2)).filter(|_| *byte == b'%');
        let (meant, length) = escaped.map_or((u32::from(*byte), 1), |(high, low)| (high * 16 + low, 3));
        let c = char::from_u32(meant).unwrap_or_default();
        let is_plain = c.is_ascii_alphanumeric() || "-._~".contains(c);
        if is_plain || (escaped.is_none() && c.is_ascii()) {
            text.push(c);
        } else {
            text.push_str(&format!("%{meant:02X}"));
        }
        at += length;
    }
    text
}

/// Returns whether a path begins with a pattern, in which `*` stands for any characters and `$` for the end.
fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, to_end) = match pattern.strip_suffix('$') {
        Some(pattern) => (pattern, true),
        None => (pattern, false),
    };
    let mut parts = pattern.split('*');
    let Some(mut rest) = path.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let last = if to_end { parts.pop() } else { None };
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    match last {
        Some(last) => rest.ends_with(last),
        None => !to_end || rest.is_empty(),
    }
}
