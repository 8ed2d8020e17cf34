//! The vendor's own forms of calls that the agent executes: commands of a shell, patches, and actions on a computer.
//!
//! Such a call becomes a call of the local tool, with the arguments of this library's `bash` or `apply_patch`, or with the
//! vendor's actions. Its mark has the vendor's members, so that the model that made the call receives it as it came. Any
//! other model of this API receives it in the same form, made from the arguments, if the request declares the tool and the
//! form can express them. Actions on a computer have this form only for the model that made them, because the API requires
//! its id.

mod computer;
mod output;
mod patch;
mod piece;
mod shell;

#[cfg(test)]
mod tests;

use agent_core::model::ServerTool;
use agent_core::{ModelConfig, ModelRequest, ToolCall, ToolResultMessage, UserMessage};
use serde_json::{Map, Value};

pub(super) use computer::{Images, is_preview};
pub(super) use piece::LocalCall;

use super::marks;
use crate::json::Members;

/// A kind of call that has a form of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LocalForm {
    /// Commands of a shell.
    Shell,
    /// A change of one file.
    Patch,
    /// Actions on a computer.
    Computer,
}

/// The kinds that a request declares.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LocalForms {
    shell: bool,
    patch: bool,
    computer: bool,
}

/// A call in the vendor's form: its kind and its effect.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LocalItem {
    form: LocalForm,
    content: Value,
}

impl LocalForm {
    const ALL: [Self; 3] = [Self::Shell, Self::Patch, Self::Computer];

    /// Returns the kind with this type of item.
    pub(super) fn of_type(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.kind() == kind)
    }

    /// Returns the kind of the calls of a vendor's tool.
    pub(super) fn of_tool(tool: &ServerTool) -> Option<Self> {
        match tool {
            ServerTool::Bash => Some(Self::Shell),
            ServerTool::ApplyPatch => Some(Self::Patch),
            ServerTool::ComputerUse(_) => Some(Self::Computer),
            _ => None,
        }
    }

    /// Returns the type of the item.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Shell => "shell_call",
            Self::Patch => "apply_patch_call",
            Self::Computer => "computer_call",
        }
    }

    /// Returns the type of the vendor's tool for a model, which is also the choice of the tool.
    pub(super) fn tool_type(self, model: &ModelConfig) -> &'static str {
        match self {
            Self::Shell => "shell",
            Self::Patch => "apply_patch",
            Self::Computer if is_preview(model) => "computer_use_preview",
            Self::Computer => "computer",
        }
    }

    /// Returns the name of the tool that executes the calls.
    pub(super) fn tool_name(self) -> &'static str {
        match self {
            Self::Shell => "bash",
            Self::Patch => "apply_patch",
            Self::Computer => "computer",
        }
    }

    /// Returns the beginning of the ids that the API accepts. A computer call always has the id with which it came.
    fn id_prefix(self) -> &'static str {
        match self {
            Self::Shell => "sh_",
            Self::Patch => "apc_",
            Self::Computer => "",
        }
    }

    /// Returns the member that describes the effect of the call.
    fn member(self) -> &'static str {
        match self {
            Self::Shell | Self::Computer => "action",
            Self::Patch => "operation",
        }
    }

    /// Returns the arguments of the local tool as JSON. What they cannot express becomes the vendor's own object, which the
    /// tool rejects.
    pub(super) fn arguments(self, item: &Map<String, Value>) -> String {
        let content = item.get(self.member()).unwrap_or(&Value::Null);
        let arguments = match self {
            Self::Shell => shell::arguments(content),
            Self::Patch => patch::arguments(content),
            Self::Computer => Some(computer::arguments(item)),
        };
        arguments.unwrap_or_else(|| Value::Object(only(self.member(), content)).to_string())
    }

    /// Returns the effect of the call from the arguments of the local tool; `None` if the form cannot express it.
    fn content(self, arguments: &Value) -> Option<Value> {
        match self {
            Self::Shell => shell::action(arguments),
            Self::Patch => patch::operation(arguments),
            Self::Computer => computer::members(arguments),
        }
    }

    /// Leaves the members of an item that go back, except the content if it can be made from the arguments again.
    pub(super) fn retain_members(self, item: &mut Map<String, Value>) {
        if self == Self::Computer {
            item.retain(|key, _| matches!(key.as_str(), "type" | "id"));
            return;
        }
        let made = serde_json::from_str(&self.arguments(item)).ok().and_then(|args| self.content(&args));
        let is_known = item.get(self.member()) == made.as_ref();
        item.retain(|key, _| {
            matches!(key.as_str(), "type" | "id" | "caller" | "environment")
                || (key == self.member() && !is_known)
        });
    }
}

impl LocalForms {
    /// Returns the kinds that a request declares.
    pub(super) fn of(request: &ModelRequest) -> Self {
        let mut forms = Self::default();
        for form in request.options.server_tools.iter().filter_map(LocalForm::of_tool) {
            match form {
                LocalForm::Shell => forms.shell = true,
                LocalForm::Patch => forms.patch = true,
                LocalForm::Computer => forms.computer = true,
            }
        }
        forms
    }

