//! Which pictures the API of a model takes: by format, size, pixels, number, and whether by address.
//!
//! A vendor refuses a whole request for one picture that it does not take, and the picture is a part of every later request.
//! Therefore a text replaces such a picture. The bytes decide about the format, not the declared type.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use agent_core::{
    ApiProtocol, Content, Entry, History, ImageContent, Message, ModelConfig, ModelRequest, Splice, Unit,
};

const PNG: &str = "image/png";
const JPEG: &str = "image/jpeg";
const GIF: &str = "image/gif";
const WEBP: &str = "image/webp";
const BMP: &str = "image/bmp";

/// The number of bytes at the start of a picture in which its size is looked for. A photo can have a long preview before it.
const HEAD: usize = 256 << 10;

/// The number of pictures by which a request falls below the maximum, so that not every further picture changes the prefix.
const STEP: usize = 20;

/// What an API takes.
#[derive(Debug, Clone, Copy)]
struct Rules {
    kinds: &'static [&'static str],
    /// The maximum length of a picture as base64, in which form the vendors count it.
    encoded: usize,
    /// The maximum width and height in pixels.
    side: u32,
    by_address: ByAddress,
    crowd: Crowd,
}

/// Whether an API takes a picture by its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ByAddress {
    Yes,
    No,
}

/// The rules for requests with many pictures.
#[derive(Debug, Clone, Copy)]
struct Crowd {
    /// The maximum number of pictures.
    most: usize,
    /// The number of pictures above which `side` is the maximum width and height.
    many: usize,
    side: u32,
}

impl Rules {
    fn new(model: &ModelConfig) -> Self {
        const MIB: usize = 1 << 20;
        const ANY: u32 = u32::MAX;
        let no_crowd = Crowd { most: usize::MAX, many: usize::MAX, side: ANY };
        let common = Self {
            kinds: &[PNG, JPEG, GIF, WEBP, BMP],
            encoded: 27 * MIB,
            side: ANY,
            by_address: ByAddress::Yes,
            crowd: no_crowd,
        };
        let claude = Self {
            kinds: &[PNG, JPEG, GIF, WEBP],
            encoded: 5 * MIB,
            side: 8_000,
            by_address: ByAddress::Yes,
            crowd: Crowd { most: 100, many: 20, side: 2_000 },
        };
        let openai =
            Self { kinds: &[PNG, JPEG, GIF, WEBP], crowd: Crowd { most: 500, ..no_crowd }, ..common };
        match model.api {
            ApiProtocol::AnthropicMessages | ApiProtocol::AnthropicVertex => claude,
            ApiProtocol::BedrockConverseStream => Self { by_address: ByAddress::No, ..claude },
            ApiProtocol::OpenAiResponses | ApiProtocol::AzureOpenAiResponses => openai,
            ApiProtocol::OpenAiCompletions if model.provider == "openai" => openai,
            ApiProtocol::GoogleGenerativeAi | ApiProtocol::GoogleVertex => Self {
                kinds: &[PNG, JPEG, WEBP, "image/heic", "image/heif"],
                crowd: Crowd { most: 3_000, ..no_crowd },
                ..common
            },
            ApiProtocol::OllamaChat => Self { by_address: ByAddress::No, ..common },
            _ => common,
        }
    }
}

