//! One proof at a time on a device.
//!
//! ```text
//!   Slot ──begin──► Uploading<D> ──uploaded──► Computing ──finish──► Slot, Sums
//!                    holds D: the device reads it      D is back
//! ```
//!
//! The states own what the device uses, so that nothing can be freed under it: forgetting a state leaks its memory.

use std::ffi::c_void;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::{null, null_mut};
use std::sync::Arc;

use blst::{blst_fr, blst_p1, blst_p2};

use crate::device::{Buffer, Device};
use crate::error::{call, Error};
use crate::key::Key;
use crate::sys;

/// The sizes of a proof, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Shape {
    /// Length of a, b and c: constraints, with the one for each input.
    pub rows: usize,
    /// log2 of the evaluation domain.
    pub log_domain: u32,
    /// With the constant one.
    pub inputs: usize,
    pub aux: usize,
    /// Auxiliary variables in the A query.
    pub a_aux: usize,
    /// Inputs in the B query.
    pub b_inputs: usize,
    /// Auxiliary variables in the B query.
    pub b_aux: usize,
}

impl Shape {
    fn raw(self) -> sys::Shape {
        sys::Shape {
            rows: self.rows as u64,
            log_domain: self.log_domain,
            reserved: 0,
            inputs: self.inputs as u64,
            aux: self.aux as u64,
            a_aux: self.a_aux as u64,
            b_inputs: self.b_inputs as u64,
            b_aux: self.b_aux as u64,
        }
    }
}

/// What the device reads of an assignment. Densities are bits, the least significant first.
#[allow(missing_docs)]
pub struct Views<'a> {
    pub a: &'a [blst_fr],
    pub b: &'a [blst_fr],
    pub c: &'a [blst_fr],
    pub aux: &'a [blst_fr],
    pub inputs: &'a [blst_fr],
    pub a_aux_density: &'a [u64],
    pub b_input_density: &'a [u64],
    pub b_aux_density: &'a [u64],
}

/// An assignment that a device may read while it is held.
///
/// # Safety
/// The views stay where they are, unchanged, until the value is dropped, even if it is moved meanwhile.
pub unsafe trait Assignment {
    /// What is read.
    fn views(&self) -> Views<'_>;
}

/// A failed step, with what the caller handed over.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Failed<T> {
    /// What failed.
    #[source]
    pub error: Error,
    /// What was handed over.
    pub value: T,
}

/// Streams, events and memory for one proof at a time.
#[derive(Debug)]
pub struct Slot {
    device: Device,
    raw: *mut sys::Slot,
    workspace: Option<Buffer>,
}

// SAFETY: the library ties nothing to a thread: each function makes the slot's device current first. `&Slot` offers nothing
// that calls into the library.
unsafe impl Send for Slot {}

/// Bytes of device memory that a proof of this shape with this key needs beside the key.
///
/// # Errors
/// Sizes that do not fit together; a domain that is too large.
pub fn workspace_bytes(device: Device, shape: Shape, key: &Key) -> Result<u64, Error> {
    plan(device, shape, &key.raw())
}

/// The same before the key is loaded: `resident` says of H, L, A, B in G1 and B in G2 which will be on the device.
///
/// # Errors
/// As [`workspace_bytes`].
pub fn planned_bytes(device: Device, shape: Shape, resident: [bool; 5]) -> Result<u64, Error> {
    let domain = 1u64.checked_shl(shape.log_domain).unwrap_or(u64::MAX);
    let b = (shape.b_inputs + shape.b_aux) as u64;
    let counts = [domain - 1, shape.aux as u64, (shape.inputs + shape.a_aux) as u64, b, b];
    let query = |i: usize| sys::Query {
        points: null(),
        count: counts[i],
        host: i32::from(!resident[i]),
        reserved: 0,
    };
    plan(device, shape, &sys::Key { h: query(0), l: query(1), a: query(2), b_g1: query(3), b_g2: query(4) })
}

fn plan(device: Device, shape: Shape, key: &sys::Key) -> Result<u64, Error> {
    let mut bytes = 0;
    // SAFETY: the pointers are to values that live through the call; the key's points are not read.
    call(|error| unsafe { sys::pc_plan_proof(device.raw(), &shape.raw(), key, &mut bytes, error) })?;
    Ok(bytes)
}

impl Slot {
    /// A slot without memory.
    ///
    /// # Errors
    /// What the device says.
    pub fn new(device: Device) -> Result<Self, Error> {
        let mut raw = null_mut();
        // SAFETY: the pointer is to a variable that lives through the call.
        call(|error| unsafe { sys::pc_slot_open(device.raw(), &mut raw, error) })?;
        Ok(Self { device, raw, workspace: None })
    }

    /// Its device.
    pub fn device(&self) -> Device {
        self.device
    }

    /// Bytes of its workspace.
    pub fn workspace(&self) -> u64 {
        self.workspace.as_ref().map_or(0, Buffer::bytes)
    }

