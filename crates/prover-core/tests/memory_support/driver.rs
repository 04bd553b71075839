//! A driver that keeps books, and fails when it is told to, under the real backends.

use std::alloc::{alloc, dealloc, Layout};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use prover_core::cuda::CudaError;
use prover_core::memory::backend::{Backend, CudaHostAlloc, CudaRegister, Registrar, PAGE};

pub const OUT_OF_MEMORY: i32 = 2;
pub const DEINITIALIZED: i32 = 4;
pub const ILLEGAL_ADDRESS: i32 = 700;
const ALREADY_REGISTERED: i32 = 712;
const NOT_REGISTERED: i32 = 713;

/// What is registered and allocated, by address, in bytes. It checks what the driver checks, and more: ranges are
/// mapped, in whole pages, and disjoint.
#[derive(Debug, Default)]
pub struct HostileDriver {
    registered: Mutex<BTreeMap<usize, usize>>,
    allocated: Mutex<BTreeMap<usize, usize>>,
    calls: AtomicU64,
    fail_from: AtomicU64,
    fail_to: AtomicU64,
    fails_with: AtomicI32,
    refuse_above: AtomicUsize,
    /// Calls that a correct caller never makes.
    pub wrong: AtomicU64,
}

impl HostileDriver {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    pub fn backends(self: &Arc<Self>) -> [Box<dyn Backend>; 2] {
        [
            Box::new(CudaRegister::with_registrar(self.clone())),
            Box::new(CudaHostAlloc::with_registrar(self.clone())),
        ]
    }

    /// The `n`-th call from now (1 is the next) fails with `code`, and so do those after it up to the `m`-th.
    pub fn fail(&self, n: u64, m: u64, code: i32) {
        self.calls.store(0, SeqCst);
        self.fails_with.store(code, SeqCst);
        self.fail_from.store(n, SeqCst);
        self.fail_to.store(m, SeqCst);
    }

    pub fn behave(&self) {
        self.fail(0, 0, 0);
    }

    /// Every registration of more than so many bytes fails, as those of 512 GiB do.
    pub fn refuse_above(&self, bytes: usize) {
        self.refuse_above.store(bytes, SeqCst);
    }

    pub fn calls(&self) -> u64 {
        self.calls.load(SeqCst)
    }

    /// Bytes registered and allocated.
    pub fn held(&self) -> usize {
        let sum = |map: &Mutex<BTreeMap<usize, usize>>| map.lock().unwrap().values().sum::<usize>();
        sum(&self.registered) + sum(&self.allocated)
    }

    /// Forgets what is held, which is what the caller left to the process.
    pub fn forget(&self) {
        self.registered.lock().unwrap().clear();
        self.allocated.lock().unwrap().clear();
    }

    /// How many registrations there are.
    pub fn registrations(&self) -> usize {
        self.registered.lock().unwrap().len()
    }

    fn call(&self, call: &'static str) -> Result<(), CudaError> {
        let number = self.calls.fetch_add(1, SeqCst) + 1;
        if (self.fail_from.load(SeqCst)..=self.fail_to.load(SeqCst)).contains(&number) {
            return error(call, self.fails_with.load(SeqCst));
        }
        Ok(())
    }

    fn is_wrong(&self, call: &'static str, code: i32) -> Result<(), CudaError> {
        self.wrong.fetch_add(1, SeqCst);
        error(call, code)
    }
}

fn error<T>(call: &'static str, code: i32) -> Result<T, CudaError> {
    Err(CudaError::Call { call, code })
}

/// Whether all pages of the range are mapped.
fn is_mapped(first: usize, size: usize) -> bool {
    let mut resident = vec![0u8; size / PAGE];
    let first = std::ptr::with_exposed_provenance_mut::<u8>(first);
    // SAFETY: mincore reads no memory of the range, and writes one byte a page to the vector.
    unsafe { libc::mincore(first.cast(), size, resident.as_mut_ptr().cast()) == 0 }
}

fn pages(size: usize) -> Layout {
    Layout::from_size_align(size, PAGE).unwrap()
}

// SAFETY: memory comes from the global allocator and is its owner's until freed; failing calls change nothing.
unsafe impl Registrar for HostileDriver {
    unsafe fn register(&self, first: NonNull<u8>, size: usize) -> Result<(), CudaError> {
        const CALL: &str = "cuMemHostRegister";
        self.call(CALL)?;
        let limit = self.refuse_above.load(SeqCst);
        if limit > 0 && size > limit {
            return error(CALL, OUT_OF_MEMORY);
        }
        let start = first.as_ptr().expose_provenance();
        if size == 0 || !start.is_multiple_of(PAGE) || !size.is_multiple_of(PAGE) || !is_mapped(start, size) {
            return self.is_wrong(CALL, 1);
        }
        let mut registered = self.registered.lock().unwrap();
        if registered.iter().any(|(other, bytes)| start < other + bytes && *other < start + size) {
            return self.is_wrong(CALL, ALREADY_REGISTERED);
        }
        registered.insert(start, size);
        Ok(())
    }

    unsafe fn unregister(&self, first: NonNull<u8>) -> Result<(), CudaError> {
        const CALL: &str = "cuMemHostUnregister";
        self.call(CALL)?;
        let start = first.addr().get();
        match self.registered.lock().unwrap().remove(&start) {
            // Unmapped first: a device could have read what is there by then.
            Some(size) if !is_mapped(start, size) => self.is_wrong(CALL, 1),
            Some(_) => Ok(()),
            None => self.is_wrong(CALL, NOT_REGISTERED),
        }
    }

    fn allocate(&self, size: usize) -> Result<NonNull<u8>, CudaError> {
        const CALL: &str = "cuMemHostAlloc";
        self.call(CALL)?;
        let limit = self.refuse_above.load(SeqCst);
        if size > 1 << 40 || (limit > 0 && size > limit) {
            return error(CALL, OUT_OF_MEMORY);
        }
        // SAFETY: the size is not zero: a block has at least a page.
        let first = NonNull::new(unsafe { alloc(pages(size)) });
        let first = first.ok_or_else(|| error::<()>(CALL, OUT_OF_MEMORY).unwrap_err())?;
        // Not zero, as the real one need not be.
        // SAFETY: the bytes have just been allocated.
        unsafe { first.write_bytes(0xEE, size) };
        self.allocated.lock().unwrap().insert(first.addr().get(), size);
        Ok(first)
    }

    unsafe fn free(&self, first: NonNull<u8>) -> Result<(), CudaError> {
        const CALL: &str = "cuMemFreeHost";
        self.call(CALL)?;
        match self.allocated.lock().unwrap().remove(&first.addr().get()) {
            // SAFETY: it came from `allocate` with this layout, and the caller gives it up.
            Some(size) => unsafe { dealloc(first.as_ptr(), pages(size)) },
            None => return self.is_wrong(CALL, 1),
        }
        Ok(())
    }
}
