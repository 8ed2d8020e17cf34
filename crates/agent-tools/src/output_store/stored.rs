//! One stored output.

use std::path::PathBuf;
use std::sync::Arc;

use super::{Folder, StoredOutput, key_of};
use crate::dir::Identity;

/// The location of the bytes of an output.
#[derive(Debug)]
pub(super) enum Place {
    Memory(Vec<u8>),
    /// The reference keeps the folder as long as a file is in it.
    File {
        name: PathBuf,
        /// Another file with the same name is not the output.
        identity: Identity,
        bytes: u64,
        folder: Arc<Folder>,
    },
}

/// An output, or its beginning. Dropping it removes its file.
#[derive(Debug)]
pub(super) struct Stored {
    place: Place,
    produced: u64,
}

impl Stored {
    pub(super) fn new(place: Place, produced: u64) -> Self {
        Self { place, produced }
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    pub(super) fn bytes(&self) -> u64 {
        match &self.place {
            Place::Memory(bytes) => bytes.len() as u64,
            Place::File { bytes, .. } => *bytes,
        }
    }

    pub(super) fn stored(&self, number: u64) -> StoredOutput {
        StoredOutput { key: key_of(number), kept: self.bytes(), produced: self.produced, growing: false }
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        if let Place::File { name, folder, .. } = &self.place {
            // An error means that the file does not exist, or that it is removed with the folder later.
            drop(folder.dir.remove_file(name));
        }
    }
}
