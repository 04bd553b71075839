//! The readers.
//!
//! ```text
//! vk:     alpha_g1 | beta_g1 | beta_g2 | gamma_g2 | delta_g1 | delta_g2 | n u32 | ic [n]
//! params: vk | n u32 | h [n] | n u32 | l [n] | n u32 | a [n] | n u32 | b_g1 [n] | n u32 | b_g2 [n]
//! proof:  a | b | c, compressed
//! ```
//! Counts are big-endian, points of keys uncompressed: 96 bytes in G1, 192 bytes in G2.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use bellperson::groth16::{Parameters, Proof, VerifyingKey};
use blstrs::{Bls12, G1Affine, G2Affine};
use rayon::prelude::*;

use super::error::{KeyError, PointError};
use super::point::{self, Point, FP_BYTES};
use super::{subgroup, KeyFileError, PROOF_BYTES};
use crate::circom::file;

/// Bytes read and decoded at a time: enough for all threads, little beside the key.
const BLOCK_BYTES: usize = 12 << 20;

/// Reads proving parameters.
///
/// `checked` decides whether every point is checked to be in the subgroup of prime order. It costs more than
/// the rest of the reading; leave it out only for a file that nobody else can have written. The verifying key
/// inside is always checked, and so is that every point is on the curve.
///
/// The file is read in blocks: the memory is that of the parameters and 12 MiB.
///
/// # Errors
/// The file and the first section in which something is wrong, see [`KeyError`].
pub fn read_params(path: impl AsRef<Path>, checked: bool) -> Result<Parameters<Bls12>, KeyFileError> {
    let path = path.as_ref();
    let read = || {
        let file = File::open(path).map_err(KeyError::Io)?;
        let meta = file.metadata().map_err(KeyError::Io)?;
        if !meta.is_file() {
            return Err(KeyError::NotAFile);
        }
        params_from(Source { inner: file, pos: 0, len: meta.len() }, checked)
    };
    read().map_err(|cause| KeyFileError::new(path, cause))
}

/// The most bytes of a verifying key that comes from a stream.
const MAX_STREAM: u64 = 1 << 30;

/// Reads a verifying key; every point is checked.
///
/// # Errors
/// The file and the first thing that is wrong with it, see [`KeyError`].
pub fn read_vk(path: impl AsRef<Path>) -> Result<VerifyingKey<Bls12>, KeyFileError> {
    let path = path.as_ref();
    let read = || {
        // The first block of a key is read before the rest: a huge file of another kind costs nothing.
        let file = File::open(path).map_err(KeyError::Io)?;
        let meta = file.metadata().map_err(KeyError::Io)?;
        if meta.is_file() {
            return vk_from(Source { inner: file, pos: 0, len: meta.len() });
        }
        // A stream has no length to check first, so it has a limit: ten million inputs.
        parse_vk(&load(path, MAX_STREAM)?)
    };
    read().map_err(|cause| KeyFileError::new(path, cause))
}

/// Reads a proof; every point is checked.
///
/// # Errors
/// The file and the first thing that is wrong with it, see [`KeyError`].
pub fn read_proof(path: impl AsRef<Path>) -> Result<Proof<Bls12>, KeyFileError> {
    let path = path.as_ref();
    load(path, 1 << 20).and_then(|bytes| parse_proof(&bytes)).map_err(|cause| KeyFileError::new(path, cause))
}

/// Reads proving parameters from memory; see [`read_params`].
///
/// # Errors
/// The first section in which something is wrong.
pub fn parse_params(bytes: &[u8], checked: bool) -> Result<Parameters<Bls12>, KeyError> {
    params_from(Source { inner: bytes, pos: 0, len: bytes.len() as u64 }, checked)
}

/// Reads a verifying key from memory; every point is checked.
///
/// # Errors
/// The first thing that is wrong.
pub fn parse_vk(bytes: &[u8]) -> Result<VerifyingKey<Bls12>, KeyError> {
    vk_from(Source { inner: bytes, pos: 0, len: bytes.len() as u64 })
}

