//! Conversions into a prompt.

use crate::message::{AgentMessage, Content, ImageContent, Message};

/// A value that can be a prompt: a text, a message, a list of messages, or a text with images.
pub trait IntoPrompt {
    /// Converts the value into the messages of the prompt, in order.
    fn into_prompt(self) -> Vec<AgentMessage>;
}

/// Converts into no message, for runs that continue without a prompt.
impl IntoPrompt for () {
    fn into_prompt(self) -> Vec<AgentMessage> {
        Vec::new()
    }
}

impl IntoPrompt for &str {
    fn into_prompt(self) -> Vec<AgentMessage> {
        vec![AgentMessage::user(self)]
    }
}

impl IntoPrompt for String {
    fn into_prompt(self) -> Vec<AgentMessage> {
        vec![AgentMessage::user(self)]
    }
}

impl IntoPrompt for &String {
    fn into_prompt(self) -> Vec<AgentMessage> {
        vec![AgentMessage::user(self.as_str())]
    }
}

impl IntoPrompt for Message {
    fn into_prompt(self) -> Vec<AgentMessage> {
        vec![self.into()]
    }
}

impl IntoPrompt for AgentMessage {
    fn into_prompt(self) -> Vec<AgentMessage> {
        vec![self]
    }
}

impl IntoPrompt for Vec<AgentMessage> {
    fn into_prompt(self) -> Vec<AgentMessage> {
        self
    }
}

impl IntoPrompt for Vec<Message> {
    fn into_prompt(self) -> Vec<AgentMessage> {
        self.into_iter().map(Into::into).collect()
    }
}

/// Converts into one user message with the text first, followed by the images.
impl<T: Into<String>> IntoPrompt for (T, Vec<ImageContent>) {
    fn into_prompt(self) -> Vec<AgentMessage> {
        let (text, images) = self;
        let blocks = std::iter::once(Content::text(text)).chain(images.into_iter().map(Content::Image));
        vec![Message::user_content(blocks.collect()).into()]
    }
}
