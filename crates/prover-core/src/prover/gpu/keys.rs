//! Proving keys on the device.

use std::sync::Arc;
use std::time::Instant;

use bellperson::groth16::{KeySource, Query as HostQuery};
use bellperson::SynthesisError;
use blstrs::{G1Affine, G2Affine};
use prover_cuda::device::{Device, Pinned, Plain};
use prover_cuda::error::{Error, Kind};
use prover_cuda::key::{Key, Query};
use prover_cuda::slot::{planned_bytes, Shape, Slot};
use tracing::{info, warn};

use super::cast;
use crate::config::KeyProgress;
use crate::prover::device::KeyDigest;
use crate::size::format_size;

/// What tells keys apart: the digest of the verifying key, and the sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyId {
    pub(super) digest: KeyDigest,
    pub(super) counts: [usize; 5],
}

/// Device memory that stays free for the driver and for others.
const MARGIN: u64 = 512 << 20;

/// Keys on one device, the least recently used first.
pub(super) struct Keys {
    keys: Vec<(KeyId, Arc<Key>)>,
    /// The most bytes of the device that keys and workspace may take.
    limit: Option<u64>,
}

/// What else takes memory on the device.
pub(super) struct Others<'s> {
    /// Slots without a proof; their workspaces can be freed.
    pub(super) idle: &'s mut Vec<Slot>,
    /// Whether proofs run: what they hold comes free without anybody's doing.
    pub(super) busy: bool,
    /// Bytes of their workspaces.
    pub(super) busy_bytes: u64,
}

/// Why there is no key.
pub(super) enum KeyError {
    /// The key's source, or its sizes.
    Source(SynthesisError),
    /// The device, or its memory.
    Device(Error),
    /// There is no room while other proofs run.
    Busy,
}

impl From<SynthesisError> for KeyError {
    fn from(error: SynthesisError) -> Self {
        Self::Source(error)
    }
}

impl From<Error> for KeyError {
    fn from(error: Error) -> Self {
        Self::Device(error)
    }
}

impl Keys {
    pub(super) fn new(limit: Option<u64>) -> Self {
        Self { keys: Vec::new(), limit }
    }

    /// Bytes that may be taken beside what is taken already, and all bytes.
    fn room(&self, slot: &Slot, others: &Others<'_>) -> Result<(u64, u64), Error> {
        let (free, total) = slot.device().memory()?;
        let free = free.saturating_sub(MARGIN);
        Ok(match self.limit {
            None => (free, total),
            Some(limit) => {
                let idle: u64 = others.idle.iter().map(Slot::workspace).sum();
                let taken = self.bytes() + slot.workspace() + idle + others.busy_bytes;
                (free.min(limit.saturating_sub(taken)), total.min(limit))
            }
        })
    }

    /// Bytes that keys take on the device.
    pub(super) fn bytes(&self) -> u64 {
        self.keys.iter().map(|(_, key)| key.resident_bytes()).sum()
    }

    pub(super) fn forget(&mut self) {
        self.keys.clear();
    }

    /// The digests of the keys on the device.
    pub(super) fn digests(&self) -> Vec<KeyDigest> {
        self.keys.iter().map(|(id, _)| id.digest).collect()
    }

    /// The key, loaded if it is not there, and the slot's workspace made large enough for a proof with it. All sizes are
    /// compared with what is free before anything is allocated: the workspaces of idle slots go first, then what runs is
    /// waited for, then other keys go, and if that is not enough, the largest queries stay on the host and are streamed.
    /// Says whether the key was loaded now.
    pub(super) fn get(
        &mut self,
        slot: &mut Slot,
        mut others: Others<'_>,
        id: KeyId,
        shape: Shape,
        source: &dyn KeySource,
        progress: Option<&KeyProgress>,
    ) -> Result<(Arc<Key>, bool), KeyError> {
        let device = slot.device();
        if let Some(at) = self.keys.iter().position(|(known, _)| *known == id) {
            let entry = self.keys.remove(at);
            let key = entry.1.clone();
            self.keys.push(entry);
            let needed = prover_cuda::slot::workspace_bytes(device, shape, &key)?;
            if needed > slot.workspace() {
                let missing = needed - slot.workspace();
                let (free, total) = self.make_room(slot, &mut others, missing, 1)?;
                if free < missing {
                    return Err(out_of_memory(missing, free, total).into());
                }
                slot.reserve(needed)?;
            }
            return Ok((key, false));
        }
        let resident = self.choose(slot, &mut others, id, shape)?;
        slot.reserve(planned_bytes(device, shape, resident)?)?;
        let start = Instant::now();
        let key = Arc::new(load(device, id, shape, source, resident, progress)?);
        info!(
            bytes = key.resident_bytes(),
            streamed_bytes = key.streamed_bytes(),
            seconds = start.elapsed().as_secs_f64(),
            "a proving key is on the device"
        );
        self.keys.push((id, key.clone()));
        Ok((key, true))
    }

    /// Which queries will be on the device; what is in their way goes.
    fn choose(
        &mut self,
        slot: &mut Slot,
        others: &mut Others<'_>,
        id: KeyId,
        shape: Shape,
    ) -> Result<[bool; 5], KeyError> {
        let device = slot.device();
        let mut resident = [true; 5];
        loop {
            let workspace = planned_bytes(device, shape, resident)?;
            let queries: u64 = (0..5).filter(|&i| resident[i]).map(|i| query_bytes(&id, i)).sum();
            let needed = queries + workspace.saturating_sub(slot.workspace());
            let (free, total) = self.make_room(slot, others, needed, 0)?;
            if free >= needed {
                if resident != [true; 5] {
                    let streamed: u64 = (0..5).filter(|&i| !resident[i]).map(|i| query_bytes(&id, i)).sum();
                    warn!(
                        streamed_bytes = streamed,
                        free_bytes = free,
                        "the proving key does not fit the device: part of it is streamed in every proof"
                    );
                }
                return Ok(resident);
            }
            let largest = (0..5)
                .filter(|&i| resident[i] && query_bytes(&id, i) > 0)
                .max_by_key(|&i| query_bytes(&id, i));
            match largest {
                Some(i) => resident[i] = false,
                None => return Err(out_of_memory(needed, free, total).into()),
            }
        }
    }

