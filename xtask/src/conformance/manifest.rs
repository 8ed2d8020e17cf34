//! Reading a folder of recorded responses: `MANIFEST.json`, a body and an expected result for each case.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The list of cases in a folder.
pub(super) const NAME: &str = "MANIFEST.json";

/// A folder of cases.
#[derive(Debug, Deserialize)]
pub(super) struct Manifest {
    pub(super) cases: Vec<Case>,
    #[serde(skip)]
    folder: PathBuf,
}

/// A recorded response.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Case {
    /// Its name, unique in its protocol.
    pub(super) case: String,
    /// The protocol, which is also the folder.
    pub(super) protocol: String,
    /// The file with the body.
    pub(super) file: String,
    /// Who answered.
    #[serde(default)]
    pub(super) vendor: Option<String>,
    /// The model of the request.
    #[serde(default)]
    pub(super) model: Option<String>,
    /// The HTTP status.
    #[serde(default)]
    pub(super) status: Option<u16>,
    /// The response headers that were kept.
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
}

/// What the vendor's own SDK makes of the body.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Expected {
    pub(super) text: String,
    pub(super) thinking: String,
    pub(super) refusal: Option<String>,
    pub(super) tool_calls: Vec<ExpectedCall>,
    pub(super) partial_tool_calls: Vec<ExpectedCall>,
    pub(super) thinking_signatures: Option<Vec<String>>,
    pub(super) redacted_thinking: Option<Vec<String>>,
    /// The types of the blocks, items and parts that are neither text, nor thinking, nor calls of the client's tools.
    pub(super) server_items: Option<Vec<String>>,
    pub(super) stop_reason: Option<String>,
    pub(super) stop_sequence: Option<String>,
    pub(super) usage: ExpectedUsage,
    /// The SDK's dump of the numbers.
    pub(super) usage_raw: Value,
    pub(super) error: Option<ExpectedError>,
    /// Why the vendor gave no reply to the prompt.
    pub(super) prompt_feedback: Value,
    pub(super) complete: Option<bool>,
}

/// A call, as the vendor's SDK has it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct ExpectedCall {
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) arguments: Value,
    pub(super) arguments_raw: Option<String>,
    /// Pieces of the arguments, which the SDK does not put together.
    pub(super) partial_args: Vec<Value>,
}

/// The vendor's own numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct ExpectedUsage {
    pub(super) input: Option<u64>,
    pub(super) output: Option<u64>,
    pub(super) cache_read: Option<u64>,
    pub(super) cache_write: Option<u64>,
    pub(super) reasoning: Option<u64>,
}

/// What the SDK raised.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct ExpectedError {
    /// The HTTP status; -1, null or 200 for an error inside of a stream.
    #[serde(alias = "status_code_or_error_code")]
    pub(super) status: Option<i64>,
    pub(super) message: Option<String>,
    /// The vendor's type of error.
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    /// The vendor's code; some send a number.
    #[serde(alias = "status_name")]
    pub(super) code: Value,
    /// The body as it was read.
    pub(super) body: Value,
    /// The headers that say how to go on.
    pub(super) headers: BTreeMap<String, String>,
}

impl Manifest {
    /// Reads the manifest of `folder`.
    pub(super) fn read(folder: &Path) -> anyhow::Result<Self> {
        let mut manifest: Self = read_json(&folder.join(NAME))?;
        manifest.folder = folder.to_path_buf();
        for case in &manifest.cases {
            for part in [&case.case, &case.protocol, &case.file] {
                let plain = Path::new(part).components().all(|c| matches!(c, Component::Normal(_)));
                if part.is_empty() || !plain {
                    bail!("{}: `{part}` is not a name inside of the folder", folder.join(NAME).display());
                }
            }
        }
        if manifest.cases.is_empty() {
            bail!("{} lists no case", folder.join(NAME).display());
        }
        Ok(manifest)
    }

    /// The protocols that have a case, in the order of their first.
    pub(super) fn protocols(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for case in &self.cases {
            if !names.contains(&case.protocol) {
                names.push(case.protocol.clone());
            }
        }
        names
    }

    /// The bytes of the response.
    pub(super) fn body(&self, case: &Case) -> anyhow::Result<Vec<u8>> {
        let path = self.folder.join(&case.protocol).join(&case.file);
        std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// What the body means.
    pub(super) fn expected<T: DeserializeOwned>(&self, case: &Case) -> anyhow::Result<T> {
        read_json(&self.folder.join(&case.protocol).join(format!("{}.expected.json", case.case)))
    }
}

fn read_json<T: DeserializeOwned>(path: &Path) -> anyhow::Result<T> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("cannot understand {}", path.display()))
}
