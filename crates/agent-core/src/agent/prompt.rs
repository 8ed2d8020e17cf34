//! What may be given as a prompt.

use crate::message::{AgentMessage, Content, ImageContent, Message};

/// What may be given as a prompt: a text, a message, a list of messages, a text with pictures.
pub trait IntoPrompt {
    /// The messages, in order.
    fn into_prompt(self) -> Vec<AgentMessage>;
}

/// No message.
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

/// One message: the text first, then the pictures (B-082).
impl<T: Into<String>> IntoPrompt for (T, Vec<ImageContent>) {
    fn into_prompt(self) -> Vec<AgentMessage> {
        let (text, images) = self;
        let blocks = std::iter::once(Content::text(text)).chain(images.into_iter().map(Content::Image));
        vec![Message::user_content(blocks.collect()).into()]
    }
}
