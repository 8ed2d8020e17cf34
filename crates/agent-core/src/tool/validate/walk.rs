//! Walks through a schema and a value in parallel.

use serde_json::{Map, Value};

use super::checks::{broken_bounds, keyword, same, types};
use super::coerce::{Type, coerced, whole};
use super::path::Path;
use super::{ArgumentError, ArgumentErrors, MAX_ARGUMENT_ERRORS, MAX_VALUE_SHOWN, shown};

/// The maximum depth of schema and value. Deeper values are not checked.
const MAX_DEPTH: usize = 64;
/// The maximum number of steps of one check, including copies and comparisons. Later values are not checked. The limit
/// bounds schemas whose alternatives multiply.
const MAX_STEPS: usize = 1_000_000;
/// The maximum number of allowed values that an error lists.
const MAX_ALLOWED_SHOWN: usize = 20;

pub(super) fn validated(schema: &Value, mut value: Value) -> Result<Value, ArgumentErrors> {
    // Nearly all arguments are valid unchanged, and are not copied then.
    let mut first = Walk::new(schema, Mode::Check { fits: true });
    first.check(schema, &mut value, &Path::Root, 0);
    if first.mode == (Mode::Check { fits: true }) {
        return Ok(value);
    }
    corrected(schema, value)
}

/// Corrects the value where possible, and reports all remaining errors.
pub(super) fn corrected(schema: &Value, mut value: Value) -> Result<Value, ArgumentErrors> {
    // Errors show the value that the model sent, so it is copied before the walk corrects it.
    let received = value.clone();
    let mut walk = Walk::new(schema, Mode::Correct);
    walk.check(schema, &mut value, &Path::Root, 0);
    if walk.errors.is_empty() {
        return Ok(value);
    }
    Err(ArgumentErrors::new(walk.errors.into_iter().map(|p| p.error).collect(), &received))
}

struct Walk<'s> {
    root: &'s Value,
    steps: usize,
    errors: Vec<Problem>,
    mode: Mode,
}

/// The purpose of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Checks whether the value matches unchanged. The first correction or error ends the walk.
    Check { fits: bool },
    /// Corrects the value where possible and collects the remaining errors.
    Correct,
}

/// An error, and whether it is a mismatch with a fixed value, which rules out an alternative completely.
#[derive(Clone)]
struct Problem {
    error: ArgumentError,
    fixed_value: bool,
}

impl<'s> Walk<'s> {
    fn new(root: &'s Value, mode: Mode) -> Self {
        Self { root, steps: 0, errors: Vec::new(), mode }
    }

    /// Returns whether the walk corrects values and collects errors. A walk that only checks ends here, because the
    /// value does not match unchanged.
    fn corrects(&mut self) -> bool {
        if let Mode::Check { fits } = &mut self.mode {
            *fits = false;
        }
        self.mode == Mode::Correct
    }

    fn check(&mut self, schema: &'s Value, value: &mut Value, path: &Path<'_>, depth: usize) {
        self.steps += 1;
        if depth > MAX_DEPTH || self.steps > MAX_STEPS || self.errors.len() > MAX_ARGUMENT_ERRORS {
            return;
        }
        if self.mode == (Mode::Check { fits: false }) {
            return;
        }
        let schema = match schema {
            Value::Bool(false) => return self.error(path, "is not allowed here", value),
            Value::Object(schema) => schema,
            _ => return,
        };
        if let Some(target) = keyword(schema, "$ref").and_then(Value::as_str).and_then(|r| self.resolve(r)) {
            self.check(target, value, path, depth + 1);
        }
        if !self.check_type(schema, value, path) {
            return;
        }
        self.check_values(schema, value, path);
        for reason in broken_bounds(schema, value) {
            self.error(path, reason, value);
        }
        self.check_object(schema, value, path, depth);
        self.check_array(schema, value, path, depth);
        self.check_choices(schema, value, path, depth);
    }

