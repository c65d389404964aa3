//! Files seen as memory.

use std::fs::File;
use std::io;
use std::path::Path;

/// A file mapped into memory, read only.
///
/// Weights are written aside and renamed, never changed in place; a file that another program
/// truncates while it is mapped ends this process, as with any mapping.
pub struct Mapped {
    map: Option<memmap2::Mmap>,
}

impl Mapped {
    /// Maps a file. An empty file is an empty slice.
    ///
    /// # Errors
    /// When the file cannot be opened or mapped.
    pub fn open(path: &Path) -> io::Result<Mapped> {
        let file = File::open(path)?;
        if file.metadata()?.len() == 0 {
            return Ok(Mapped { map: None });
        }
        // SAFETY: the mapping is read only and private to this value; see the type for changes from outside.
        #[allow(unsafe_code)]
        let map = unsafe { memmap2::Mmap::map(&file)? };
        Ok(Mapped { map: Some(map) })
    }
}

impl std::ops::Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.map.as_deref().unwrap_or(&[])
    }
}