/// Reads a proof from its 192 bytes; every point is checked.
///
/// # Errors
/// The first thing that is wrong.
pub fn parse_proof(bytes: &[u8]) -> Result<Proof<Bls12>, KeyError> {
    if bytes.is_empty() {
        return Err(KeyError::Empty);
    }
    if bytes.len() != PROOF_BYTES {
        return Err(KeyError::ProofSize { expected: PROOF_BYTES, found: bytes.len() });
    }
    let at = |section, offset: usize| {
        move |cause| KeyError::Point { section, index: 0, offset: offset as u64, cause }
    };
    let (a, rest) = bytes.split_at(FP_BYTES);
    let (b, c) = rest.split_at(2 * FP_BYTES);
    Ok(Proof {
        a: point::decode_compressed(a).map_err(at("proof.a", 0))?,
        b: point::decode_compressed(b).map_err(at("proof.b", FP_BYTES))?,
        c: point::decode_compressed(c).map_err(at("proof.c", 3 * FP_BYTES))?,
    })
}

fn load(path: &Path, limit: u64) -> Result<Vec<u8>, KeyError> {
    file::read(path, limit, |_| true).map_err(|e| match e {
        file::ReadError::Io(e) => KeyError::Io(e),
        file::ReadError::TooLarge { limit } => {
            KeyError::ProofSize { expected: PROOF_BYTES, found: usize::try_from(limit).unwrap_or(usize::MAX) }
        }
        file::ReadError::Head => unreachable!("every head is taken"),
    })
}

fn vk_from<R: Read>(mut source: Source<R>) -> Result<VerifyingKey<Bls12>, KeyError> {
    let vk = source.vk()?;
    source.finish()?;
    Ok(vk)
}

fn params_from<R: Read>(mut source: Source<R>, checked: bool) -> Result<Parameters<Bls12>, KeyError> {
    let vk = source.vk()?;
    let h: Vec<G1Affine> = source.points("h", checked)?;
    if !(h.len() + 1).is_power_of_two() {
        return Err(counts("one less than a power of two is expected", "h", h.len()));
    }
    let l: Vec<G1Affine> = source.points("l", checked)?;
    let a: Vec<G1Affine> = source.points("a", checked)?;
    if a.len() < vk.ic.len() {
        return Err(counts("at least as many points as in vk.ic are expected", "a", a.len()));
    }
    let b_g1: Vec<G1Affine> = source.points("b_g1", checked)?;
    let b_g2: Vec<G2Affine> = source.points("b_g2", checked)?;
    if b_g1.len() != b_g2.len() {
        return Err(counts("as many points as in b_g1 are expected", "b_g2", b_g2.len()));
    }
    source.finish()?;
    Ok(Parameters {
        vk,
        h: Arc::new(h),
        l: Arc::new(l),
        a: Arc::new(a),
        b_g1: Arc::new(b_g1),
        b_g2: Arc::new(b_g2),
    })
}

fn counts(what: &'static str, section: &'static str, found: usize) -> KeyError {
    KeyError::Counts { what, section, found: found as u64 }
}

/// A reader that knows how many bytes there should be.
struct Source<R> {
    inner: R,
    pos: u64,
    len: u64,
}

impl<R: Read> Source<R> {
    fn remaining(&self) -> u64 {
        self.len - self.pos
    }

    fn fill(&mut self, section: &'static str, buf: &mut [u8]) -> Result<(), KeyError> {
        if self.len == 0 {
            return Err(KeyError::Empty);
        }
        let (needed, available) = (buf.len() as u64, self.remaining());
        if needed > available {
            return Err(KeyError::Truncated { section, offset: self.pos, needed, available });
        }
        self.inner.read_exact(buf).map_err(|e| match e.kind() {
            // It was long enough a moment ago.
            io::ErrorKind::UnexpectedEof => {
                KeyError::Truncated { section, offset: self.pos, needed, available: 0 }
            }
            _ => KeyError::Io(e),
        })?;
        self.pos += needed;
        Ok(())
    }

    fn point<P: Point>(&mut self, section: &'static str) -> Result<P, KeyError> {
        let mut buf = [0; 4 * FP_BYTES];
        let offset = self.pos;
        let buf = &mut buf[..P::UNCOMPRESSED];
        self.fill(section, buf)?;
        point::decode_checked(buf).map_err(|cause| KeyError::Point { section, index: 0, offset, cause })
    }

    fn vk(&mut self) -> Result<VerifyingKey<Bls12>, KeyError> {
        let vk = VerifyingKey {
            alpha_g1: self.point("vk.alpha_g1")?,
            beta_g1: self.point("vk.beta_g1")?,
            beta_g2: self.point("vk.beta_g2")?,
            gamma_g2: self.point("vk.gamma_g2")?,
            delta_g1: self.point("vk.delta_g1")?,
            delta_g2: self.point("vk.delta_g2")?,
            ic: self.points("vk.ic", true)?,
        };
        if vk.ic.is_empty() {
            return Err(counts("at least one point is expected", "vk.ic", 0));
        }
        Ok(vk)
    }

