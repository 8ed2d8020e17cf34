//! Reads the usual chunks without the general JSON reader, which takes five times as long over them.
//!
//! Usual is: one choice, members that are texts, whole numbers, words or the few objects that are named here. Anything
//! else (several choices, errors, wrong types, repeated members, lists of parts) is not read here at all but by
//! the general reader, so what is read here is read the same as there; a property test compares the two.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use super::wire::{
    Arguments, Body, Call, Choice, Choices, Chunk, CompletionDetails, Delta, Function, PromptDetails, Usage,
};
use crate::json::{Count, Text, unescaped};
use crate::shape::string;

/// What stands before the choices of a chunk. It names the reply, and is the same in each of its chunks.
#[derive(Debug, Default)]
pub(super) struct Opening(Box<str>);

/// The longest opening that is kept, in bytes.
const MAX_OPENING: usize = 1_024;

impl Opening {
    /// What stands behind it in a frame that begins with it.
    pub(super) fn behind<'a>(&self, json: &'a str) -> Option<&'a str> {
        json.strip_prefix(&*self.0).filter(|rest| rest.len() < json.len())
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The chunk, if it is a usual one, and how it opens, where chunks that open so can be read from behind that.
pub(super) fn whole(json: &str) -> Option<(Chunk<'_>, Option<Opening>)> {
    let mut read = Read::default();
    let mut reader = Reader { rest: json };
    reader.object(|reader, key| read.member(reader, key))?;
    let opening = read.choices_at.and_then(|at| {
        // The quote before the key.
        let opening = json.get(..at.checked_sub(json.as_ptr() as usize + 1)?)?;
        (1..MAX_OPENING).contains(&opening.len()).then(|| Opening(Box::from(opening)))
    });
    reader.rest.is_empty().then(|| (read.chunk(), opening))
}

/// The chunk that opens like one before it, from what stands [behind](Opening::behind) that, if it is a usual one. Id and
/// model are left out.
pub(super) fn rest(rest: &str) -> Option<Chunk<'_>> {
    let mut read = Read::default();
    let mut reader = Reader { rest };
    reader.members(|reader, key| read.member(reader, key))?;
    // One that stands behind the choices may be a second one.
    let named = read.id.is_some() || read.model.is_some();
    (reader.rest.is_empty() && !named).then(|| read.chunk())
}

/// What has been read of a chunk.
#[derive(Default)]
struct Read<'a> {
    id: Option<Text<'a>>,
    model: Option<Text<'a>>,
    choices: Option<Choices<'a>>,
    usage: Option<Option<Box<Usage>>>,
    error: Option<()>,
    /// The key of the choices, when nothing else that is read stands before them.
    choices_at: Option<usize>,
}

impl<'a> Read<'a> {
    fn member(&mut self, reader: &mut Reader<'a>, key: &'a str) -> Option<()> {
        match key {
            "id" => once(&mut self.id, reader.text()?),
            "model" => once(&mut self.model, reader.text()?),
            "choices" => {
                if self.usage.is_none() && self.error.is_none() {
                    self.choices_at = Some(key.as_ptr() as usize);
                }
                once(&mut self.choices, reader.choices()?)
            }
            "usage" => once(&mut self.usage, reader.usage()?),
            "error" => once(&mut self.error, reader.eat("null")?),
            _ => reader.skip(),
        }
    }

    fn chunk(self) -> Chunk<'a> {
        Chunk {
            id: self.id.unwrap_or_default(),
            model: self.model.unwrap_or_default(),
            choices: self.choices.unwrap_or_default(),
            usage: self.usage.flatten(),
            error: None,
        }
    }
}

