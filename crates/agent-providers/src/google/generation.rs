//! The capabilities of a model by its name: the vendor's limits depend on the generation.

#[cfg(test)]
mod tests;

/// The generation of a model: 2.5 is `(2, 5)`. It is unknown for a name without a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Generation {
    major: u32,
    minor: u32,
}

/// The current generation of the aliases that follow the vendor's newest models.
const NEWEST: Generation = Generation { major: 3, minor: 0 };

/// The facts that a model name contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    /// `None` for a model that is no Gemini.
    generation: Option<Generation>,
    /// Whether the model generates images or speech. Such models do not think.
    makes_media: bool,
}

impl Known {
    /// Reads `gemini-2.5-flash`, `models/gemini-3-pro-preview`, `gemini-flash-latest`, with any prefix of a resource.
    pub(super) fn of(id: &str) -> Self {
        let name = id.rsplit('/').next().unwrap_or_default();
        let Some(rest) = name.strip_prefix("gemini-") else {
            return Self { generation: None, makes_media: false };
        };
        let number = rest.split(['-', '@']).next().unwrap_or_default();
        let mut parts = number.split('.').map(str::parse);
        let generation = match (parts.next(), parts.next()) {
            (Some(Ok(major)), None) => Some(Generation { major, minor: 0 }),
            (Some(Ok(major)), Some(Ok(minor))) => Some(Generation { major, minor }),
            _ if rest.ends_with("-latest") => Some(NEWEST),
            _ => None,
        };
        let makes_media = rest.split('-').any(|word| matches!(word, "image" | "tts" | "audio"));
        Self { generation, makes_media }
    }

    fn is_before(self, major: u32, minor: u32) -> bool {
        self.generation.is_some_and(|g| g < Generation { major, minor })
    }

    /// Returns whether the model is Gemini 3 or later. The first call of a step then needs a signature, results may contain
    /// images, thinking is set by a level, and tools can be combined with an answer schema.
    pub(super) fn is_third(self) -> bool {
        self.generation.is_some_and(|g| g >= NEWEST)
    }

    /// Returns whether the model is a known Gemini model. Other models with this protocol, such as Gemma, accept fewer
    /// options.
    pub(super) fn is_gemini(self) -> bool {
        self.generation.is_some()
    }

    /// Returns whether the model accepts thinking options. Models before 2.5 and models for images or speech reject them.
    pub(super) fn may_think(self) -> bool {
        !self.is_before(2, 5) && !self.makes_media
    }

    /// Returns whether a request can combine tools with a JSON answer.
    pub(super) fn answers_in_json_with_tools(self) -> bool {
        self.is_third()
    }
}
