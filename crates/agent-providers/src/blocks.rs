//! Assigns text and thinking to blocks for vendors that do not number them. Each change of kind begins a block.

use agent_core::{Citation, EventSink, StreamEvent};

/// The open block and the index of the next one.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    open: Option<Open>,
    pub(crate) next: u32,
    /// The last block of text.
    last_text: Option<u32>,
    thought: bool,
}

#[derive(Debug, Clone, Copy)]
enum Open {
    Text(u32),
    Thinking(u32),
}

impl Blocks {
    /// Emits text. Begins a block unless one of text is open.
    pub(crate) fn say(&mut self, text: &str, sink: &mut EventSink<'_>) {
        if text.is_empty() {
            return;
        }
        let index = match self.open {
            Some(Open::Text(index)) => index,
            _ => {
                let index = self.start(sink);
                self.open = Some(Open::Text(index));
                self.last_text = Some(index);
                sink(StreamEvent::TextStart { index });
                index
            }
        };
        sink(StreamEvent::TextDelta { index, delta: text });
    }

    /// Returns whether text has been emitted.
    #[cfg_attr(not(feature = "openai-chat"), allow(dead_code, reason = "only some protocols repeat texts"))]
    pub(crate) fn spoke(&self) -> bool {
        self.last_text.is_some()
    }

    /// Emits a source of the last text. Without a text there is nothing that it could be the source of.
    #[cfg_attr(not(feature = "openai-chat"), allow(dead_code, reason = "only some protocols have sources"))]
    pub(crate) fn cite(&self, citation: &Citation, sink: &mut EventSink<'_>) {
        if let Some(index) = self.last_text {
            sink(StreamEvent::Citation { index, citation });
        }
    }

    /// Returns whether thinking has been emitted.
    #[cfg_attr(not(feature = "openai-chat"), allow(dead_code, reason = "only some protocols repeat texts"))]
    pub(crate) fn thought(&self) -> bool {
        self.thought
    }

    /// Emits thinking. Begins a block with `signature` unless one of thinking is open.
    pub(crate) fn think(&mut self, text: &str, signature: &str, sink: &mut EventSink<'_>) {
        if text.is_empty() {
            return;
        }
        let index = match self.open {
            Some(Open::Thinking(index)) => index,
            _ => {
                let index = self.start(sink);
                self.open = Some(Open::Thinking(index));
                self.thought = true;
                sink(StreamEvent::ThinkingStart { index });
                if !signature.is_empty() {
                    sink(StreamEvent::ThinkingSignature { index, delta: signature });
                }
                index
            }
        };
        sink(StreamEvent::ThinkingDelta { index, delta: text });
    }

    /// Emits a signature over the open text block and ends the block. If none is open, the signature gets an empty block, so
    /// that it is sent back at the same position.
    pub(crate) fn sign_text(&mut self, signature: &str, sink: &mut EventSink<'_>) {
        let index = match self.open {
            Some(Open::Text(index)) => index,
            _ => {
                let index = self.start(sink);
                sink(StreamEvent::TextStart { index });
                index
            }
        };
        sink(StreamEvent::TextSignature { index, delta: signature });
        self.open = None;
        sink(StreamEvent::BlockEnd { index });
    }

    /// Emits a signature over the open thinking block and ends the block, as [`sign_text`](Self::sign_text) does.
    pub(crate) fn sign_thinking(&mut self, signature: &str, sink: &mut EventSink<'_>) {
        let index = match self.open {
            Some(Open::Thinking(index)) => index,
            _ => {
                let index = self.start(sink);
                sink(StreamEvent::ThinkingStart { index });
                index
            }
        };
        sink(StreamEvent::ThinkingSignature { index, delta: signature });
        self.open = None;
        sink(StreamEvent::BlockEnd { index });
    }

    /// Returns the index of the next block.
    #[cfg(feature = "google")]
    pub(crate) fn next_index(&self) -> u32 {
        self.next
    }

    /// Ends the open block and returns the index of the next one.
    pub(crate) fn start(&mut self, sink: &mut EventSink<'_>) -> u32 {
        self.close(sink);
        let index = self.next;
        self.next += 1;
        index
    }

    /// Ends the open block.
    pub(crate) fn close(&mut self, sink: &mut EventSink<'_>) {
        if let Some(Open::Text(index) | Open::Thinking(index)) = self.open.take() {
            sink(StreamEvent::BlockEnd { index });
        }
    }
}
