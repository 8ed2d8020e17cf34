//! The images in results of servers that a model receives.

use crate::read_file::image_type;

/// The maximum size of an image in bytes.
pub(crate) const MAX_BYTES: usize = 5 * 1024 * 1024;

/// The image types that every provider with image input accepts.
const ACCEPTED: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Returns whether a body of this media type, without parameters and in lower case, may be an image.
pub(crate) fn may_be_image(essence: &str) -> bool {
    essence.starts_with("image/") || essence.is_empty() || essence == "application/octet-stream"
}

/// Returns the media type of an image that providers accept. The bytes decide and not the type that the server names,
/// because one invalid image makes a provider reject the whole conversation.
pub(crate) fn accepted(bytes: &[u8]) -> Option<&'static str> {
    if bytes.len() > MAX_BYTES {
        return None;
    }
    image_type(bytes).filter(|found| ACCEPTED.contains(found))
}