/// The format of a picture, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// A format that is not recognized.
    Other,
    /// A format that is recognized, with an invalid header.
    Broken(&'static str),
    /// A valid header, with width and height if they were found.
    Valid(&'static str, Option<(u32, u32)>),
}

/// Returns the text that replaces a picture which the API of `model` does not take.
pub(crate) fn fault(image: &ImageContent, model: &ModelConfig) -> Option<Cow<'static, str>> {
    let rules = Rules::new(model);
    let (data, declared) = match image {
        ImageContent::Base64 { data, mime_type } => (data, mime_type),
        _ if rules.by_address == ByAddress::No => {
            return Some("[image left out: this API takes no picture by its address]".into());
        }
        ImageContent::Url { .. } => return None,
        _ => return Some("[image left out: its form is not known]".into()),
    };
    if data.is_empty() {
        return Some("[image left out: it is empty]".into());
    }
    if data.len() > rules.encoded {
        let (size, most) = (megabytes(data.len()), megabytes(rules.encoded));
        return Some(
            format!("[image left out: it has {size} MB, and this API takes at most {most} MB]").into(),
        );
    }
    let (kind, size) = match recognize(data) {
        Seen::Broken(kind) => return Some(format!("[image left out: the {kind} data is damaged]").into()),
        Seen::Other => (essence(declared), None),
        Seen::Valid(kind, size) => (kind.to_owned(), size),
    };
    if !rules.kinds.contains(&kind.as_str()) {
        let taken =
            rules.kinds.iter().map(|kind| kind.trim_start_matches("image/")).collect::<Vec<_>>().join(", ");
        return Some(format!("[image left out: its type is {kind}, and this API takes {taken}]").into());
    }
    let (width, height) = size?;
    let most = rules.side;
    (width.max(height) > most).then(|| {
        format!(
            "[image left out: it has {width} x {height} pixels, and this API takes at most {most} a side]"
        )
        .into()
    })
}

/// Returns the media type under which a picture is sent: that of its bytes, or the declared one if they are not recognized.
pub(crate) fn media_type<'m>(data: &str, declared: &'m str) -> &'m str {
    match recognize(data) {
        Seen::Valid(kind, _) => kind,
        Seen::Other | Seen::Broken(_) => declared,
    }
}

/// Returns the conversation that is sent: that of `request`, without the pictures that are too many for its API. The oldest
/// ones are left out.
pub(crate) fn thin(request: &ModelRequest) -> Option<History> {
    let (history, crowd) = (&request.history, Rules::new(&request.model).crowd);
    let count = history.pictures();
    if count <= crowd.most.min(crowd.many) || !request.model.images {
        return None;
    }
    let excess = count.saturating_sub(crowd.most).div_ceil(STEP).saturating_mul(STEP).min(count);
    let side = if count > crowd.many { crowd.side } else { u32::MAX };
    let (mut splices, mut from, mut before) = (Vec::new(), 0, 0);
    for unit in history.units() {
        let to = from + unit.entries().len();
        let mut replace = |image: &ImageContent| {
            before += 1;
            if before <= excess {
                let most = crowd.most;
                return Some(format!(
                    "[image left out: this API takes at most {most} pictures, and later ones follow]"
                ));
            }
            let ImageContent::Base64 { data, .. } = image else { return None };
            match recognize(data) {
                Seen::Valid(_, Some((width, height))) if width.max(height) > side => Some(format!(
                    "[image left out: it has {width} x {height} pixels, and this API takes at most {side} a side when a \
                     conversation has more than {} pictures]",
                    crowd.many
                )),
                _ => None,
            }
        };
        if let Some(messages) = replace_pictures(unit, &mut replace) {
            splices.push(Splice { from, to, messages });
        }
        from = to;
    }
    if splices.is_empty() { None } else { history.spliced(&splices).ok() }
}

/// Returns the messages of a unit with the pictures replaced for which `replace` returns a text, or `None` if it returns none.
fn replace_pictures(
    unit: &Unit,
    replace: &mut impl FnMut(&ImageContent) -> Option<String>,
) -> Option<Vec<Entry>> {
    let mut is_changed = false;
    let messages = unit.entries().iter().map(|entry| {
        let mut message = entry.message().clone();
        let Some(content) = content_mut(&mut message) else { return entry.clone() };
        let mut changed = false;
        for block in content {
            if let Content::Image(image) = block
                && let Some(text) = replace(image)
            {
                *block = Content::text(text);
                changed = true;
            }
        }
        is_changed |= changed;
        if changed { Entry::from(message) } else { entry.clone() }
    });
    let messages: Vec<Entry> = messages.collect();
    is_changed.then_some(messages)
}

/// Returns the content of a message of the user or of a result.
fn content_mut(message: &mut agent_core::AgentMessage) -> Option<&mut Vec<Content>> {
    let agent_core::AgentMessage::Llm(message) = message else { return None };
    match &mut message.message {
        Message::User(message) => Some(&mut message.content),
        Message::ToolResult(result) => Some(&mut *result.content),
        _ => None,
    }
}

