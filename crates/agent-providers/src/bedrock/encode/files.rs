//! Documents, search results and recordings.

use agent_core::{Citing, Content, DocumentContent, FileSource, SearchResultContent};

use crate::json::Members;

/// The address of a file in the vendor's store.
const S3: &str = "s3://";

/// The maximum length of a document as base64: 4.5 MB of bytes.
const MAX_DOCUMENT: usize = 6 << 20;

/// Returns whether the API takes a file, and for recordings also their form.
pub(super) fn takes(file: &Content) -> bool {
    match file {
        Content::Document(document) => match &document.source {
            FileSource::Base64 { mime_type, data } => {
                document_format(mime_type).is_some() && !data.is_empty() && data.len() <= MAX_DOCUMENT
            }
            FileSource::Url { url, mime_type } => {
                url.starts_with(S3) && mime_type.as_deref().and_then(document_format).is_some()
            }
            FileSource::Text { .. } => true,
            _ => false,
        },
        Content::SearchResult(_) => true,
        Content::Video(media) => takes_media(&media.source, video_format),
        Content::Audio(media) => takes_media(&media.source, audio_format),
        _ => false,
    }
}

fn takes_media(source: &FileSource, format: fn(&str) -> Option<&'static str>) -> bool {
    let is_given = match source {
        FileSource::Base64 { .. } => true,
        FileSource::Url { url, .. } => url.starts_with(S3),
        _ => false,
    };
    is_given && source.mime_type().and_then(format).is_some()
}

/// Writes a file that the API takes, after this number of documents.
pub(super) fn write(out: &mut Vec<u8>, file: &Content, documents: usize) {
    match file {
        Content::Document(document) => write_document(out, document, documents),
        Content::SearchResult(result) => write_search_result(out, result),
        Content::Video(media) => write_media(out, "video", &media.source, video_format),
        Content::Audio(media) => write_media(out, "audio", &media.source, audio_format),
        _ => {}
    }
}

fn write_document(out: &mut Vec<u8>, document: &DocumentContent, before: usize) {
    let mut block = Members::open(out);
    let mut inner = Members::open(block.key("document"));
    if let Some(format) = document.source.mime_type().and_then(document_format) {
        inner.field("format", format);
    }
    inner.field("name", &unique_name(document.title.as_deref(), before));
    write_source(&mut inner, &document.source);
    if let Some(context) = &document.context {
        inner.field("context", context);
    }
    write_citing(&mut inner, document.citing);
    inner.close();
    block.close();
}

fn write_search_result(out: &mut Vec<u8>, result: &SearchResultContent) {
    let mut block = Members::open(out);
    let mut inner = Members::open(block.key("searchResult"));
    inner.field("source", &result.source).field("title", &result.title);
    let list = inner.key("content");
    list.push(b'[');
    for (n, part) in result.parts.iter().enumerate() {
        if n > 0 {
            list.push(b',');
        }
        let mut text = Members::open(list);
        text.field("text", part);
        text.close();
    }
    list.push(b']');
    write_citing(&mut inner, result.citing);
    inner.close();
    block.close();
}

fn write_media(
    out: &mut Vec<u8>,
    kind: &'static str,
    source: &FileSource,
    format: fn(&str) -> Option<&'static str>,
) {
    let mut block = Members::open(out);
    let mut inner = Members::open(block.key(kind));
    inner.field("format", source.mime_type().and_then(format).unwrap_or_default());
    write_source(&mut inner, source);
    inner.close();
    block.close();
}

fn write_source(block: &mut Members<'_>, source: &FileSource) {
    let mut inner = Members::open(block.key("source"));
    match source {
        FileSource::Base64 { data, .. } => {
            inner.field("bytes", data);
        }
        FileSource::Text { text } => {
            inner.field("text", text);
        }
        FileSource::Url { url, .. } => {
            let mut location = Members::open(inner.key("s3Location"));
            location.field("uri", url);
            location.close();
        }
        _ => {}
    }
    inner.close();
}

fn write_citing(block: &mut Members<'_>, citing: Citing) {
    if citing == Citing::On {
        let mut inner = Members::open(block.key("citations"));
        inner.field("enabled", &true);
        inner.close();
    }
}

/// Returns a name that no other document of the request has: the first has its own name, the others a number behind it.
fn unique_name(title: Option<&str>, before: usize) -> String {
    let name = name(title);
    let ends_with_number =
        name.rsplit(' ').next().is_some_and(|word| word.bytes().all(|b| b.is_ascii_digit()));
    if before == 0 && !ends_with_number { name } else { format!("{name} {}", before.saturating_add(1)) }
}

/// Returns a name in the form that the API accepts: letters, digits, single spaces, hyphens and brackets.
fn name(title: Option<&str>) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() || "-()[]".contains(c) { c } else { ' ' };
    let words: String = title.unwrap_or_default().chars().map(fits).collect();
    let name = words.split_whitespace().collect::<Vec<_>>().join(" ");
    if name.is_empty() { "document".to_owned() } else { name }
}

/// Returns the API's name for the type of a document.
fn document_format(mime_type: &str) -> Option<&'static str> {
    Some(match essence(mime_type).as_str() {
        "application/pdf" => "pdf",
        "text/csv" => "csv",
        "application/msword" => "doc",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document" => "docx",
        "application/vnd.ms-excel" => "xls",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" => "xlsx",
        "text/html" => "html",
        "text/plain" => "txt",
        "text/markdown" => "md",
        _ => return None,
    })
}

/// Returns the API's name for the type of a film.
fn video_format(mime_type: &str) -> Option<&'static str> {
    Some(match essence(mime_type).as_str() {
        "video/x-matroska" => "mkv",
        "video/quicktime" => "mov",
        "video/mp4" => "mp4",
        "video/webm" => "webm",
        "video/x-flv" => "flv",
        "video/mpeg" => "mpeg",
        "video/x-ms-wmv" => "wmv",
        "video/3gpp" => "three_gp",
        _ => return None,
    })
}

/// Returns the API's name for the type of a sound.
fn audio_format(mime_type: &str) -> Option<&'static str> {
    Some(match essence(mime_type).as_str() {
        "audio/mpeg" | "audio/mp3" => "mp3",
        "audio/opus" => "opus",
        "audio/wav" | "audio/x-wav" | "audio/wave" => "wav",
        "audio/aac" => "aac",
        "audio/flac" | "audio/x-flac" => "flac",
        "audio/mp4" => "mp4",
        "audio/x-m4a" => "m4a",
        "audio/ogg" => "ogg",
        "audio/webm" => "webm",
        "audio/x-matroska" => "mka",
        _ => return None,
    })
}

/// Returns a media type without its parameters, in lower case.
fn essence(mime_type: &str) -> String {
    mime_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests;
