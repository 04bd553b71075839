//! The container that iden3's binary formats share.
//!
//! ```text
//! magic [4] | version u32 | sections u32 | { kind u32 | size u64 | content [size] } *
//! ```
//! All numbers are little-endian. Sections may stand in any order and unknown ones are skipped. No length
//! field is believed before the bytes behind it are seen to be there.

use super::error::FormatError;

const FILE_HEADER: &str = "file header";

/// A section that a reader knows: its number and its name in errors.
pub(crate) type Known = (u32, &'static str);

/// The sections of a file, found but not read.
pub(crate) struct BinFile<'a> {
    bytes: &'a [u8],
    /// Kind, start and end of the known ones only: a file of a million empty sections costs nothing here.
    sections: Vec<(Known, usize, usize)>,
}

impl<'a> BinFile<'a> {
    /// Walks over all sections of `bytes` and remembers the `known` ones.
    pub(crate) fn parse(
        bytes: &'a [u8],
        magic: [u8; 4],
        version: u32,
        known: &[Known],
    ) -> Result<Self, FormatError> {
        if bytes.is_empty() {
            return Err(FormatError::Empty);
        }
        if !bytes.starts_with(&magic) {
            let found = bytes[..bytes.len().min(4)].to_vec();
            return Err(FormatError::Magic { expected: magic, found });
        }
        let mut cursor = Cursor { bytes, pos: 4, base: 0, section: FILE_HEADER };
        let found = cursor.u32("the version")?;
        if found != version {
            return Err(FormatError::Version { expected: version, found });
        }
        let count = cursor.u32("the number of sections")?;
        let mut sections: Vec<(Known, usize, usize)> = Vec::new();
        for _ in 0..count {
            let kind = cursor.u32("the number of a section")?;
            let size = cursor.u64("the size of a section")?;
            let available = cursor.remaining() as u64;
            let offset = cursor.offset();
            if size > available {
                return Err(FormatError::SectionOverrun { kind, offset, size, available });
            }
            let start = cursor.pos;
            // Fits: it is at most what is left of a slice.
            cursor.pos += size as usize;
            let Some(&known) = known.iter().find(|(k, _)| *k == kind) else { continue };
            if let Some((_, first, _)) = sections.iter().find(|((k, _), ..)| *k == kind) {
                return Err(FormatError::DuplicateSection {
                    section: known.1,
                    kind,
                    first: *first as u64,
                    second: offset,
                });
            }
            sections.push((known, start, cursor.pos));
        }
        if cursor.remaining() > 0 {
            return Err(FormatError::TrailingBytes {
                offset: cursor.offset(),
                extra: cursor.remaining() as u64,
            });
        }
        Ok(Self { bytes, sections })
    }

    /// A cursor over the content of a section that may be absent.
    pub(crate) fn optional(&self, known: Known) -> Option<Cursor<'a>> {
        let &(_, start, end) = self.sections.iter().find(|((kind, _), ..)| *kind == known.0)?;
        Some(Cursor { bytes: &self.bytes[start..end], pos: 0, base: start as u64, section: known.1 })
    }

    /// A cursor over the content of a section that must be there.
    pub(crate) fn section(&self, known: Known) -> Result<Cursor<'a>, FormatError> {
        self.optional(known).ok_or(FormatError::MissingSection { section: known.1, kind: known.0 })
    }
}

/// Reads forward through one section; every error knows the section and the offset in the file.
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    pos: usize,
    base: u64,
    section: &'static str,
}

impl<'a> Cursor<'a> {
    /// Bytes not read yet.
    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.pos
    }

    /// Where the next byte stands in the file.
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.pos as u64
    }

    /// The next `n` bytes, which are `what`.
    pub(crate) fn take(&mut self, n: usize, what: &'static str) -> Result<&'a [u8], FormatError> {
        let available = self.remaining();
        if n > available {
            return Err(FormatError::Truncated {
                section: self.section,
                what,
                offset: self.offset(),
                needed: n as u64,
                available: available as u64,
            });
        }
        let bytes = &self.bytes[self.pos..self.pos + n];
        self.pos += n;
        Ok(bytes)
    }

    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32, FormatError> {
        let bytes = self.take(4, what)?;
        Ok(u32::from_le_bytes(bytes.try_into().expect("four bytes were taken")))
    }

    pub(crate) fn u64(&mut self, what: &'static str) -> Result<u64, FormatError> {
        let bytes = self.take(8, what)?;
        Ok(u64::from_le_bytes(bytes.try_into().expect("eight bytes were taken")))
    }

    /// Errs unless `count` things of at least `each` bytes fit into what is left.
    pub(crate) fn expect_room(&self, count: u64, each: u64, what: &'static str) -> Result<(), FormatError> {
        let needed = count.saturating_mul(each);
        let available = self.remaining() as u64;
        if needed > available {
            return Err(FormatError::Count { section: self.section, what, count, needed, available });
        }
        Ok(())
    }

    /// Errs unless exactly `expected` bytes are left.
    pub(crate) fn expect_size(&self, expected: u64) -> Result<(), FormatError> {
        let found = self.remaining() as u64;
        if found != expected {
            return Err(FormatError::SectionSize { section: self.section, expected, found });
        }
        Ok(())
    }

    /// Errs unless the section is read to its end.
    pub(crate) fn finish(self) -> Result<(), FormatError> {
        if self.remaining() > 0 {
            return Err(FormatError::SectionSize {
                section: self.section,
                expected: self.pos as u64,
                found: self.bytes.len() as u64,
            });
        }
        Ok(())
    }
}
