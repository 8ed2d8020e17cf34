//! The blocks of a reply where the vendor names none: text and thinking come in turns, and each turn is a block.

use agent_core::{EventSink, StreamEvent};

/// The block that is open, and the number of the next one.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    open: Option<Open>,
    pub(crate) next: u32,
}

#[derive(Debug, Clone, Copy)]
enum Open {
    Text(u32),
    Thinking(u32),
}

impl Blocks {
    /// Text, in a block of its own where another kind is open.
    pub(crate) fn say(&mut self, text: &str, sink: &mut EventSink<'_>) {
        if text.is_empty() {
            return;
        }
        let index = match self.open {
            Some(Open::Text(index)) => index,
            _ => {
                let index = self.start(sink);
                self.open = Some(Open::Text(index));
                sink(StreamEvent::TextStart { index });
                index
            }
        };
        sink(StreamEvent::TextDelta { index, delta: text });
    }

    /// Thinking, likewise. Its block begins with this signature, where there is one.
    pub(crate) fn think(&mut self, text: &str, signature: &str, sink: &mut EventSink<'_>) {
        if text.is_empty() {
            return;
        }
        let index = match self.open {
            Some(Open::Thinking(index)) => index,
            _ => {
                let index = self.start(sink);
                self.open = Some(Open::Thinking(index));
                sink(StreamEvent::ThinkingStart { index });
                if !signature.is_empty() {
                    sink(StreamEvent::ThinkingSignature { index, delta: signature });
                }
                index
            }
        };
        sink(StreamEvent::ThinkingDelta { index, delta: text });
    }

    /// A signature over the text that was said last, which ends its block. Where no text is open it stands alone, over
    /// a text of nothing: it goes back at the same place.
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

    /// Likewise a signature over thinking.
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

    /// Ends the open block and numbers the next one.
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
