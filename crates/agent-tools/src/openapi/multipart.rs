//! `multipart/form-data` (RFC 7578).

/// A part of a multipart body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) filename: Option<String>,
    pub(super) content_type: Option<String>,
    pub(super) bytes: Vec<u8>,
}

/// Returns the `Content-Type` and the body. Equal parts give equal bytes.
pub(super) fn written(parts: &[Part]) -> (String, Vec<u8>) {
    let boundary = boundary(parts);
    let mut body = Vec::new();
    for part in parts {
        body.extend_from_slice(
            format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{}\"", quoted(&part.name))
                .as_bytes(),
        );
        if let Some(filename) = &part.filename {
            body.extend_from_slice(format!("; filename=\"{}\"", quoted(filename)).as_bytes());
        }
        body.extend_from_slice(b"\r\n");
        if let Some(kind) = &part.content_type {
            body.extend_from_slice(format!("Content-Type: {kind}\r\n").as_bytes());
        }
        body.extend_from_slice(b"\r\n");
        body.extend_from_slice(&part.bytes);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    (format!("multipart/form-data; boundary={boundary}"), body)
}

/// Encodes a name as browsers do: quotes and line ends are percent-encoded.
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

/// Returns a boundary that occurs in none of the parts.
fn boundary(parts: &[Part]) -> String {
    let mut salt = 0_u64;
    loop {
        let boundary = format!("looptree-{:016x}", digest(parts, salt));
        let is_in = |bytes: &[u8]| memchr::memmem::find(bytes, boundary.as_bytes()).is_some();
        if !parts.iter().any(|part| is_in(&part.bytes) || is_in(part.name.as_bytes())) {
            return boundary;
        }
        salt = salt.wrapping_add(1);
    }
}

/// FNV-1a with 64 bits.
fn digest(parts: &[Part], salt: u64) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = salt.to_le_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step);
    parts.iter().fold(hash, |hash, part| part.name.as_bytes().iter().chain(&part.bytes).fold(hash, step))
}