    /// Returns the schema that a local reference refers to. A cycle of references ends at [`MAX_DEPTH`].
    fn resolve(&self, reference: &str) -> Option<&'s Value> {
        let pointer = reference.strip_prefix('#')?;
        self.root.pointer(pointer)
    }

    /// Checks the type, after correcting the value if possible. Returns whether it is one of the allowed types.
    fn check_type(&mut self, schema: &Map<String, Value>, value: &mut Value, path: &Path<'_>) -> bool {
        let wanted = types(schema);
        if wanted.contains(&Type::Integer)
            && !wanted.contains(&Type::Number)
            && let Some(whole) = whole(value)
        {
            if !self.corrects() {
                return false;
            }
            *value = whole;
        }
        if wanted.is_empty() || wanted.iter().any(|t| t.holds(value)) {
            return true;
        }
        if !self.corrects() {
            return false;
        }
        if let Some(better) = coerced(value, &wanted)
            && wanted.iter().any(|t| t.holds(&better))
        {
            *value = better;
            return true;
        }
        let listable = !matches!(value, Value::Null | Value::Array(_));
        if wanted.contains(&Type::Array) && listable {
            *value = Value::Array(vec![value.take()]);
            return true;
        }
        let names: Vec<&str> = wanted.iter().map(|t| t.name()).collect();
        self.error(path, format!("must be {}, not {}", names.join(" or "), Type::of(value).name()), value);
        false
    }

    fn check_values(&mut self, schema: &Map<String, Value>, value: &mut Value, path: &Path<'_>) {
        let allowed = match (keyword(schema, "enum"), keyword(schema, "const")) {
            (Some(Value::Array(allowed)), _) => allowed.as_slice(),
            (_, Some(only)) => std::slice::from_ref(only),
            _ => return,
        };
        self.steps = self.steps.saturating_add(allowed.len());
        if allowed.iter().any(|a| same(a, value)) || !self.corrects() || one_of(allowed, value) {
            return;
        }
        let mut list: Vec<String> =
            allowed.iter().take(MAX_ALLOWED_SHOWN).map(|v| shown(&v.to_string(), MAX_VALUE_SHOWN)).collect();
        if allowed.len() > list.len() {
            list.push(format!("and {} more", allowed.len() - list.len()));
        }
        let choice = if allowed.len() == 1 { "must be" } else { "must be one of" };
        self.error(path, format!("{choice} {}", list.join(", ")), value);
        if let Some(problem) = self.errors.last_mut() {
            problem.fixed_value = true;
        }
    }

    fn check_object(
        &mut self,
        schema: &'s Map<String, Value>,
        value: &mut Value,
        path: &Path<'_>,
        depth: usize,
    ) {
        let Value::Object(object) = value else { return };
        let properties = keyword(schema, "properties").and_then(Value::as_object);
        let required: Vec<&str> = keyword(schema, "required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        self.drop_null_optionals(properties, &required, object);
        for name in &required {
            if !object.contains_key(*name) {
                self.error(&Path::Member(path, name), "is required", &Value::Null);
            }
        }
        let additional = keyword(schema, "additionalProperties");
        for (name, value) in object.iter_mut() {
            if let Some(schema) = properties.and_then(|p| p.get(name)) {
                self.check(schema, value, &Path::Member(path, name), depth + 1);
                continue;
            }
            let by_pattern = keyword(schema, "patternProperties").is_some();
            match additional {
                Some(Value::Bool(false)) if !by_pattern => {
                    let reason = match properties.map(|p| p.keys().map(String::as_str).collect::<Vec<_>>()) {
                        Some(known) if !known.is_empty() => {
                            format!("is not known; known are {}", shown(&known.join(", "), MAX_VALUE_SHOWN))
                        }
                        _ => String::from("is not known"),
                    };
                    self.error(&Path::Member(path, name), reason, value);
                }
                Some(schema @ Value::Object(_)) if !by_pattern => {
                    self.check(schema, value, &Path::Member(path, name), depth + 1);
                }
                _ => {}
            }
        }
    }

    /// Removes optional members whose value is null, unless their schema allows null.
    fn drop_null_optionals(
        &mut self,
        properties: Option<&'s Map<String, Value>>,
        required: &[&str],
        object: &mut Map<String, Value>,
    ) {
        let Some(properties) = properties else { return };
        let unwanted: Vec<String> = object
            .iter()
            .filter(|(name, value)| value.is_null() && !required.contains(&name.as_str()))
            .filter(|(name, _)| properties.get(*name).is_some_and(|s| !self.allows_null(s)))
            .map(|(name, _)| name.clone())
            .collect();
        if unwanted.is_empty() || !self.corrects() {
            return;
        }
        for name in unwanted {
            object.shift_remove(&name);
        }
    }

    fn allows_null(&self, schema: &'s Value) -> bool {
        let mut probe = Walk { steps: MAX_STEPS / 2, ..Walk::new(self.root, Mode::Correct) };
        probe.check(schema, &mut Value::Null, &Path::Root, MAX_DEPTH / 2);
        probe.errors.is_empty()
    }

    fn check_array(
        &mut self,
        schema: &'s Map<String, Value>,
        value: &mut Value,
        path: &Path<'_>,
        depth: usize,
    ) {
        let Value::Array(items) = value else { return };
        // In draft 7, `items` can be the list of prefix items, and `additionalItems` applies to the other items.
        let (prefix, rest) = match (keyword(schema, "prefixItems"), keyword(schema, "items")) {
            (Some(Value::Array(prefix)), rest) => (prefix.as_slice(), rest),
            (_, Some(Value::Array(prefix))) => (prefix.as_slice(), keyword(schema, "additionalItems")),
            (_, rest) => (&[][..], rest),
        };
        for (at, item) in items.iter_mut().enumerate() {
            if let Some(schema) = prefix.get(at).or(rest) {
                self.check(schema, item, &Path::Item(path, at), depth + 1);
            }
        }
    }

    fn check_choices(
        &mut self,
        schema: &'s Map<String, Value>,
        value: &mut Value,
        path: &Path<'_>,
        depth: usize,
    ) {
        if let Some(Value::Array(all)) = keyword(schema, "allOf") {
            for part in all {
                self.check(part, value, path, depth + 1);
            }
        }
        if let Some(Value::Array(choices)) = keyword(schema, "anyOf") {
            self.check_choice(choices, Matches::Any, value, path, depth);
        }
        if let Some(Value::Array(choices)) = keyword(schema, "oneOf") {
            self.check_choice(choices, Matches::One, value, path, depth);
        }
    }

    /// Selects the first alternative that matches without corrections, or else the first that matches with them.
    fn check_choice(
        &mut self,
        choices: &'s [Value],
        how: Matches,
        value: &mut Value,
        path: &Path<'_>,
        depth: usize,
    ) {
        // The intended alternative may need corrections.
        if !self.corrects() {
            return;
        }
        let mut exact = 0;
        let mut fixed: Option<Value> = None;
        let mut closest: Option<Vec<Problem>> = None;
        for choice in choices {
            self.steps = self.steps.saturating_add(weight(value));
            if self.steps > MAX_STEPS {
                return;
            }
            let mut attempt = value.clone();
            let mut probe = Walk { steps: self.steps, ..Walk::new(self.root, Mode::Correct) };
            probe.check(choice, &mut attempt, path, depth + 1);
            self.steps = probe.steps;
            if !probe.errors.is_empty() {
                if closest.as_ref().is_none_or(|c| distance(&probe.errors) < distance(c)) {
                    closest = Some(probe.errors);
                }
            } else if attempt == *value {
                exact += 1;
                if how == Matches::Any {
                    return;
                }
            } else if fixed.is_none() {
                fixed = Some(attempt);
            }
        }
        match (exact, fixed, closest) {
            (1, _, _) | (0, None, None) => {}
            (0, Some(better), _) => *value = better,
            // One alternative was clearly intended, so its own errors are the most helpful.
            (0, None, Some(problems))
                if problems.iter().all(|p| !p.fixed_value && p.error.path != path.shown()) =>
            {
                self.errors.extend(problems);
            }
            (0, None, Some(problems)) => {
                let list: Vec<String> = problems.iter().map(|p| p.error.to_string()).collect();
                let list = shown(&list.join("; "), MAX_VALUE_SHOWN);
                self.error(
                    path,
                    format!("fits none of {} alternatives; the closest: {list}", choices.len()),
                    value,
                );
            }
            (n, _, _) => self.error(path, format!("fits {n} alternatives, but must fit exactly one"), value),
        }
    }

    fn error(&mut self, path: &Path<'_>, reason: impl Into<String>, received: &Value) {
        if !self.corrects() {
            return;
        }
        self.steps = self.steps.saturating_add(weight(received));
        let text = received.to_string();
        let received = if text.len() > MAX_VALUE_SHOWN {
            Value::String(shown(&text, MAX_VALUE_SHOWN))
        } else {
            received.clone()
        };
        let error = ArgumentError::new(path.shown(), reason, received);
        self.errors.push(Problem { error, fixed_value: false });
    }
}

