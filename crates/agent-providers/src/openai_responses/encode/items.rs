//! Encodes one unit of the history as items of the input, separated by commas. The bytes depend only on the unit and
//! its cache key.
//!
//! A reply of the same model is sent back item by item, with ids and in order. The API rejects a reasoning item without
//! the item after it, and an item with an id without the reasoning before it, so related items are sent or omitted
//! together; see [`Plan`].

use std::borrow::Cow;

use agent_core::{
    AgentMessage, AssistantMessage, Citation, Content, DocumentContent, Encoded, FileSource, ImageContent,
    Message, ModelRequest, OpaqueContent, TOOL_SEARCH, ThinkingContent, ToolCall, ToolName,
    ToolResultMessage, ToolSearchForm, Unit, UserMessage, WireKey,
};
use serde_json::{Map, Value};

use crate::handoff::{self, Handoff, IdRule, ImageOut, ThinkingOut, wire_key};
use crate::json::{Members, write};
use crate::openai_responses::config::is_vendor;
use crate::openai_responses::encode::deferred;
use crate::openai_responses::local_tools::{Images, LocalForms, LocalItem};
use crate::openai_responses::marks::{self, TakesWords};
use crate::openai_responses::search;

/// Call ids: `[A-Za-z0-9_-]`, at most 64 characters.
const IDS: IdRule = IdRule::word(64);

/// Items that require an answer of the client that this library cannot give. Without an answer the API rejects them.
const UNANSWERED: &[&str] = &[
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "computer_call",
    "tool_search_call",
    "mcp_approval_request",
];

pub(super) struct Writer<'r> {
    rules: Handoff<'r>,
    takes_words: TakesWords,
    /// Whether texts are written as parts, which can end with a breakpoint of the cache.
    marked: bool,
    /// Whether searches for tools have the vendor's form.
    search: ToolSearchForm,
    /// The kinds of calls that are written in a form of their own.
    local: LocalForms,
    /// Whether the model sees screenshots.
    images: Images,
    /// Whether the output of a deferred call comes in a later item, instead of a preliminary output.
    defers: bool,
}

/// The items of a unit, and the position of a possible breakpoint in each message and result.
struct Items {
    out: Vec<u8>,
    marks: Vec<u32>,
}

impl Items {
    /// Records that the last item ends with a list of parts and these bytes.
    fn mark(&mut self, behind: usize) {
        let at = self.out.len().saturating_sub(behind);
        self.marks.push(u32::try_from(at).unwrap_or(Encoded::NO_MARK));
    }
}

