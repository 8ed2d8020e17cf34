//! The options of the vendors' other tools.

use serde::{Deserialize, Serialize};

use super::list;

/// The options of running code.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct CodeExecution {
    /// The id of an existing container. Anthropic and OpenAI have it. Default: the vendor creates one.
    pub container: Option<String>,
    /// The ids of uploaded files that the code can read. Only OpenAI has it.
    pub file_ids: Vec<String>,
    /// The version of the tool, such as `code_execution_20260521`. Only Anthropic has versions. Default:
    /// `code_execution_20260120` if the code can call a tool of the request, else `code_execution_20250825`.
    pub version: Option<String>,
}

/// The options of searching uploaded files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct FileSearch {
    /// The stores to search: ids of vector stores at OpenAI, names of file search stores at Gemini. At least one.
    pub stores: Vec<String>,
    /// The maximum number of results of a search.
    pub max_results: Option<u32>,
}

/// The options of generating images, with the vendor's values. Only OpenAI has the tool.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct ImageGeneration {
    /// The model that generates the image, for example `gpt-image-2`.
    pub model: Option<String>,
    /// The size in pixels, for example `1024x1024`.
    pub size: Option<String>,
    /// The quality of the image, for example `high`.
    pub quality: Option<String>,
    /// The background of the image, for example `transparent`.
    pub background: Option<String>,
    /// The file format of the image, for example `webp`.
    pub output_format: Option<String>,
}

/// The options of controlling a computer.
///
/// The size of the screen is sent to the models that need it: those of Anthropic and `computer-use-preview` of OpenAI.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ComputerUse {
    /// The width of the screen, in pixels.
    pub width: u32,
    /// The height of the screen, in pixels.
    pub height: u32,
    /// The number of the X11 display. Only Anthropic has it.
    #[serde(default)]
    pub display: Option<u32>,
    /// Whether the model can request a part of the screen at full size. Only Anthropic has it. Default: `false`.
    #[serde(default)]
    pub zoom: bool,
    /// What the model controls. OpenAI and Gemini have it. Default: a browser.
    #[serde(default)]
    pub environment: Option<ComputerEnvironment>,
    /// The vendor's names of actions that the model must not use, for example `drag_and_drop`. Only Gemini has it.
    #[serde(default)]
    pub excluded_actions: Vec<String>,
}

/// What a model controls by a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ComputerEnvironment {
    /// A web browser and its pages.
    Browser,
    /// The desktop of Linux.
    Linux,
    /// The desktop of macOS.
    Mac,
    /// The desktop of Windows.
    Windows,
    /// A phone or a tablet. Only Gemini has it.
    Mobile,
}

/// The options of editing text files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct TextEditor {
    /// The maximum number of characters of a file that is viewed.
    pub max_characters: Option<u32>,
}

/// The options of searching tools.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolSearch {
    /// How the model searches.
    pub variant: ToolSearchVariant,
}

/// How a model searches tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolSearchVariant {
    /// The vendor's usual search; at Anthropic, by words.
    #[default]
    Usual,
    /// By words of natural language. Only Anthropic has it.
    Words,
    /// By regular expressions. Only Anthropic has it.
    Regex,
}

impl CodeExecution {
    /// Creates a tool that runs code in a new container.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the id of an existing container.
    #[must_use]
    pub fn with_container(mut self, id: impl Into<String>) -> Self {
        self.container = Some(id.into());
        self
    }

    /// Sets the ids of the uploaded files that the code can read.
    #[must_use]
    pub fn with_files<T: Into<String>>(mut self, ids: impl IntoIterator<Item = T>) -> Self {
        self.file_ids = list(ids);
        self
    }

    /// Sets the version of the tool, for example `code_execution_20260521`.
    #[must_use]
    pub fn with_version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }
}

impl FileSearch {
    /// Creates a search of these stores.
    #[must_use]
    pub fn new<T: Into<String>>(stores: impl IntoIterator<Item = T>) -> Self {
        Self { stores: list(stores), max_results: None }
    }

    /// Sets the maximum number of results of a search.
    #[must_use]
    pub fn with_max_results(mut self, results: u32) -> Self {
        self.max_results = Some(results);
        self
    }
}

impl ImageGeneration {
    /// Creates a tool with the vendor's defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the model that generates the image.
    #[must_use]
    pub fn with_model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Sets the size in pixels, for example `1024x1024`.
    #[must_use]
    pub fn with_size(mut self, size: impl Into<String>) -> Self {
        self.size = Some(size.into());
        self
    }

    /// Sets the quality of the image.
    #[must_use]
    pub fn with_quality(mut self, quality: impl Into<String>) -> Self {
        self.quality = Some(quality.into());
        self
    }

    /// Sets the background of the image.
    #[must_use]
    pub fn with_background(mut self, background: impl Into<String>) -> Self {
        self.background = Some(background.into());
        self
    }

    /// Sets the file format of the image.
    #[must_use]
    pub fn with_output_format(mut self, format: impl Into<String>) -> Self {
        self.output_format = Some(format.into());
        self
    }
}

impl ComputerUse {
    /// Creates a tool for a screen of this size, in pixels.
    #[must_use]
    pub fn new(width: u32, height: u32) -> Self {
        Self { width, height, ..Self::default() }
    }

    /// Sets the number of the X11 display.
    #[must_use]
    pub fn with_display(mut self, display: u32) -> Self {
        self.display = Some(display);
        self
    }

    /// Lets the model request a part of the screen at full size.
    #[must_use]
    pub fn with_zoom(mut self) -> Self {
        self.zoom = true;
        self
    }

    /// Sets what the model controls.
    #[must_use]
    pub fn with_environment(mut self, environment: ComputerEnvironment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Sets the vendor's names of the actions that the model must not use.
    #[must_use]
    pub fn with_excluded_actions<T: Into<String>>(mut self, actions: impl IntoIterator<Item = T>) -> Self {
        self.excluded_actions = list(actions);
        self
    }
}

impl TextEditor {
    /// Creates a tool that shows whole files.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the maximum number of characters of a file that is viewed.
    #[must_use]
    pub fn with_max_characters(mut self, characters: u32) -> Self {
        self.max_characters = Some(characters);
        self
    }
}

impl ToolSearch {
    /// Creates a search of the given kind.
    #[must_use]
    pub fn new(variant: ToolSearchVariant) -> Self {
        Self { variant }
    }
}