/// The number of alternatives that must match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Matches {
    Any,
    One,
}

/// Returns the distance of an alternative. Different fixed values rule it out; otherwise fewer errors are closer.
fn distance(problems: &[Problem]) -> (bool, usize) {
    (problems.iter().any(|p| p.fixed_value), problems.len())
}

/// Returns the cost of copying a value, in steps.
fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(text) => 1 + text.len() / 64,
        Value::Array(items) => items.iter().map(weight).fold(1, usize::saturating_add),
        Value::Object(object) => {
            object.iter().map(|(k, v)| k.len() / 64 + weight(v)).fold(1, usize::saturating_add)
        }
    }
}

/// Replaces the value by the allowed value that differs only in its JSON type, such as 3 for `"3"`. Returns whether
/// there is one.
fn one_of(allowed: &[Value], value: &mut Value) -> bool {
    let meant = allowed.iter().find(|a| match (a, &*value) {
        (Value::Number(_) | Value::Bool(_), Value::String(text)) => spelled(a) == text.trim(),
        (Value::String(a), Value::Number(_) | Value::Bool(_)) => *a == spelled(value),
        _ => false,
    });
    if let Some(meant) = meant {
        *value = meant.clone();
        return true;
    }
    false
}

fn spelled(value: &Value) -> String {
    value.to_string()
}