    /// Makes the workspace at least so many bytes. What it has is freed first: no two are held at a time.
    ///
    /// # Errors
    /// No memory; the slot then has none.
    pub fn reserve(&mut self, bytes: u64) -> Result<(), Error> {
        if self.workspace() < bytes || self.workspace.is_none() {
            self.workspace = None;
            self.workspace = Some(Buffer::new(self.device, bytes)?);
        }
        Ok(())
    }

    /// Frees the workspace.
    pub fn release(&mut self) {
        self.workspace = None;
    }

    /// Begins the upload of an assignment.
    ///
    /// # Errors
    /// Views, key and shape that do not fit together, a workspace that is too small ([`reserve`](Self::reserve)), or what the
    /// device says. Nothing is read any more then.
    pub fn begin<D: Assignment>(
        self,
        shape: Shape,
        key: Arc<Key>,
        data: D,
    ) -> Result<Uploading<D>, Failed<(Self, D)>> {
        match self.try_begin(shape, &key, &data) {
            Ok(()) => Ok(Uploading { parts: ManuallyDrop::new((self, key, data)) }),
            Err(error) => Err(Failed { error, value: (self, data) }),
        }
    }

    fn try_begin(&self, shape: Shape, key: &Key, data: &impl Assignment) -> Result<(), Error> {
        let views = data.views();
        let words = |bits: usize| bits.div_ceil(64);
        for (what, expected, found) in [
            ("elements of a", shape.rows, views.a.len()),
            ("elements of b", shape.rows, views.b.len()),
            ("elements of c", shape.rows, views.c.len()),
            ("auxiliary variables", shape.aux, views.aux.len()),
            ("inputs", shape.inputs, views.inputs.len()),
            ("words of the A density", words(shape.aux), views.a_aux_density.len()),
            ("words of the B density of the inputs", words(shape.inputs), views.b_input_density.len()),
            ("words of the B density", words(shape.aux), views.b_aux_density.len()),
        ] {
            if expected != found {
                return Err(Error::usage(format!("{what}: expected {expected}, found {found}")));
            }
        }
        for (what, words, bits, expected) in [
            ("auxiliary variables in the A query", views.a_aux_density, shape.aux, shape.a_aux),
            ("inputs in the B query", views.b_input_density, shape.inputs, shape.b_inputs),
            ("auxiliary variables in the B query", views.b_aux_density, shape.aux, shape.b_aux),
        ] {
            // The device trusts these numbers: a wrong one would make it read beyond the query's points.
            let found = count_ones(words, bits);
            if found != expected {
                return Err(Error::usage(format!("{what}: expected {expected}, found {found}")));
            }
        }
        let assignment = sys::Assignment {
            a: views.a.as_ptr().cast(),
            b: views.b.as_ptr().cast(),
            c: views.c.as_ptr().cast(),
            aux: views.aux.as_ptr().cast(),
            inputs: views.inputs.as_ptr().cast(),
            a_aux_density: views.a_aux_density.as_ptr(),
            b_input_density: views.b_input_density.as_ptr(),
            b_aux_density: views.b_aux_density.as_ptr(),
        };
        let (memory, bytes) = match &self.workspace {
            Some(buffer) => (buffer.as_ptr(), buffer.bytes()),
            None => return Err(Error::usage("the slot has no workspace")),
        };
        // SAFETY: the lengths of all views were compared with the shape, whose numbers say how much is read. They are stable
        // (`Assignment`) and held by `Uploading` until the device is done. The workspace and the key belong to the states.
        call(|error| unsafe {
            sys::pc_slot_begin(self.raw, &shape.raw(), &key.raw(), &assignment, memory, bytes, error)
        })
    }

    /// Waits for whatever runs.
    fn abandon(&self) -> Result<(), Error> {
        // SAFETY: the slot is open.
        call(|error| unsafe { sys::pc_slot_abandon(self.raw, error) })
    }
}

fn count_ones(words: &[u64], bits: usize) -> usize {
    let ones = |word: &u64| word.count_ones() as usize;
    let whole = bits / 64;
    let rest = match bits % 64 {
        0 => 0,
        used => (words[whole] & ((1 << used) - 1)).count_ones() as usize,
    };
    words[..whole].iter().map(ones).sum::<usize>() + rest
}

impl Drop for Slot {
    fn drop(&mut self) {
        // SAFETY: it is closed once. Closing waits for what runs; the workspace is freed afterwards.
        let _ = call(|error| unsafe { sys::pc_slot_close(self.raw, error) });
    }
}

/// A proof whose assignment the device may still read.
///
/// Dropping it waits for the device. If the device failed, what it may still read is leaked.
#[must_use = "dropping it ends the proof"]
pub struct Uploading<D: Assignment> {
    parts: ManuallyDrop<(Slot, Arc<Key>, D)>,
}

impl<D: Assignment> Uploading<D> {
    /// Enqueues the computation. Returns before it ends, unless points are streamed.
    ///
    /// # Errors
    /// What the device says.
    pub fn run(&mut self) -> Result<(), Error> {
        // SAFETY: the slot is open and has begun.
        call(|error| unsafe { sys::pc_slot_run(self.parts.0.raw, error) })
    }