    /// A count and so many points.
    fn points<P: Point>(&mut self, section: &'static str, checked: bool) -> Result<Vec<P>, KeyError> {
        let mut count = [0; 4];
        let offset = self.pos;
        self.fill(section, &mut count)?;
        let count = u32::from_be_bytes(count) as usize;
        let needed = count as u64 * P::UNCOMPRESSED as u64;
        let available = self.remaining();
        if needed > available {
            return Err(KeyError::Count { section, offset, count: count as u64, needed, available });
        }
        let no_memory = |_| KeyError::OutOfMemory { section, requested: needed };
        let mut points: Vec<P> = Vec::new();
        points.try_reserve_exact(count).map_err(no_memory)?;
        let mut block = Vec::new();
        block.try_reserve_exact(BLOCK_BYTES.min(needed as usize)).map_err(no_memory)?;
        let start = self.pos;
        let refuse = |index: usize, cause: PointError| KeyError::Point {
            section,
            index: index as u64,
            offset: start + (index * P::UNCOMPRESSED) as u64,
            cause,
        };
        while points.len() < count {
            let done = points.len();
            let n = (count - done).min(BLOCK_BYTES / P::UNCOMPRESSED);
            block.resize(n * P::UNCOMPRESSED, 0);
            self.fill(section, &mut block)?;
            let chunks = block.par_chunks_exact(P::UNCOMPRESSED).with_min_len(256);
            points.par_extend(chunks.clone().map(|c| point::decode(c).unwrap_or_else(|_| P::identity())));
            // No good point is the identity, so it marks the bad ones.
            let bad = points[done..].par_iter().with_min_len(256).position_first(|p| p.is_identity().into());
            if let Some(i) = bad {
                let bytes = &block[i * P::UNCOMPRESSED..][..P::UNCOMPRESSED];
                let cause = point::decode::<P>(bytes).err().unwrap_or(PointError::Infinity);
                return Err(refuse(done + i, cause));
            }
        }
        if checked {
            if let Some(index) = subgroup::first_outside(&points) {
                return Err(refuse(index, PointError::NotInSubgroup));
            }
        }
        Ok(points)
    }

    fn finish(self) -> Result<(), KeyError> {
        if self.remaining() > 0 {
            return Err(KeyError::TrailingBytes { offset: self.pos, extra: self.remaining() });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that ends before the length that the file had when it was opened.
    #[test]
    fn a_file_cut_while_it_is_read_gives_an_error() {
        let bytes = [0x17; 5000];
        for there in [0, 50, 96, 4999] {
            let source = Source { inner: &bytes[..there], pos: 0, len: 10_000 };
            let error = params_from(source, true).map(|_| ()).unwrap_err();
            let expected = if there < 96 { "truncated in vk.alpha_g1" } else { "vk.alpha_g1, point 0" };
            assert!(error.to_string().contains(expected), "{there}: {error}");
        }
    }

    #[test]
    fn points_are_read_in_blocks_and_bad_ones_are_named_in_any_of_them() {
        use group::{Curve, Group};
        let per_block = BLOCK_BYTES / G1Affine::UNCOMPRESSED;
        let count = per_block + 1000;
        let mut point = blstrs::G1Projective::generator();
        let first: Vec<G1Affine> = (0..100)
            .map(|_| {
                point = point.double();
                point.to_affine()
            })
            .collect();
        let mut bytes = (count as u32).to_be_bytes().to_vec();
        for i in 0..count {
            bytes.extend(first[i % 100].to_uncompressed());
        }
        let read = |bytes: &[u8], len: usize| {
            Source { inner: bytes, pos: 0, len: len as u64 }.points::<G1Affine>("h", false)
        };
        let points = read(&bytes, bytes.len()).unwrap();
        assert!(points.len() == count && points.iter().enumerate().all(|(i, p)| *p == first[i % 100]));
        for index in [count - 1, per_block, per_block - 1, 0] {
            let offset = 4 + index * G1Affine::UNCOMPRESSED;
            bytes[offset + 50] ^= 1;
            let error = read(&bytes, bytes.len()).unwrap_err().to_string();
            assert!(error.starts_with(&format!("h, point {index} (byte {offset}): ")), "{error}");
        }
    }
}
