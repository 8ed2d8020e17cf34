//! Knowing a picture by its first bytes.

/// How many bytes [`mime_type`] looks at.
pub(super) const MAGIC_BYTES: usize = 12;

/// The kind of picture that begins with `head`. Content counts, not the name: a web page saved as `a.png` would be
/// refused by every provider.
pub(crate) fn mime_type(head: &[u8]) -> Option<&'static str> {
    match head {
        [0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A, ..] => Some("image/png"),
        [0xFF, 0xD8, 0xFF, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        // Text may begin with "BM"; a bitmap has zeros in its two reserved fields.
        [b'B', b'M', _, _, _, _, 0, 0, 0, 0, ..] => Some("image/bmp"),
        _ => None,
    }
}
