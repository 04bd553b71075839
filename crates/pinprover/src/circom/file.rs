//! Reading a file whole, with its path in every error.
//!
//! Files are copied into memory, never mapped: one that is truncated or replaced while we read it gives an
//! error and not a `SIGBUS`.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// An error and the file it happened in.
#[derive(Debug)]
pub struct InFile<E> {
    /// The file, as the caller named it.
    pub path: PathBuf,
    /// What happened.
    pub cause: E,
}

impl<E> InFile<E> {
    /// `cause`, which happened in `path`.
    pub fn new(path: impl Into<PathBuf>, cause: E) -> Self {
        Self { path: path.into(), cause }
    }
}

impl<E: fmt::Display> fmt::Display for InFile<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.cause)
    }
}

/// The text already holds the cause, so it is not the `source` again: a chain printer would show it twice.
impl<E: fmt::Debug + fmt::Display> std::error::Error for InFile<E> {}

/// What stands in the way of having a file in memory.
#[derive(Debug)]
pub(crate) enum ReadError {
    Io(io::Error),
    /// More bytes than the caller can have use for.
    TooLarge {
        limit: u64,
    },
    /// The first bytes are not those that `head` wants; the rest was not read.
    Head,
}

/// The bytes of `path`, at most `limit` of them.
///
/// `head` sees the first bytes (up to 16) before the rest is read, so that a huge file of another kind costs
/// nothing. Works on pipes too.
pub(crate) fn read(path: &Path, limit: u64, head: impl Fn(&[u8]) -> bool) -> Result<Vec<u8>, ReadError> {
    let file = File::open(path).map_err(ReadError::Io)?;
    let meta = file.metadata().map_err(ReadError::Io)?;
    let known = if meta.is_file() { meta.len() } else { 0 };
    if known > limit {
        return Err(ReadError::TooLarge { limit });
    }
    let mut bytes = Vec::new();
    (&file).take(16).read_to_end(&mut bytes).map_err(ReadError::Io)?;
    if !head(&bytes) {
        return Err(ReadError::Head);
    }
    let more = usize::try_from(known).unwrap_or(usize::MAX).saturating_sub(bytes.len());
    bytes.try_reserve_exact(more).map_err(|_| ReadError::Io(io::ErrorKind::OutOfMemory.into()))?;
    let rest = limit.saturating_sub(bytes.len() as u64);
    (&file).take(rest.saturating_add(1)).read_to_end(&mut bytes).map_err(ReadError::Io)?;
    if bytes.len() as u64 > limit {
        return Err(ReadError::TooLarge { limit });
    }
    Ok(bytes)
}
