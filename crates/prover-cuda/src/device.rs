//! Devices and their memory.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;

use blst::{blst_fr, blst_p1_affine, blst_p2_affine};

use crate::error::{call, Error};
use crate::sys;

/// An open device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    ordinal: i32,
}

impl Device {
    /// Opens devices by their ordinals, for the life of the process; no other device gets a context.
    ///
    /// # Errors
    /// An ordinal that does not exist; what the driver says.
    pub fn open(ordinals: &[u32]) -> Result<Vec<Self>, Error> {
        let wanted = ordinals
            .iter()
            .map(|&ordinal| {
                i32::try_from(ordinal).map_err(|_| Error::usage(format!("there is no device {ordinal}")))
            })
            .collect::<Result<Vec<i32>, Error>>()?;
        let count = i32::try_from(wanted.len()).map_err(|_| Error::usage("too many devices"))?;
        // SAFETY: `wanted` holds `count` numbers.
        call(|error| unsafe { sys::pc_open(wanted.as_ptr(), count, error) })?;
        Ok(wanted.into_iter().map(|ordinal| Self { ordinal }).collect())
    }

    /// Its number.
    pub fn ordinal(self) -> u32 {
        self.ordinal.unsigned_abs()
    }

    pub(crate) fn raw(self) -> i32 {
        self.ordinal
    }

    /// Bytes of memory that are free, and of all.
    ///
    /// # Errors
    /// What the driver says.
    pub fn memory(self) -> Result<(u64, u64), Error> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the pointers are to variables that live through the call.
        call(|error| unsafe { sys::pc_memory(self.ordinal, &mut free, &mut total, error) })?;
        Ok((free, total))
    }

    /// Asks the device for answers that are known.
    ///
    /// # Errors
    /// What differs; [`Kind::WrongArchitecture`](crate::error::Kind::WrongArchitecture) if no code for it was compiled.
    pub fn self_test(self) -> Result<(), Error> {
        // SAFETY: no memory of ours is handed over.
        call(|error| unsafe { sys::pc_self_test(self.ordinal, error) })
    }

    /// `scalars[i] * base` in affine coordinates, for a base in G1.
    ///
    /// # Errors
    /// What the device says.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn fixed_base_g1(
        self,
        base: &blst_p1_affine,
        scalars: &[blst_fr],
        out: &mut [blst_p1_affine],
    ) -> Result<(), Error> {
        assert_eq!(scalars.len(), out.len(), "one result a scalar");
        self.fixed_base(1, std::ptr::from_ref(base).cast(), scalars, out.as_mut_ptr().cast())
    }

    /// The same in G2.
    ///
    /// # Errors
    /// What the device says.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn fixed_base_g2(
        self,
        base: &blst_p2_affine,
        scalars: &[blst_fr],
        out: &mut [blst_p2_affine],
    ) -> Result<(), Error> {
        assert_eq!(scalars.len(), out.len(), "one result a scalar");
        self.fixed_base(2, std::ptr::from_ref(base).cast(), scalars, out.as_mut_ptr().cast())
    }

    fn fixed_base(
        self,
        group: i32,
        base: *const c_void,
        scalars: &[blst_fr],
        out: *mut c_void,
    ) -> Result<(), Error> {
        let from = scalars.as_ptr().cast();
        // SAFETY: the callers made `base` and `out` of the group's type, `out` as long as `scalars`.
        call(|error| unsafe {
            sys::pc_fixed_base(self.ordinal, group, base, from, scalars.len() as u64, out, error)
        })
    }
}

/// Memory of a device.
#[derive(Debug)]
pub struct Buffer {
    device: Device,
    memory: *mut c_void,
    bytes: u64,
}

// SAFETY: the pointer is to memory of the device, which any thread may name; the host never follows it.
unsafe impl Send for Buffer {}
// SAFETY: the same; what a shared reference offers reads the address and the size.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Takes memory. Contents are arbitrary.
    ///
    /// # Errors
    /// [`Kind::OutOfMemory`](crate::error::Kind::OutOfMemory).
    pub fn new(device: Device, bytes: u64) -> Result<Self, Error> {
        let mut memory = null_mut();
        // SAFETY: the pointer is to a variable that lives through the call.
        call(|error| unsafe { sys::pc_alloc(device.ordinal, bytes.max(1), &mut memory, error) })?;
        Ok(Self { device, memory, bytes })
    }

    /// Bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn as_ptr(&self) -> *mut c_void {
        self.memory
    }

    /// Copies from the host to `offset`, and waits.
    ///
    /// # Errors
    /// Data that goes over the end; what the device says.
    pub fn write<T: Plain>(&mut self, offset: u64, data: &[T]) -> Result<(), Error> {
        let size = std::mem::size_of_val(data) as u64;
        if offset.checked_add(size).is_none_or(|end| end > self.bytes) {
            return Err(Error::usage(format!(
                "{size} bytes at {offset} do not fit a buffer of {}",
                self.bytes
            )));
        }
        // SAFETY: the target lies inside the buffer, and `data` is plain bytes.
        call(|error| unsafe {
            let to = self.memory.cast::<u8>().add(offset as usize).cast();
            sys::pc_write(self.device.ordinal, to, data.as_ptr().cast(), size, error)
        })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the memory came from pc_alloc and is freed once. cudaFree waits for kernels that use it.
        // An error (the driver is gone, the device has failed) leaves nothing to do.
        let _ = call(|error| unsafe { sys::pc_free(self.device.ordinal, self.memory, error) });
    }
}

/// Types that are plain bytes to a device.
///
/// # Safety
/// Every byte is initialised: no padding, no pointers.
pub unsafe trait Plain: Copy {}

// SAFETY: arrays of 64-bit words.
unsafe impl Plain for blst_fr {}
// SAFETY: as above.
unsafe impl Plain for blst_p1_affine {}
// SAFETY: as above.
unsafe impl Plain for blst_p2_affine {}

/// Page-locked memory that was there before: a vector of points, shared, and locked until this is dropped.
#[derive(Debug)]
pub struct Pinned<T: Plain> {
    device: Device,
    points: Arc<Vec<T>>,
}

impl<T: Plain> Pinned<T> {
    /// Page-locks the vector's elements where they are.
    ///
    /// # Errors
    /// The system or the driver refuses, for instance because the memory is locked already.
    pub fn new(device: Device, points: Arc<Vec<T>>) -> Result<Self, Error> {
        let size = std::mem::size_of_val(&points[..]) as u64;
        if size > 0 {
            // SAFETY: the vector is shared and so never moves or shrinks while it is held here.
            call(|error| unsafe { sys::pc_pin(device.ordinal, points.as_ptr().cast(), size, error) })?;
        }
        Ok(Self { device, points })
    }

    /// The elements.
    pub fn points(&self) -> &[T] {
        &self.points
    }
}

impl<T: Plain> Drop for Pinned<T> {
    fn drop(&mut self) {
        if !self.points.is_empty() {
            // SAFETY: it was locked in `new`; the vector is dropped afterwards.
            let _ = call(|error| unsafe {
                sys::pc_unpin(self.device.ordinal, self.points.as_ptr().cast(), error)
            });
        }
    }
}
