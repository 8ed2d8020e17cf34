//! Conversations of any kind, for the laws that both protocols keep.

use agent_core::{
    AgentMessage, AssistantMessage, Content, Entry, History, Message, ToolArguments, ToolResultMessage,
};
use proptest::prelude::*;

fn any_content(
    opaque: impl Strategy<Value = Content> + Clone + 'static,
) -> impl Strategy<Value = Vec<Content>> + Clone {
    let block = prop_oneof![
        ".{0,12}".prop_map(Content::text),
        (".{0,8}", proptest::option::of("[a-z]{0,6}")).prop_map(|(t, s)| Content::thinking(t, s)),
        "[a-z]{1,8}".prop_map(Content::redacted_thinking),
        Just(Content::image("aGk=", "image/png")),
        opaque,
    ];
    proptest::collection::vec(block, 0..5)
}

/// What a conversation goes on with. A reply is the target's own or another model's.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    User(Vec<Content>),
    Reply(Vec<Content>, bool),
    /// A reply with calls: the arguments of each, and what it gave.
    Exchange(Vec<Content>, bool, Vec<(String, bool, Vec<Content>)>),
}

/// Any step; `opaque` are the blocks that only their provider knows.
pub(crate) fn any_step(
    opaque: impl Strategy<Value = Content> + Clone + 'static,
) -> impl Strategy<Value = Step> {
    let content = any_content(opaque);
    let call = ("\\{?\"?.{0,10}", any::<bool>(), content.clone());
    prop_oneof![
        content.clone().prop_map(Step::User),
        (content.clone(), any::<bool>()).prop_map(|(c, f)| Step::Reply(c, f)),
        (content, any::<bool>(), proptest::collection::vec(call, 1..4))
            .prop_map(|(c, f, calls)| Step::Exchange(c, f, calls)),
    ]
}

impl Step {
    /// Goes on with it.
    pub(crate) fn add(
        self,
        history: &mut History,
        round: usize,
        own: fn(Vec<Content>) -> AssistantMessage,
        foreign: fn(Vec<Content>) -> AssistantMessage,
    ) {
        let said = |is_foreign: bool, content| {
            let reply = if is_foreign { foreign(content) } else { own(content) };
            AgentMessage::from(Message::from(reply))
        };
        match self {
            Self::User(content) => history.push(Message::user_content(content).into()).unwrap(),
            Self::Reply(content, is_foreign) => history.push(said(is_foreign, content)).unwrap(),
            Self::Exchange(mut content, is_foreign, calls) => {
                let mut results = vec![];
                for (n, (arguments, is_error, output)) in calls.into_iter().enumerate() {
                    let id = format!("call|{round}.{n}");
                    let arguments = ToolArguments::from_text(arguments);
                    content.push(Content::tool_call(id.as_str(), "read", arguments));
                    let mut result = ToolResultMessage::new(id.as_str().into(), "read".into(), output);
                    result.is_error = is_error;
                    results.push(Entry::from(AgentMessage::from(Message::from(result))));
                }
                history.push_exchange(said(is_foreign, content).into(), results).unwrap();
            }
        }
    }
}
