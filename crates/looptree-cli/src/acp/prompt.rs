//! The content of a prompt, as a message for the model.

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{ContentBlock, EmbeddedResourceResource};
use looptree::{Content, Message};

use super::invalid;

/// Converts the content of a prompt.
///
/// A link to a resource becomes its address, which the model can read with its tools; an embedded text is put into tags with
/// its address.
pub(super) fn message(blocks: Vec<ContentBlock>) -> Result<Message, Error> {
    let content = blocks.into_iter().map(content).collect::<Result<Vec<_>, _>>()?;
    let says_nothing =
        |content: &Content| matches!(content, Content::Text(text) if text.text.trim().is_empty());
    if content.iter().all(says_nothing) {
        return Err(invalid("the prompt is empty"));
    }
    Ok(Message::user_content(content))
}

fn content(block: ContentBlock) -> Result<Content, Error> {
    Ok(match block {
        ContentBlock::Text(text) => Content::text(text.text),
        ContentBlock::Image(image) => Content::image(image.data, image.mime_type),
        ContentBlock::ResourceLink(link) => Content::text(format!("[@{}]({})", link.name, link.uri)),
        ContentBlock::Resource(embedded) => match embedded.resource {
            EmbeddedResourceResource::TextResourceContents(text) => {
                Content::text(format!("<resource uri=\"{}\">\n{}\n</resource>", text.uri, text.text))
            }
            EmbeddedResourceResource::BlobResourceContents(blob) => match blob.mime_type {
                Some(kind) if kind.starts_with("image/") => Content::image(blob.blob, kind),
                kind => {
                    let kind = kind.unwrap_or_else(|| "an unknown type".to_owned());
                    return Err(invalid(format!(
                        "{} has {kind}, which a prompt cannot contain; attach text or an image",
                        blob.uri
                    )));
                }
            },
            _ => return Err(invalid("the prompt embeds a resource of a kind that this agent does not know")),
        },
        ContentBlock::Audio(_) => return Err(invalid("this agent takes no audio; attach text or an image")),
        _ => return Err(invalid("the prompt has content of a kind that this agent does not know")),
    })
}
