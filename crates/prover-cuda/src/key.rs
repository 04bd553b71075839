//! The queries of a proving key on a device, or in host memory to be streamed.

use std::sync::Arc;

use blst::{blst_p1_affine, blst_p2_affine};

use crate::device::{Buffer, Device, Pinned, Plain};
use crate::error::Error;
use crate::sys;

/// The points of one query.
#[derive(Debug)]
pub enum Query<T: Plain> {
    /// On the device.
    Resident {
        /// Their memory.
        buffer: Buffer,
        /// How many.
        count: u64,
    },
    /// In page-locked memory of the host: copied piece by piece in each proof.
    Streamed {
        /// The vector they are in.
        pinned: Arc<Pinned<T>>,
        /// Index of the first.
        first: usize,
        /// How many.
        count: u64,
    },
}

impl<T: Plain> Query<T> {
    /// Bytes that `count` points take.
    pub fn bytes(count: usize) -> u64 {
        (count * std::mem::size_of::<T>()) as u64
    }

    /// Copies points to the device, part after part, in steps of 64 MiB; `step` hears how many bytes came over, and ends the copying by `false`.
    ///
    /// # Errors
    /// No memory on the device; what the device says; an end that `step` asked for.
    pub fn upload(device: Device, parts: &[&[T]], mut step: impl FnMut(u64) -> bool) -> Result<Self, Error> {
        const STEP: usize = 64 << 20;
        let count: usize = parts.iter().map(|part| part.len()).sum();
        let mut buffer = Buffer::new(device, Self::bytes(count))?;
        let mut offset = 0;
        let pieces = parts.iter().flat_map(|part| part.chunks((STEP / std::mem::size_of::<T>()).max(1)));
        for piece in pieces {
            buffer.write(offset, piece)?;
            let size = std::mem::size_of_val(piece) as u64;
            offset += size;
            if !step(size) {
                return Err(Error::usage("the upload of the key was cancelled"));
            }
        }
        Ok(Self::Resident { buffer, count: count as u64 })
    }

    /// Points `first .. first + count` of a page-locked vector, to be streamed.
    ///
    /// # Errors
    /// The vector is shorter.
    pub fn streamed(pinned: Arc<Pinned<T>>, first: usize, count: usize) -> Result<Self, Error> {
        let held = pinned.points().len();
        if first.checked_add(count).is_none_or(|end| end > held) {
            return Err(Error::usage(format!("points {first} to {first} + {count} of a vector of {held}")));
        }
        Ok(Self::Streamed { pinned, first, count: count as u64 })
    }

    /// How many points.
    pub fn count(&self) -> u64 {
        match self {
            Self::Resident { count, .. } | Self::Streamed { count, .. } => *count,
        }
    }

    /// Whether they are on the device.
    pub fn is_resident(&self) -> bool {
        matches!(self, Self::Resident { .. })
    }

    fn raw(&self) -> sys::Query {
        match self {
            Self::Resident { buffer, count } => {
                sys::Query { points: buffer.as_ptr(), count: *count, host: 0, reserved: 0 }
            }
            Self::Streamed { pinned, first, count } => {
                let points = pinned.points()[*first..].as_ptr().cast();
                sys::Query { points, count: *count, host: 1, reserved: 0 }
            }
        }
    }
}

/// The queries of a proving key. In A and B the points of the inputs come first.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Key {
    pub h: Query<blst_p1_affine>,
    pub l: Query<blst_p1_affine>,
    pub a: Query<blst_p1_affine>,
    pub b_g1: Query<blst_p1_affine>,
    pub b_g2: Query<blst_p2_affine>,
}

impl Key {
    /// Bytes on the device.
    pub fn resident_bytes(&self) -> u64 {
        let g1 = [&self.h, &self.l, &self.a, &self.b_g1];
        let g1: u64 = g1.into_iter().filter(|q| q.is_resident()).map(|q| q.count() * 96).sum();
        g1 + if self.b_g2.is_resident() { self.b_g2.count() * 192 } else { 0 }
    }

    /// Bytes that come from the host in each proof.
    pub fn streamed_bytes(&self) -> u64 {
        let g1 = [&self.h, &self.l, &self.a, &self.b_g1];
        let all: u64 = g1.into_iter().map(|q| q.count() * 96).sum::<u64>() + self.b_g2.count() * 192;
        all - self.resident_bytes()
    }

    pub(crate) fn raw(&self) -> sys::Key {
        sys::Key {
            h: self.h.raw(),
            l: self.l.raw(),
            a: self.a.raw(),
            b_g1: self.b_g1.raw(),
            b_g2: self.b_g2.raw(),
        }
    }
}