fn essence(mime_type: &str) -> String {
    let kind = mime_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if kind == "image/jpg" { JPEG.to_owned() } else { kind }
}

/// Returns the size of base64 data in megabytes, with one digit behind the point.
fn megabytes(encoded: usize) -> String {
    let tenths = encoded / 4 * 3 / 100_000;
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn recognize(data: &str) -> Seen {
    // The formats are recognized by few bytes; only a photo needs more of them.
    let short = decode(data, 64);
    let head = if short.starts_with(&[0xFF, 0xD8, 0xFF]) { decode(data, HEAD) } else { short };
    let both = |kind, size: Option<(u32, u32)>| match size {
        Some((width, height)) if width > 0 && height > 0 => Seen::Valid(kind, size),
        _ => Seen::Broken(kind),
    };
    match &*head {
        [0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A, rest @ ..] => both(PNG, png(rest)),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', rest @ ..] => both(GIF, gif(rest)),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', rest @ ..] => both(WEBP, webp(rest)),
        [0xFF, 0xD8, 0xFF, ..] => jpeg(&head),
        [b'B', b'M', _, _, _, _, 0, 0, 0, 0, ..] => Seen::Valid(BMP, None),
        _ => Seen::Other,
    }
}

fn png(rest: &[u8]) -> Option<(u32, u32)> {
    let size = rest.strip_prefix(b"\0\0\0\rIHDR")?;
    let number = |at: usize| size.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
    Some((number(0)?, number(4)?))
}

fn gif(rest: &[u8]) -> Option<(u32, u32)> {
    let number = |at: usize| rest.get(at..at + 2)?.try_into().ok().map(u16::from_le_bytes).map(u32::from);
    Some((number(0)?, number(2)?))
}

fn webp(rest: &[u8]) -> Option<(u32, u32)> {
    let word = |at: usize| rest.get(at..at + 2)?.try_into().ok().map(u16::from_le_bytes).map(u32::from);
    let three = |at: usize| Some(word(at)? | u32::from(*rest.get(at + 2)?) << 16);
    match rest.get(..4)? {
        b"VP8X" => Some((three(12)? + 1, three(15)? + 1)),
        b"VP8L" => {
            let bits = word(9)? | word(11)? << 16;
            Some(((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1))
        }
        b"VP8 " => Some((word(14)? & 0x3FFF, word(16)? & 0x3FFF)),
        _ => None,
    }
}

/// Follows the segments of a photo to the one with its size.
fn jpeg(head: &[u8]) -> Seen {
    let mut at = 2;
    loop {
        let (Some(&mark), Some(&kind)) = (head.get(at), head.get(at + 1)) else {
            // A file that ends here is too short for a picture. Otherwise the size is beyond the part that was read.
            return if head.len() < HEAD { Seen::Broken(JPEG) } else { Seen::Valid(JPEG, None) };
        };
        if mark != 0xFF {
            return Seen::Broken(JPEG);
        }
        let word = |at: usize| head.get(at..at + 2).and_then(|b| b.try_into().ok()).map(u16::from_be_bytes);
        match kind {
            0xFF => at += 1,
            0x01 | 0xD0..=0xD8 => at += 2,
            0xC0..=0xC3 | 0xC5..=0xC7 | 0xC9..=0xCB | 0xCD..=0xCF => {
                return match (word(at + 7), word(at + 5)) {
                    (Some(width), Some(height)) if width > 0 => {
                        Seen::Valid(JPEG, Some((width.into(), height.into())))
                    }
                    _ => Seen::Broken(JPEG),
                };
            }
            _ => match word(at + 2) {
                Some(len) if len >= 2 => at += 2 + usize::from(len),
                Some(_) => return Seen::Broken(JPEG),
                None => at = head.len(),
            },
        }
    }
}

/// Decodes the first `most` bytes of base64 data, up to the first character that does not belong to it.
fn decode(data: &str, most: usize) -> Vec<u8> {
    let digits = data.as_bytes().get(..most.div_ceil(3) * 4).unwrap_or(data.as_bytes());
    let mut out = Vec::with_capacity(digits.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0_u8);
    for digit in digits {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => break,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push(u8::try_from(bits >> count & 0xFF).unwrap_or_default());
        }
    }
    out
}
