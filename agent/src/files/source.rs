//! A file opened for reading as text.

use std::fs::File;
use std::io::{self, BufReader, Chain, Cursor, Read};

use super::lines::Lines;
use super::{Disk, FileError, VirtualPath};

/// How much of a file decides whether it is text.
const HEAD: u64 = 8 * 1024;
const BUFFER: usize = 64 * 1024;

/// First bytes of common kinds of files, for the error text only.
const MAGIC: [(&[u8], &str); 9] = [
    (b"\x89PNG", "a PNG image"),
    (b"\xFF\xD8\xFF", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1F\x8B", "a gzip archive"),
    (b"\x7FELF", "an ELF program"),
    (b"\xFF\xFE", "UTF-16 text"),
    (b"\xFE\xFF", "UTF-16 text"),
];

/// A regular file, and what its first bytes say.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) size: u64,
    /// What it is, when it is not text.
    pub(super) binary: Option<&'static str>,
    pub(super) lines: Lines<BufReader<Chain<Cursor<Vec<u8>>, File>>>,
}

impl Source {
    pub(super) fn open(disk: &Disk, path: &VirtualPath) -> Result<Self, FileError> {
        let (file, size) = disk.open_file(path)?;
        Self::new(file, size).map_err(|error| FileError::at(path, error))
    }

    /// Refuses a file that is not text.
    pub(super) fn open_text(disk: &Disk, path: &VirtualPath) -> Result<Self, FileError> {
        let source = Self::open(disk, path)?;
        match source.binary {
            Some(kind) => Err(FileError::Binary {
                path: path.clone(),
                kind,
                size: source.size,
            }),
            None => Ok(source),
        }
    }

    fn new(mut file: File, size: u64) -> io::Result<Self> {
        let mut head = Vec::new();
        file.by_ref().take(HEAD).read_to_end(&mut head)?;
        let binary = binary_kind(&head);
        let reader = BufReader::with_capacity(BUFFER, Cursor::new(head).chain(file));
        Ok(Self {
            size,
            binary,
            lines: Lines::new(reader),
        })
    }
}

/// A NUL makes a file binary; no text in use holds one.
fn binary_kind(head: &[u8]) -> Option<&'static str> {
    if !head.contains(&0) {
        return None;
    }
    let known = MAGIC.iter().find(|(magic, _)| head.starts_with(magic));
    Some(known.map_or("binary data", |(_, kind)| kind))
}