/// A part of a message or a result.
enum Part<'m> {
    Text(Cow<'m, str>),
    Image(&'m ImageContent),
    Document(&'m DocumentContent),
}

/// An item of a reply.
enum Step<'m> {
    /// Reasoning of the same model; nothing when it cannot go back.
    Reasoning(Option<Map<String, Value>>),
    Text {
        text: Cow<'m, str>,
        mark: Map<String, Value>,
        citations: &'m [Citation],
    },
    Call(&'m ToolCall),
    Opaque(&'m OpaqueContent),
}

/// How the items of a reply are sent back.
struct Plan {
    /// Which are sent.
    sent: Vec<bool>,
    /// Whether the ids of calls and messages are sent. They are not if reasoning before them is omitted.
    named: bool,
}

impl<'r> Writer<'r> {
    /// Creates a writer. If `marked`, a breakpoint of the cache can end each text and result of the user.
    pub(super) fn new(request: &'r ModelRequest, marked: bool) -> Self {
        let takes_words = if is_vendor(&request.model) { TakesWords::No } else { TakesWords::Yes };
        let defers = deferred::is_native(request);
        let search = request.tools.search();
        let local = LocalForms::of(request);
        let images = if request.model.images { Images::Shown } else { Images::Hidden };
        Self { rules: Handoff::new(request, IDS), takes_words, marked, search, local, images, defers }
    }

    /// Returns whether the form of a unit can depend on the units before it.
    pub(super) fn defers(&self) -> bool {
        self.defers
    }

    /// The key of everything that the bytes of a unit depend on.
    pub(super) fn key(&self, request: &ModelRequest) -> WireKey {
        let words = if self.takes_words == TakesWords::Yes { "words" } else { "encrypted" };
        let marked = if self.marked { "marked" } else { "" };
        let search = if self.search == ToolSearchForm::FromResults { "search" } else { "" };
        let defers = if self.defers { "async" } else { "" };
        let [shell, patch, computer] = self.local.keys();
        wire_key(request, &["responses", words, marked, search, defers, shell, patch, computer])
    }

    pub(super) fn unit(&self, unit: &Unit) -> Encoded {
        let mut items = Items { out: Vec::new(), marks: Vec::new() };
        match unit.first().and_then(AgentMessage::as_llm) {
            Some(Message::User(message)) => self.user(&mut items, message),
            Some(Message::Assistant(reply)) => {
                let named = self.reply(&mut items.out, reply);
                if self.marked {
                    items.marks.push(Encoded::NO_MARK);
                }
                let (waiting, ended): (Vec<_>, Vec<_>) = unit
                    .results()
                    .map(|result| (result, self.mark_of(reply, result)))
                    .partition(|(result, mark)| self.waits(result, mark));
                let mut beside = Vec::new();
                for (result, mark) in ended {
                    match self.local_item(reply, result, &mark, named) {
                        Some(item) => {
                            let caller = mark.get("caller").filter(|_| named);
                            let id = self.rules.call_id(reply, &result.tool_call_id);
                            item.write_output(next(&mut items.out), caller, &id, result, self.images);
                            beside.extend(item.beside_output(&id, result, self.images));
                        }
                        None => self.result(&mut items, reply, result, &mark, named),
                    }
                }
                beside.extend(waiting.into_iter().map(|(result, _)| deferred::preliminary(result)));
                for message in &beside {
                    self.user(&mut items, message);
                }
            }
            _ => {}
        }
        Encoded::new(items.out, items.marks)
    }

    /// Returns the mark of the call that a result belongs to.
    pub(super) fn mark_of(&self, reply: &AssistantMessage, result: &ToolResultMessage) -> Map<String, Value> {
        let call = reply.tool_calls().find(|call| call.id == result.tool_call_id);
        let signature = call.and_then(|call| call.signature.as_deref());
        self.rules.signature(reply, signature).map(marks::read).unwrap_or_default()
    }

    /// Returns the call that a result belongs to, if it is sent in a form of its own.
    fn local_item(
        &self,
        reply: &AssistantMessage,
        result: &ToolResultMessage,
        mark: &Map<String, Value>,
        named: bool,
    ) -> Option<LocalItem> {
        let call = reply.tool_calls().find(|call| call.id == result.tool_call_id)?;
        self.local.of_call(mark, call, named)
    }

    /// Returns whether the output of a call comes in a later item.
    pub(super) fn waits(&self, result: &ToolResultMessage, mark: &Map<String, Value>) -> bool {
        self.defers && result.deferred.is_some() && marks::is_async(mark)
    }

    /// Returns whether the items of a reply are sent with their ids.
    pub(super) fn is_named(&self, reply: &AssistantMessage) -> bool {
        Plan::of(&self.steps(reply)).named
    }

    /// Encodes the output of a deferred call.
    pub(super) fn output(
        &self,
        reply: &AssistantMessage,
        result: &ToolResultMessage,
        mark: &Map<String, Value>,
        named: bool,
    ) -> Encoded {
        let mut items = Items { out: Vec::new(), marks: Vec::new() };
        self.result(&mut items, reply, result, mark, named);
        Encoded::new(items.out, items.marks)
    }

    fn part<'m>(&self, content: &'m Content) -> Option<Part<'m>> {
        match content {
            Content::Text(block) => handoff::text(block).map(|text| Part::Text(Cow::Borrowed(text))),
            Content::Image(image) => Some(match self.rules.image(image) {
                ImageOut::Keep => Part::Image(image),
                ImageOut::Text(instead) => Part::Text(instead),
            }),
            Content::Document(document) if takes(&document.source) => Some(Part::Document(document)),
            other => handoff::file_text(other).map(Part::Text),
        }
    }

    fn user(&self, items: &mut Items, message: &UserMessage) {
        let parts: Vec<Part<'_>> = message.content.iter().filter_map(|c| self.part(c)).collect();
        if parts.is_empty() {
            return;
        }
        let mut item = Members::open(next(&mut items.out));
        item.field("role", "user");
        match &*parts {
            [Part::Text(text)] if !self.marked => {
                item.field("content", &**text);
            }
            _ => write_parts(item.key("content"), &parts),
        }
        item.close();
        if self.marked {
            items.mark("}]}".len());
        }
    }

    /// Writes a reply. Returns whether its items have ids.
    fn reply(&self, out: &mut Vec<u8>, reply: &AssistantMessage) -> bool {
        let mut steps = self.steps(reply);
        if self.takes_words == TakesWords::Yes {
            gather_calls(&mut steps);
        }
        let plan = Plan::of(&steps);
        let mut shown =
            steps.iter().zip(&plan.sent).filter(|(_, sent)| **sent).map(|(step, _)| step).peekable();
        while let Some(step) = shown.next() {
            match step {
                Step::Reasoning(item) => write(next(out), item),
                Step::Opaque(block) => write(next(out), &block.data),
                Step::Call(call) => self.call(out, reply, call, plan.named),
                Step::Text { text, mark, citations } => {
                    match marks::id(mark, "msg_").filter(|_| plan.named) {
                        Some(id) => {
                            let mut texts = vec![(&**text, *citations)];
                            let same = |step: &&Step<'_>| matches!(step, Step::Text { mark, .. } if marks::id(mark, "msg_") == Some(id));
                            while let Some(Step::Text { text, citations, .. }) = shown.next_if(same) {
                                texts.push((text, citations));
                            }
                            write_message(next(out), id, mark, &texts);
                        }
                        None => {
                            let mut item = Members::open(next(out));
                            item.field("role", "assistant");
                            write_phase(&mut item, mark);
                            item.field("content", &**text);
                            item.close();
                        }
                    }
                }
            }
        }
        plan.named
    }

    /// Writes a reply, which may be empty; `None` if the server has items of it that are left out, except reasoning.
    #[cfg(feature = "openai-responses-ws")]
    pub(super) fn whole_reply(&self, reply: &AssistantMessage) -> Option<Vec<u8>> {
        let steps = self.steps(reply);
        let plan = Plan::of(&steps);
        let lost = |(step, sent): (&Step<'_>, &bool)| !sent && !matches!(step, Step::Reasoning(Some(_)));
        if steps.iter().zip(&plan.sent).any(lost) {
            return None;
        }
        let mut out = Vec::new();
        self.reply(&mut out, reply);
        (!out.is_empty() || reply.content.is_empty()).then_some(out)
    }

    fn steps<'m>(&self, reply: &'m AssistantMessage) -> Vec<Step<'m>> {
        let mut steps = Vec::new();
        let mut blocks = reply.content.iter().peekable();
        while let Some(block) = blocks.next() {
            match block {
                Content::Text(block) => {
                    if let Some(text) = handoff::text(block) {
                        let mark = self.rules.signature(reply, block.signature.as_deref()).map(marks::read);
                        let (mark, citations) = (mark.unwrap_or_default(), &*block.citations);
                        steps.push(Step::Text { text: text.into(), mark, citations });
                    }
                }
                Content::ToolCall(call) => steps.push(Step::Call(call)),
                Content::Opaque(block) => {
                    let Some(data) = self.rules.opaque(reply, block) else { continue };
                    if block.kind == marks::REASONING {
                        steps.push(self.reasoning(reply, data.as_object(), None, &mut blocks));
                    } else {
                        steps.push(Step::Opaque(block));
                    }
                }
                Content::Thinking(block) if self.rules.same_model(reply) => {
                    steps.push(self.reasoning(reply, None, Some(block), &mut blocks));
                }
                Content::Thinking(block) => {
                    if let ThinkingOut::AsText(text) = self.rules.thinking(reply, block) {
                        steps.push(Step::Text { text: text.into(), mark: Map::new(), citations: &[] });
                    }
                }
                _ => {}
            }
        }
        steps
    }

    /// Takes the thinking blocks that belong to a reasoning item: all up to the one that is signed.
    fn reasoning<'m>(
        &self,
        reply: &AssistantMessage,
        kept: Option<&Map<String, Value>>,
        first: Option<&'m ThinkingContent>,
        blocks: &mut std::iter::Peekable<std::slice::Iter<'m, Content>>,
    ) -> Step<'m> {
        let signed = |block: &ThinkingContent| block.signature.as_ref().is_some_and(|s| !s.is_empty());
        let mut taken: Vec<&ThinkingContent> = first.into_iter().collect();
        while !taken.last().is_some_and(|last| signed(last))
            && let Some(Content::Thinking(block)) = blocks.next_if(|b| matches!(b, Content::Thinking(_)))
        {
            taken.push(block);
        }
        taken.retain(|block| self.rules.thinking(reply, block) == ThinkingOut::Keep);
        let item = marks::reasoning(kept, &taken);
        Step::Reasoning(item.filter(|item| marks::is_whole(item, self.takes_words)))
    }

    /// Returns whether a call of this tool is a search in the vendor's form.
    fn is_search(&self, name: &ToolName) -> bool {
        self.search == ToolSearchForm::FromResults && name.as_str() == TOOL_SEARCH
    }

    fn call(&self, out: &mut Vec<u8>, reply: &AssistantMessage, call: &ToolCall, named: bool) {
        let mark =
            self.rules.signature(reply, call.signature.as_deref()).map(marks::read).unwrap_or_default();
        if self.is_search(&call.name) {
            let id = marks::id(&mark, "tsc_").filter(|_| named);
            let arguments = call.arguments.object_text();
            search::write_call(next(out), id, &self.rules.call_id(reply, &call.id), arguments);
            return;
        }
        if let Some(item) = self.local.of_call(&mark, call, named) {
            item.write_call(next(out), &mark, &self.rules.call_id(reply, &call.id), named);
            return;
        }
        let mut item = Members::open(next(out));
        if is_custom(&mark) {
            item.field("type", "custom_tool_call");
            write_id(&mut item, &mark, "ctc_", named);
            item.field("call_id", &*self.rules.call_id(reply, &call.id));
            item.field("name", &handoff::tool_name(call.name.as_str())).field("input", call.arguments.text());
        } else {
            item.field("type", "function_call");
            write_id(&mut item, &mark, "fc_", named);
            item.field("call_id", &*self.rules.call_id(reply, &call.id));
            item.field("name", &handoff::tool_name(call.name.as_str()));
            // The result of a call whose arguments are not an object is an error that quotes them.
            let arguments = call.arguments.object_text();
            item.field("arguments", arguments);
        }
        for (key, value) in
            mark.iter().filter(|(key, _)| named && !matches!(key.as_str(), "id" | "type" | "async"))
        {
            item.named(key, value);
        }
        // Without it the API expects the output in the same request.
        if self.defers && marks::is_async(&mark) {
            item.field("async", &true);
        }
        item.close();
    }

    fn result(
        &self,
        items: &mut Items,
        reply: &AssistantMessage,
        result: &ToolResultMessage,
        mark: &Map<String, Value>,
        named: bool,
    ) {
        let id = self.rules.call_id(reply, &result.tool_call_id);
        if self.is_search(&result.tool_name) {
            search::write_output(next(&mut items.out), &id, result);
            return;
        }
        let mut parts: Vec<Part<'_>> = result.content.iter().filter_map(|c| self.part(c)).collect();
        let note = self.rules.result_note(&result.content);
        if let Some(note) = note {
            parts.insert(0, Part::Text(Cow::Borrowed(note)));
        }
        let custom = is_custom(mark);
        let mut item = Members::open(next(&mut items.out));
        item.field("type", if custom { "custom_tool_call_output" } else { "function_call_output" });
        item.field("call_id", &*id);
        let texts: Option<Vec<&str>> = parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => Some(&**text),
                Part::Image(_) | Part::Document(_) => None,
            })
            .collect();
        match texts {
            Some(texts) if !self.marked || texts.is_empty() => {
                item.field("output", &texts.join("\n"));
            }
            _ => write_parts(item.key("output"), &parts),
        }
        let caller = mark.get("caller").filter(|_| named);
        if let Some(caller) = caller {
            item.field("caller", caller);
        }
        item.close();
        if self.marked && caller.is_none() && !parts.is_empty() {
            items.mark("}]}".len());
        }
    }
}