/// Fills a member in; `None` when it was there before.
fn once<T>(slot: &mut Option<T>, value: T) -> Option<()> {
    slot.replace(value).is_none().then_some(())
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn eat(&mut self, word: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(word)?;
        Some(())
    }

    /// A comma or a colon may be followed by a space.
    fn space(&mut self) {
        self.rest = self.rest.strip_prefix(' ').unwrap_or(self.rest);
    }

    fn object(&mut self, member: impl FnMut(&mut Self, &'a str) -> Option<()>) -> Option<()> {
        self.eat("{")?;
        if self.eat("}").is_some() {
            return Some(());
        }
        self.members(member)
    }

    /// The members of an object from one of them on, to its end.
    fn members(&mut self, mut member: impl FnMut(&mut Self, &'a str) -> Option<()>) -> Option<()> {
        loop {
            self.eat("\"")?;
            let (len, false) = string(self.rest)? else { return None };
            let (key, rest) = self.rest.split_at_checked(len)?;
            self.rest = rest.strip_prefix("\":")?;
            self.space();
            member(self, key)?;
            if self.eat("}").is_some() {
                return Some(());
            }
            self.eat(",")?;
            self.space();
        }
    }

    /// A text or null.
    fn text(&mut self) -> Option<Text<'a>> {
        if self.eat("null").is_some() {
            return Some(Text::default());
        }
        let quoted = self.rest;
        self.eat("\"")?;
        let (len, escaped) = string(self.rest)?;
        let (text, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest.strip_prefix('"')?;
        if !escaped {
            return Some(Text(Cow::Borrowed(text)));
        }
        let quoted = quoted.get(..len.saturating_add(2))?;
        unescaped(quoted).map(|text| Text(Cow::Owned(text)))
    }

    fn number(&mut self) -> Option<Count> {
        let len = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.rest.split_at_checked(len)?;
        if len > 1 && digits.starts_with('0') {
            return None;
        }
        self.rest = rest;
        digits.parse().ok().map(Count)
    }

    /// Tokens. Where there is more than numbers to them, the general reader reads them.
    fn usage(&mut self) -> Option<Option<Box<Usage>>> {
        if self.eat("null").is_some() {
            return Some(None);
        }
        let all = self.rest;
        if let Some(usage) = self.plain_usage() {
            return Some(Some(usage));
        }
        let mut values = serde_json::Deserializer::from_str(all).into_iter::<Usage>();
        let usage = values.next()?.ok()?;
        self.rest = all.get(values.byte_offset()..)?;
        Some(Some(Box::new(usage)))
    }

    fn plain_usage(&mut self) -> Option<Box<Usage>> {
        let (mut prompt, mut completion, mut total, mut hit, mut cached) = (None, None, None, None, None);
        let (mut prompt_details, mut completion_details) = (None, None);
        self.object(|reader, key| match key {
            "prompt_tokens" => once(&mut prompt, reader.number()?),
            "completion_tokens" => once(&mut completion, reader.number()?),
            "total_tokens" => once(&mut total, reader.number()?),
            "prompt_tokens_details" => once(&mut prompt_details, reader.prompt_details()?),
            "completion_tokens_details" => once(&mut completion_details, reader.completion_details()?),
            "prompt_cache_hit_tokens" => once(&mut hit, reader.number()?),
            "cached_tokens" => once(&mut cached, reader.number()?),
            _ => reader.skip(),
        })?;
        Some(Box::new(Usage {
            prompt_tokens: prompt.unwrap_or_default(),
            completion_tokens: completion.unwrap_or_default(),
            total_tokens: total.unwrap_or_default(),
            prompt_tokens_details: prompt_details.flatten(),
            completion_tokens_details: completion_details.flatten(),
            prompt_cache_hit_tokens: hit.unwrap_or_default(),
            cached_tokens: cached.unwrap_or_default(),
        }))
    }

    fn prompt_details(&mut self) -> Option<Option<PromptDetails>> {
        if self.eat("null").is_some() {
            return Some(None);
        }
        let (mut cached, mut written) = (None, None);
        self.object(|reader, key| match key {
            "cached_tokens" => once(&mut cached, reader.number()?),
            "cache_write_tokens" => once(&mut written, reader.number()?),
            _ => reader.skip(),
        })?;
        let (cached_tokens, cache_write_tokens) = (cached.unwrap_or_default(), written.unwrap_or_default());
        Some(Some(PromptDetails { cached_tokens, cache_write_tokens }))
    }

    fn completion_details(&mut self) -> Option<Option<CompletionDetails>> {
        if self.eat("null").is_some() {
            return Some(None);
        }
        let mut reasoning = None;
        self.object(|reader, key| match key {
            "reasoning_tokens" => once(&mut reasoning, reader.number()?),
            _ => reader.skip(),
        })?;
        Some(Some(CompletionDetails { reasoning_tokens: reasoning.unwrap_or_default() }))
    }

    /// Any value that is no object and no list.
    fn skip(&mut self) -> Option<()> {
        match self.rest.as_bytes().first()? {
            b'"' => {
                self.text()?;
                Some(())
            }
            b'n' => self.eat("null"),
            b't' => self.eat("true"),
            b'f' => self.eat("false"),
            _ => self.number().map(|_| ()),
        }
    }

    fn choices(&mut self) -> Option<Choices<'a>> {
        self.eat("[")?;
        if self.eat("]").is_some() {
            return Some(Choices { first: None, listed: true });
        }
        let choice = self.choice()?;
        self.eat("]")?;
        Some(Choices { first: (choice.index.0 == 0).then_some(choice), listed: true })
    }

    fn choice(&mut self) -> Option<Choice<'a>> {
        let (mut index, mut delta, mut reason, mut usage, mut message) = (None, None, None, None, None);
        self.object(|reader, key| match key {
            "index" => once(&mut index, reader.number()?),
            "delta" => once(&mut delta, reader.delta()?),
            "finish_reason" => once(&mut reason, reader.text()?),
            "usage" => once(&mut usage, reader.eat("null")?),
            "message" => once(&mut message, reader.eat("null")?),
            _ => reader.skip(),
        })?;
        Some(Choice {
            index: index.unwrap_or_default(),
            delta,
            message: None,
            finish_reason: reason.unwrap_or_default(),
            usage: None,
        })
    }

    fn delta(&mut self) -> Option<Box<Delta<'a>>> {
        let (mut content, mut refusal, mut calls, mut details) = (None, None, None, None);
        let (mut thoughts, mut reasoning, mut thinking) = (None, None, None);
        self.object(|reader, key| match key {
            "content" => once(&mut content, reader.text()?),
            "reasoning_content" => once(&mut thoughts, reader.text()?),
            "reasoning" => once(&mut reasoning, reader.text()?),
            "reasoning_text" => once(&mut thinking, reader.text()?),
            "refusal" => once(&mut refusal, reader.text()?),
            "tool_calls" => once(&mut calls, reader.calls()?),
            "reasoning_details" => once(&mut details, reader.eat("null")?),
            _ => reader.skip(),
        })?;
        Some(Box::new(Delta {
            content: Body::Text(content.unwrap_or_default()),
            reasoning_content: thoughts.unwrap_or_default(),
            reasoning: reasoning.unwrap_or_default(),
            reasoning_text: thinking.unwrap_or_default(),
            reasoning_details: None,
            refusal: refusal.unwrap_or_default(),
            tool_calls: calls.flatten(),
        }))
    }

    fn calls(&mut self) -> Option<Option<Vec<Call<'a>>>> {
        if self.eat("null").is_some() {
            return Some(None);
        }
        self.eat("[")?;
        let mut calls = Vec::new();
        if self.eat("]").is_some() {
            return Some(Some(calls));
        }
        loop {
            calls.push(self.call()?);
            if self.eat("]").is_some() {
                return Some(Some(calls));
            }
            self.eat(",")?;
            self.space();
        }
    }

    fn call(&mut self) -> Option<Call<'a>> {
        let (mut index, mut id, mut function, mut extra) = (None, None, None, None);
        self.object(|reader, key| match key {
            "index" => once(&mut index, reader.number()?),
            "id" => once(&mut id, reader.text()?),
            "function" => once(&mut function, reader.function()?),
            "extra_content" => once(&mut extra, reader.eat("null")?),
            _ => reader.skip(),
        })?;
        Some(Call { index, id: id.unwrap_or_default(), function, extra_content: None })
    }

    fn function(&mut self) -> Option<Function<'a>> {
        let (mut name, mut arguments) = (None, None);
        self.object(|reader, key| match key {
            "name" => once(&mut name, reader.text()?),
            "arguments" => once(&mut arguments, reader.text()?),
            _ => reader.skip(),
        })?;
        let Text(arguments) = arguments.unwrap_or_default();
        Some(Function { name: name.unwrap_or_default(), arguments: Arguments(arguments) })
    }
}
