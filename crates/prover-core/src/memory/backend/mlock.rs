//! The memory of [`Pages`](super::Pages), locked in RAM.

use std::ptr::NonNull;

use pinned_alloc::{AllocError, Cause, Residency};

use super::pages::Mapping;
use super::{os, Backend, Region};

const REMEDY: &str =
    "raise the limit on locked memory (`ulimit -l`, LimitMEMLOCK= of a systemd unit, --ulimit memlock= of a \
     container), or use memory that is not locked";

/// `mlock`ed memory: never paged out, but unknown to a device. Limits are often 8 MiB for ordinary users, so
/// a refusal is normal; it is an error with the bytes and the remedy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mlock;

impl Mlock {
    /// The backend has no settings.
    pub const fn new() -> Self {
        Self
    }
}

impl Backend for Mlock {
    fn name(&self) -> &'static str {
        "mlock"
    }

    fn residency(&self) -> Residency {
        Residency::Locked
    }

    fn map(&self, size: usize, align: usize, reserve: usize) -> Result<Box<dyn Region>, AllocError> {
        // Faulted in first: that takes all threads, where `mlock` itself would fault with one.
        let mapping = Mapping::new(size, align, reserve, os::reserve)?;
        lock(&mapping, 0)?;
        Ok(Box::new(Locked { mapping, locked: true }))
    }
}

/// Locks what is committed from `offset` on.
fn lock(mapping: &Mapping, offset: usize) -> Result<(), AllocError> {
    let size = mapping.committed() - offset;
    // SAFETY: from `offset` (a former committed size, so whole pages) to `committed` is allowed memory of the
    // mapping.
    unsafe { os::lock(mapping.at(offset), size) }
        .map_err(|code| AllocError::Refused { requested: size, cause: Cause::new("mlock", code, REMEDY) })
}

#[derive(Debug)]
struct Locked {
    /// Unmapping unlocks.
    mapping: Mapping,
    locked: bool,
}

// SAFETY: all is delegated to the mapping, whose `commit` keeps the contract; `decommit` takes back only
// bytes that this call of `grow` has added.
unsafe impl Region for Locked {
    fn as_ptr(&self) -> NonNull<u8> {
        self.mapping.first()
    }

    fn committed(&self) -> usize {
        self.mapping.committed()
    }

    fn reserved(&self) -> usize {
        self.mapping.reserved()
    }

    fn residency(&self) -> Residency {
        if self.locked {
            Residency::Locked
        } else {
            Residency::Pageable
        }
    }

    fn is_here(&self) -> bool {
        self.mapping.is_here()
    }

    fn grow(&mut self, size: usize) -> Result<(), AllocError> {
        let before = self.mapping.committed();
        self.mapping.commit(size)?;
        if self.locked && self.mapping.committed() > before {
            // A part that was locked before the refusal is unlocked by being taken back.
            lock(&self.mapping, before).inspect_err(|_| self.mapping.decommit(before))?;
        }
        Ok(())
    }

    fn unpin(&mut self) -> Result<(), AllocError> {
        let size = self.mapping.committed();
        // SAFETY: the committed range is allowed memory of the mapping.
        unsafe { os::unlock(self.mapping.first(), size) }.map_err(|code| AllocError::Refused {
            requested: size,
            cause: Cause::new("munlock", code, "the memory stays locked until the process ends"),
        })?;
        self.locked = false;
        Ok(())
    }
}
