//! The `.wtns` file: the value of every wire, in iden3's binary format, version 2.

use std::fmt;
use std::path::Path;

use blstrs::Scalar;
use ff::{Field, PrimeField};
use rayon::prelude::*;

use super::binfile::{BinFile, Known};
use super::error::FormatError;
use super::prime::SCALAR_BYTES;
use super::r1cs::{load, read_field};
use super::FormatFileError;

pub(crate) const MAGIC: [u8; 4] = *b"wtns";
const VERSION: u32 = 2;

const HEADER: Known = (1, "header");
const VALUES: Known = (2, "values");

/// The value of every wire, wire 0 (the constant one) first.
///
/// The values are secret: `Debug` shows their number only, and they are overwritten when the witness is dropped.
pub struct Witness {
    values: Vec<Scalar>,
}

impl Witness {
    /// Reads a `.wtns` file.
    ///
    /// # Errors
    /// The file and the first thing that is wrong with it, see [`FormatError`].
    pub fn read(path: impl AsRef<Path>) -> Result<Self, FormatFileError> {
        let path = path.as_ref();
        load(path, MAGIC)
            .and_then(|mut bytes| {
                let witness = Self::from_bytes(&bytes);
                bytes.fill(0);
                std::hint::black_box(&bytes);
                witness
            })
            .map_err(|cause| FormatFileError::new(path, cause))
    }

    /// Reads the content of a `.wtns` file.
    ///
    /// # Errors
    /// The first thing that is wrong, see [`FormatError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FormatError> {
        let file = BinFile::parse(bytes, MAGIC, VERSION, &[HEADER, VALUES])?;
        let mut header = file.section(HEADER)?;
        read_field(&mut header)?;
        let count = header.u32("the number of values")?;
        header.finish()?;
        let mut section = file.section(VALUES)?;
        section.expect_size(u64::from(count) * SCALAR_BYTES as u64)?;
        let start = section.offset();
        let bytes = section.take(section.remaining(), "the values")?;
        let mut values = vec![Scalar::ZERO; count as usize];
        let bad = values
            .par_iter_mut()
            .zip(bytes.par_chunks_exact(SCALAR_BYTES))
            .with_min_len(1 << 12)
            .enumerate()
            .filter_map(|(wire, (value, bytes))| {
                let repr = bytes.try_into().expect("chunks of that size");
                match Option::from(Scalar::from_repr(repr)) {
                    Some(v) => {
                        *value = v;
                        None
                    }
                    None => Some(wire as u64),
                }
            })
            .min();
        let witness = Self { values };
        match bad {
            Some(wire) => {
                Err(FormatError::ValueTooLarge { wire, offset: start + wire * SCALAR_BYTES as u64 })
            }
            None => Ok(witness),
        }
    }

    /// A witness from values that are in memory already, wire 0 first.
    pub fn from_values(values: Vec<Scalar>) -> Self {
        Self { values }
    }

    /// The values, one for each wire.
    pub fn values(&self) -> &[Scalar] {
        &self.values
    }
}

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Witness({} values)", self.values.len())
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.values.fill(Scalar::ZERO);
        // Keeps the compiler from leaving out stores that nobody reads.
        std::hint::black_box(&self.values);
    }
}