    fn has(self, form: LocalForm) -> bool {
        match form {
            LocalForm::Shell => self.shell,
            LocalForm::Patch => self.patch,
            LocalForm::Computer => self.computer,
        }
    }

    /// Returns the parts of the key of an encoded form that depend on these kinds.
    pub(super) fn keys(self) -> [&'static str; 3] {
        LocalForm::ALL.map(|form| if self.has(form) { form.tool_name() } else { "" })
    }

    /// Returns whether the vendor's definition replaces that of the tool with this name.
    pub(super) fn replaces(self, name: &str) -> bool {
        LocalForm::ALL.into_iter().any(|form| self.has(form) && form.tool_name() == name)
    }

    /// Returns the kind of an item that the agent executes; `None` for any other item, and for commands that the vendor
    /// executes in a container.
    pub(super) fn of_item(self, item: &Map<String, Value>) -> Option<LocalForm> {
        let form = LocalForm::of_type(item.get("type")?.as_str()?).filter(|form| self.has(*form))?;
        let place = item.get("environment").and_then(|environment| environment.get("type"));
        place.is_none_or(|place| place == "local").then_some(form)
    }

    /// Returns a call in the vendor's form; `None` if it is sent as the call of a function. `mark` is that of the call, if
    /// the model of the request made it. If `named`, the call is sent with its id.
    pub(super) fn of_call(
        self,
        mark: &Map<String, Value>,
        call: &ToolCall,
        named: bool,
    ) -> Option<LocalItem> {
        let marked = mark.get("type").and_then(Value::as_str).and_then(LocalForm::of_type);
        let declared = || {
            let named = |form: &LocalForm| self.has(*form) && form.tool_name() == call.name.as_str();
            LocalForm::ALL.into_iter().find(named)
        };
        // A call of a function that this model made has the id of a function, and the reasoning before it belongs to that id.
        let form = marked.or_else(|| declared().filter(|_| mark.is_empty()))?;
        // The API requires the id of such a call.
        let has_id = marks::id(mark, form.id_prefix()).is_some_and(|id| named && !id.is_empty());
        if form == LocalForm::Computer && !has_id {
            return None;
        }
        let stored = mark.get(form.member()).filter(|_| marked.is_some()).cloned();
        let content = stored.or_else(|| form.content(call.arguments.value().ok()?))?;
        Some(LocalItem { form, content })
    }
}

impl LocalItem {
    /// Writes the call. If `named`, it has the id and the other members of the mark.
    pub(super) fn write_call(
        &self,
        out: &mut Vec<u8>,
        mark: &Map<String, Value>,
        call_id: &str,
        named: bool,
    ) {
        let mut item = Members::open(out);
        item.field("type", self.form.kind());
        if let Some(id) = marks::id(mark, self.form.id_prefix()).filter(|_| named) {
            item.field("id", id);
        }
        item.field("call_id", call_id).field("status", "completed");
        match self.form {
            LocalForm::Computer => computer::write_members(&mut item, &self.content),
            form => _ = item.field(form.member(), &self.content),
        }
        let others = mark.iter().filter(|(key, _)| matches!(key.as_str(), "caller" | "environment"));
        for (key, value) in others.filter(|_| named) {
            item.named(key, value);
        }
        item.close();
    }

    /// Writes the output of the call.
    pub(super) fn write_output(
        &self,
        out: &mut Vec<u8>,
        caller: Option<&Value>,
        call_id: &str,
        result: &ToolResultMessage,
        images: Images,
    ) {
        let text = output::text(&result.content);
        let mut item = Members::open(out);
        match self.form {
            LocalForm::Shell => {
                item.field("type", "shell_call_output").field("call_id", call_id);
                if let Some(max) = self.content.get("max_output_length").filter(|max| max.is_u64()) {
                    item.field("max_output_length", max);
                }
                item.field("output", &[output::of_shell(&text, result)]);
            }
            LocalForm::Patch => {
                let status = if result.is_error { "failed" } else { "completed" };
                item.field("type", "apply_patch_call_output").field("call_id", call_id);
                item.field("status", status).field("output", &text);
            }
            LocalForm::Computer => {
                computer::write_output(&mut item, &self.content, call_id, result, images);
            }
        }
        if let Some(caller) = caller {
            item.field("caller", caller);
        }
        item.close();
    }

    /// Returns the message behind the outputs with what the output of the call cannot contain.
    pub(super) fn beside_output(
        &self,
        call_id: &str,
        result: &ToolResultMessage,
        images: Images,
    ) -> Option<UserMessage> {
        (self.form == LocalForm::Computer).then(|| computer::beside(call_id, result, images)).flatten()
    }
}

/// Returns an object with one member.
fn only(name: &str, value: &Value) -> Map<String, Value> {
    [(name.to_owned(), value.clone())].into_iter().collect()
}

/// Returns a text as the inside of a JSON string.
fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().to_owned()
}