    /// Makes room until so many bytes may be taken: idle workspaces, then keys but for the `keep` latest. Returns how many
    /// bytes may be taken, and all bytes.
    fn make_room(
        &mut self,
        slot: &Slot,
        others: &mut Others<'_>,
        bytes: u64,
        keep: usize,
    ) -> Result<(u64, u64), KeyError> {
        loop {
            let (free, total) = self.room(slot, others)?;
            if free >= bytes {
                return Ok((free, total));
            }
            if let Some(idle) = others.idle.iter_mut().find(|idle| idle.workspace() > 0) {
                idle.release();
            } else if others.busy {
                // A key is not thrown out for a second slot.
                return Err(KeyError::Busy);
            } else if self.keys.len() > keep {
                let (_, oldest) = self.keys.remove(0);
                info!(bytes = oldest.resident_bytes(), "a proving key leaves the device to make room");
            } else {
                return Ok((free, total));
            }
        }
    }
}

fn out_of_memory(needed: u64, free: u64, total: u64) -> Error {
    let text = format!(
        "device memory: {} more needed, {} of {} free beside {} that are left alone; end other programs on the device, raise --device-memory-max, or prove with --backend cpu",
        format_size(needed),
        format_size(free),
        format_size(total),
        format_size(MARGIN)
    );
    Error::new(Kind::OutOfMemory, 0, text)
}

fn query_bytes(id: &KeyId, query: usize) -> u64 {
    id.counts[query] as u64 * if query == 4 { 192 } else { 96 }
}

fn load(
    device: Device,
    id: KeyId,
    shape: Shape,
    source: &dyn KeySource,
    resident: [bool; 5],
    progress: Option<&KeyProgress>,
) -> Result<Key, KeyError> {
    let total: u64 = (0..5).map(|i| query_bytes(&id, i)).sum();
    let mut done = 0;
    let mut step = |bytes: u64| {
        done += bytes;
        if let Some(progress) = progress {
            progress(done, total);
        }
        true
    };
    let (h, l) = (source.h(id.counts[0])?, source.l(shape.aux)?);
    let h = query(device, "the H query", &[(&h, id.counts[0])], cast::g1, resident[0], &mut step)?;
    let l = query(device, "the L query", &[(&l, shape.aux)], cast::g1, resident[1], &mut step)?;
    let (inputs, aux) = source.a(shape.inputs, shape.a_aux)?;
    let parts = [(&inputs, shape.inputs), (&aux, shape.a_aux)];
    let a = query(device, "the A query", &parts, cast::g1, resident[2], &mut step)?;
    let (inputs, aux) = source.b_g1(shape.b_inputs, shape.b_aux)?;
    let parts = [(&inputs, shape.b_inputs), (&aux, shape.b_aux)];
    let b_g1 = query(device, "the B query in G1", &parts, cast::g1, resident[3], &mut step)?;
    let (inputs, aux) = source.b_g2(shape.b_inputs, shape.b_aux)?;
    let parts = [(&inputs, shape.b_inputs), (&aux, shape.b_aux)];
    let b_g2 = query(device, "the B query in G2", &parts, cast::g2, resident[4], &mut step)?;
    Ok(Key { h, l, a, b_g1, b_g2 })
}

/// One query, from its parts: a vector, and how many of its points from its first one on.
fn query<G, T: Plain>(
    device: Device,
    name: &str,
    parts: &[(&HostQuery<G>, usize)],
    cast: impl Fn(&[G]) -> &[T],
    resident: bool,
    step: &mut dyn FnMut(u64) -> bool,
) -> Result<Query<T>, KeyError> {
    let mut slices: Vec<&[T]> = Vec::new();
    for ((points, first), count) in parts {
        let held = points.len().saturating_sub(*first);
        if held < *count {
            return Err(SynthesisError::IncompatibleLengthVector(format!(
                "{name} has {held} bases, the circuit needs {count}: the parameters belong to another circuit"
            ))
            .into());
        }
        slices.push(cast(&points[*first..*first + *count]));
    }
    if resident {
        return Ok(Query::upload(device, &slices, step)?);
    }
    // A vector of its own: the caller's may have been locked by somebody else, and lies in two parts.
    let count: usize = slices.iter().map(|slice| slice.len()).sum();
    let mut points: Vec<T> = Vec::new();
    points
        .try_reserve_exact(count)
        .map_err(|e| SynthesisError::IoError(std::io::Error::new(std::io::ErrorKind::OutOfMemory, e)))?;
    for slice in slices {
        points.extend_from_slice(slice);
    }
    let pinned = Arc::new(Pinned::new(device, Arc::new(points))?);
    step(Query::<T>::bytes(count));
    Ok(Query::streamed(pinned, 0, count)?)
}

/// The sizes of the queries: H, L, A, B in G1, B in G2.
pub(super) fn counts(shape: Shape) -> [usize; 5] {
    let b = shape.b_inputs + shape.b_aux;
    [(1 << shape.log_domain) - 1, shape.aux, shape.inputs + shape.a_aux, b, b]
}

const _: () = assert!(std::mem::size_of::<G1Affine>() == 96 && std::mem::size_of::<G2Affine>() == 192);