impl Plan {
    fn of(steps: &[Step<'_>]) -> Self {
        let whole = steps.iter().all(|step| !matches!(step, Step::Reasoning(None)));
        let plan = Self::choose(steps, whole);
        // Reasoning at the end is left out because nothing follows; nothing that follows needs it.
        let end = plan.sent.iter().rposition(|sent| *sent).unwrap_or_default();
        let lost =
            steps.iter().zip(&plan.sent).take(end).any(|(s, sent)| !sent && matches!(s, Step::Reasoning(_)));
        if whole && lost { Self::choose(steps, false) } else { plan }
    }

    fn choose(steps: &[Step<'_>], named: bool) -> Self {
        let mut followed = false;
        let mut sent: Vec<bool> = Vec::with_capacity(steps.len());
        for step in steps.iter().rev() {
            followed = match step {
                Step::Reasoning(item) => item.is_some() && followed,
                Step::Opaque(block) => named && is_answered(block, steps),
                Step::Text { .. } | Step::Call(_) => true,
            };
            sent.push(followed);
        }
        sent.reverse();
        Self { sent, named }
    }
}

/// Moves the calls of a reply next to each other: DeepSeek treats a text between two calls as the end of the first one,
/// and misses its output.
fn gather_calls(steps: &mut [Step<'_>]) {
    let call = |step: &Step<'_>| matches!(step, Step::Call(_));
    let first = steps.iter().position(call).unwrap_or(steps.len());
    let rest = steps.get_mut(first..).unwrap_or_default();
    if rest.iter().all(|step| matches!(step, Step::Call(_) | Step::Text { .. })) {
        rest.sort_by_key(call);
    }
}

/// Returns whether an item needs no answer, or the reply contains its answer.
fn is_answered(block: &OpaqueContent, steps: &[Step<'_>]) -> bool {
    if !UNANSWERED.contains(&block.kind.as_str()) {
        return true;
    }
    let id = |block: &OpaqueContent| block.data.get("call_id").cloned().filter(|id| !id.is_null());
    let output = |kind: &str| kind.ends_with("_output");
    let answers = |step: &Step<'_>| match step {
        Step::Opaque(other) => output(&other.kind) && id(other) == id(block),
        _ => false,
    };
    // The server answers some of its own calls without naming them.
    let by_server = block.data.get("execution").is_some_and(|e| e == "server");
    by_server || (id(block).is_some() && steps.iter().any(answers))
}

fn is_custom(mark: &Map<String, Value>) -> bool {
    mark.get("type").is_some_and(|kind| kind == "custom_tool_call")
}

/// Writes the separator and returns the buffer for the next item.
fn next(out: &mut Vec<u8>) -> &mut Vec<u8> {
    if !out.is_empty() {
        out.push(b',');
    }
    out
}

fn write_id(item: &mut Members<'_>, mark: &Map<String, Value>, prefix: &str, named: bool) {
    if let Some(id) = marks::id(mark, prefix).filter(|_| named) {
        item.field("id", id);
    }
}

fn write_phase(item: &mut Members<'_>, mark: &Map<String, Value>) {
    if let Some(phase) = mark.get("phase") {
        item.field("phase", phase);
    }
}

fn write_message(out: &mut Vec<u8>, id: &str, mark: &Map<String, Value>, texts: &[(&str, &[Citation])]) {
    let mut item = Members::open(out);
    item.field("type", "message").field("id", id).field("status", "completed").field("role", "assistant");
    write_phase(&mut item, mark);
    let list = item.key("content");
    list.push(b'[');
    for (n, (text, citations)) in texts.iter().enumerate() {
        if n > 0 {
            list.push(b',');
        }
        let known: Vec<_> = citations.iter().map(|c| &c.data).filter(|data| data.is_object()).collect();
        let mut part = Members::open(list);
        part.field("type", "output_text").field("annotations", &known).field("text", *text);
        part.close();
    }
    list.push(b']');
    item.close();
}

/// Returns whether the API takes a document. A text is sent as text.
fn takes(source: &FileSource) -> bool {
    matches!(source, FileSource::Base64 { .. } | FileSource::Url { .. } | FileSource::Uploaded { .. })
        && handoff::fits(source)
}

fn write_document(object: &mut Members<'_>, document: &DocumentContent) {
    object.field("type", "input_file");
    match &document.source {
        FileSource::Base64 { data, mime_type } => {
            let title = document.title.as_deref().unwrap_or("document");
            object.field("filename", title).field("file_data", &handoff::data_url(mime_type, data));
        }
        FileSource::Url { url, .. } => {
            object.field("file_url", url);
        }
        FileSource::Uploaded { file_id } => {
            object.field("file_id", file_id);
        }
        _ => {}
    }
}

fn write_parts(out: &mut Vec<u8>, parts: &[Part<'_>]) {
    out.push(b'[');
    for (n, part) in parts.iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        let mut object = Members::open(out);
        match part {
            Part::Text(text) => {
                object.field("type", "input_text").field("text", &**text);
            }
            Part::Image(image) => {
                object.field("type", "input_image").field("detail", "auto");
                object.field("image_url", &*handoff::image_address(image));
            }
            Part::Document(document) => write_document(&mut object, document),
        }
        object.close();
    }
    out.push(b']');
}
