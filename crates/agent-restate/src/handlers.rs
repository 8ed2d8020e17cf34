//! The handlers of the two virtual objects of an agent: sessions and their mailboxes.

/// A handler of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionHandler {
    Prompt,
    Explore,
    Answer,
    Advance,
    Wake,
    Questions,
    History,
    Events,
    Turn,
}

/// A handler of the mailbox of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MailboxHandler {
    Put,
    Attach,
    Detach,
    DropAborts,
}

/// What the engine knows of a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Description {
    pub(crate) name: &'static str,
    pub(crate) access: Access,
    pub(crate) input: Input,
    pub(crate) caller: Caller,
}

/// Whether a handler has the session for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Exclusive,
    Shared,
}

/// The body of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    Json,
    Nothing,
}

/// The callers that the engine accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    Anyone,
    Services,
}

/// The handlers of a virtual object.
pub(crate) trait Handlers: Copy + 'static {
    const ALL: &'static [Self];

    fn description(self) -> Description;

    fn name(self) -> &'static str {
        self.description().name
    }

    /// Returns the handler with this name.
    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|handler| handler.name() == name)
    }
}

impl Handlers for SessionHandler {
    const ALL: &'static [Self] = &[
        Self::Prompt,
        Self::Explore,
        Self::Answer,
        Self::Advance,
        Self::Wake,
        Self::Questions,
        Self::History,
        Self::Events,
        Self::Turn,
    ];

    fn description(self) -> Description {
        let of = |name, access, input, caller| Description { name, access, input, caller };
        match self {
            Self::Prompt => of("prompt", Access::Exclusive, Input::Json, Caller::Anyone),
            Self::Explore => of("explore", Access::Exclusive, Input::Json, Caller::Anyone),
            Self::Answer => of("answer", Access::Exclusive, Input::Json, Caller::Anyone),
            Self::Advance => of("advance", Access::Exclusive, Input::Nothing, Caller::Services),
            Self::Wake => of("wake", Access::Exclusive, Input::Nothing, Caller::Services),
            Self::Questions => of("questions", Access::Shared, Input::Nothing, Caller::Anyone),
            Self::History => of("history", Access::Shared, Input::Nothing, Caller::Anyone),
            Self::Events => of("events", Access::Shared, Input::Json, Caller::Anyone),
            Self::Turn => of("turn", Access::Shared, Input::Json, Caller::Anyone),
        }
    }
}

impl Handlers for MailboxHandler {
    const ALL: &'static [Self] = &[Self::Put, Self::Attach, Self::Detach, Self::DropAborts];

    fn description(self) -> Description {
        let of = |name, input, caller| Description { name, access: Access::Exclusive, input, caller };
        match self {
            Self::Put => of("put", Input::Json, Caller::Anyone),
            Self::Attach => of("attach", Input::Json, Caller::Services),
            Self::Detach => of("detach", Input::Json, Caller::Services),
            Self::DropAborts => of("drop_aborts", Input::Nothing, Caller::Services),
        }
    }
}