    /// The CUDA event (`CUevent`) that passes when the device no longer reads the assignment. It lives as long as the slot,
    /// which records it anew in its next proof.
    ///
    /// # Errors
    /// What the library says.
    pub fn event(&self) -> Result<*mut c_void, Error> {
        let mut event = null_mut();
        // SAFETY: the slot is open.
        call(|error| unsafe { sys::pc_slot_event(self.parts.0.raw, &mut event, error) })?;
        Ok(event)
    }

    /// Waits until the device no longer reads the assignment, and gives it back.
    ///
    /// # Errors
    /// The device failed. Whether it still reads the assignment is then unknown: it must not be freed.
    pub fn uploaded(self) -> Result<(Computing, D), Failed<D>> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the slot is open.
        let waited = call(|error| unsafe { sys::pc_slot_wait_upload(this.parts.0.raw, error) });
        // SAFETY: `this` is never used nor dropped again.
        let (slot, key, data) = unsafe { ManuallyDrop::take(&mut this.parts) };
        match waited {
            Ok(()) => Ok((Computing { parts: Some((slot, key)) }, data)),
            Err(error) => Err(Failed { error, value: data }),
        }
    }
}

impl<D: Assignment> Drop for Uploading<D> {
    fn drop(&mut self) {
        if self.parts.0.abandon().is_ok() {
            // SAFETY: dropped once, here; the device has read what it was to read.
            unsafe { ManuallyDrop::drop(&mut self.parts) }
        }
        // Else the device may still read the data: it is leaked, with the slot.
    }
}

/// The sums of the five queries, as Jacobian points.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Sums {
    pub h: blst_p1,
    pub l: blst_p1,
    pub a: blst_p1,
    pub b_g1: blst_p1,
    pub b_g2: blst_p2,
    /// How long it took.
    pub times: Times,
}

/// When something began and ended, in seconds since the first copy of its proof began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Span {
    pub begin: f64,
    pub end: f64,
}

impl Span {
    /// How long it took.
    pub fn seconds(self) -> f64 {
        (self.end - self.begin).max(0.0)
    }
}

/// By CUDA events. The sums of the witness run beside the transforms: the parts do not add up to the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Times {
    /// Copy of the witness.
    pub upload_witness: Span,
    /// Copy of a, b and c.
    pub upload_abc: Span,
    pub ntt: Span,
    pub h: Span,
    pub l: Span,
    pub a: Span,
    pub b_g1: Span,
    pub b_g2: Span,
}

impl Times {
    /// From the first copy to the last sum, in seconds.
    pub fn total(&self) -> f64 {
        [self.h, self.l, self.a, self.b_g1, self.b_g2].iter().map(|span| span.end).fold(0.0, f64::max)
    }
}

/// A proof that computes, and needs the assignment no more.
#[must_use = "dropping it ends the proof"]
#[derive(Debug)]
pub struct Computing {
    parts: Option<(Slot, Arc<Key>)>,
}

impl Computing {
    /// Waits for the result. The slot is free again, also after an error.
    pub fn finish(mut self) -> (Slot, Result<Sums, Error>) {
        let (slot, _key) = self.parts.take().expect("it is taken here alone");
        let mut sums = MaybeUninit::<sys::Sums>::zeroed();
        // SAFETY: the slot is open and running; `sums` is the library's to fill.
        let finished = call(|error| unsafe { sys::pc_slot_finish(slot.raw, sums.as_mut_ptr(), error) });
        let result = finished.map(|()| {
            // SAFETY: zeroed at first, plain bytes and numbers, and filled now.
            let mut sums = unsafe { sums.assume_init() };
            crate::fault::corrupt(&mut sums);
            convert(&sums)
        });
        (slot, result)
    }
}

impl Drop for Computing {
    fn drop(&mut self) {
        if let Some((slot, key)) = self.parts.take() {
            if slot.abandon().is_err() {
                // The device may still read the key.
                std::mem::forget(key);
            }
        }
    }
}

fn convert(sums: &sys::Sums) -> Sums {
    // SAFETY: both are plain words of the same size (checked by `transmute`), in the same layout (`prover_cuda.h`).
    let g1 = |bytes: [u8; 144]| unsafe { std::mem::transmute::<[u8; 144], blst_p1>(bytes) };
    // SAFETY: the same.
    let g2 = |bytes: [u8; 288]| unsafe { std::mem::transmute::<[u8; 288], blst_p2>(bytes) };
    let span = |span: sys::Span| Span { begin: f64::from(span.begin) / 1e3, end: f64::from(span.end) / 1e3 };
    let t = &sums.times;
    Sums {
        h: g1(sums.h),
        l: g1(sums.l),
        a: g1(sums.a),
        b_g1: g1(sums.b_g1),
        b_g2: g2(sums.b_g2),
        times: Times {
            upload_witness: span(t.upload_witness),
            upload_abc: span(t.upload_abc),
            ntt: span(t.ntt),
            h: span(t.h),
            l: span(t.l),
            a: span(t.a),
            b_g1: span(t.b_g1),
            b_g2: span(t.b_g2),
        },
    }
}
