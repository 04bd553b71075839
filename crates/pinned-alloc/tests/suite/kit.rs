//! A hostile allocator with a ledger.
//!
//! A [`Lab`] serves real heap memory, so that Miri and AddressSanitizer see every use, and writes down each
//! call and each block as it handed it out. It fails, panics or lies on demand. Panics in `free` and
//! `release` are swallowed by the crate, so nothing is asserted inside a hook: what is wrong becomes a
//! complaint, and [`Lab::finish`] judges.

use std::alloc::{alloc_zeroed, dealloc, handle_alloc_error, Layout};
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};

use pinned_alloc::{
    AllocError, AlreadyRegistered, Block, RawBlock, Registration, Registry, Residency, VTable,
};

/// What a lab says when it is told to fail.
pub const REFUSED: AllocError = AllocError::ShuttingDown;
/// A lab serves no larger blocks.
pub const LIMIT: usize = 1 << 24;
pub const LIMIT_KNOB: &str = "--lab-limit";
/// A block can grow in place to this multiple of its first size.
pub const RESERVE: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Allocate,
    Grow,
    Seal,
    Free,
    Release,
}

/// How a call goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// An error; in `free` and `release`, which have none, nothing.
    Fail,
    Panic,
    /// A panic with a payload that panics when it is dropped.
    Bomb,
    /// A panic with a payload that panics when it is dropped, with such a payload again, without end.
    Hydra,
}

/// A false answer, given once. A number is the index of the block in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    Missing(usize),
    Misaligned(usize),
    TooSmall(usize),
    /// More than `isize::MAX` bytes.
    Huge(usize),
    /// A range that passes the end of the address space.
    Wraps(usize),
    /// A range near the end of the address space that fits: nothing is wrong with the numbers.
    HighAddress(usize),
    /// The second index gets the block of the first.
    Twice(usize, usize),
    /// The second index gets a block that begins in the last byte of the first's.
    Overlap(usize, usize),
    /// Blocks that nobody allocated, and an error.
    ErrWithBlocks,
    /// A panic after the first block was made.
    PanicHalfway,
    /// An error after this many blocks were made; they are taken back.
    FailHalfway(usize),
    /// Not a lie: more bytes than asked for.
    Generous(usize),
    GrowShort,
    GrowHuge,
    /// The size asked for, though nothing grew.
    GrowSaysYes,
}

/// Panics without the message and the backtrace, of which there would be hundreds.
fn panic_quietly(payload: impl std::any::Any + Send) -> ! {
    resume_unwind(Box::new(payload))
}

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic_quietly("the payload of a panic panicked");
    }
}

/// It has no size, so that leaking one leaks no memory.
struct Hydra;

impl Drop for Hydra {
    fn drop(&mut self) {
        panic_quietly(Hydra);
    }
}

struct Live {
    /// As it was handed out, kept up to date: what `free` must be told.
    given: RawBlock,
    /// The real memory. `None` if another block owns it.
    memory: Option<(NonNull<u8>, Layout)>,
}

#[derive(Default)]
struct Inner {
    calls: Vec<Call>,
    fault: Option<(usize, How)>,
    lie: Option<Lie>,
    odd: bool,
    live: BTreeMap<usize, Live>,
    /// Memory that the crate leaks by its own rules: a panic in `free`, a panic in `allocate`, overlapping
    /// blocks.
    lost: Vec<Live>,
    complaints: Vec<String>,
    next_token: usize,
    frees: usize,
}

// SAFETY: the pointers in the ledger are owned by it alone; the blocks' users never touch the ledger.
unsafe impl Send for Inner {}

pub struct Lab {
    name: &'static str,
    inner: Mutex<Inner>,
}

impl Lab {
    pub fn new(name: &'static str) -> Arc<Self> {
        Arc::new(Self { name, inner: Mutex::default() })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("hooks panic only outside the lock")
    }

    /// Registers the lab. The registration holds one reference to it, given back by `release`.
    pub fn register<'r>(
        self: &Arc<Self>,
        registry: &'r Registry,
    ) -> Result<Registration<'r>, AlreadyRegistered> {
        let state = Arc::into_raw(self.clone()).cast::<()>();
        let vtable = VTable { name: self.name, allocate, grow, seal, free, release };
        // SAFETY: the hooks keep their contracts where a test does not have them break it on purpose, and
        // then only in numbers that the crate checks; the state is a counted reference that `release` takes
        // back.
        unsafe { registry.register(vtable, state) }.inspect_err(|_| {
            // SAFETY: a refused state stays ours, and `release` was not called.
            drop(unsafe { Arc::from_raw(state.cast::<Lab>()) });
        })
    }

    /// Lets the `n`-th call from now (counting from 1, over all hooks) go wrong.
    pub fn fault_at(&self, n: usize, how: How) {
        let mut inner = self.inner();
        inner.fault = Some((inner.calls.len() + n, how));
    }

    pub fn lie(&self, lie: Lie) {
        self.inner().lie = Some(lie);
    }

    /// From now on, blocks whose alignment is 1 start at odd addresses.
    pub fn odd_pointers(&self) {
        self.inner().odd = true;
    }

    pub fn calls(&self) -> Vec<Call> {
        self.inner().calls.clone()
    }

    pub fn count(&self, call: Call) -> usize {
        self.inner().calls.iter().filter(|c| **c == call).count()
    }

    /// Blocks handed out and not freed.
    pub fn live(&self) -> usize {
        self.inner().live.len()
    }

    pub fn released(&self) -> bool {
        self.count(Call::Release) > 0
    }

    /// The judgement: no complaint, every block freed once as it was handed out, except `lost` ones, then
    /// released, once.
    #[track_caller]
    pub fn finish(self: Arc<Self>, lost: usize) {
        assert_eq!(self.inner().complaints, Vec::<String>::new(), "{}: complaints", self.name);
        assert_eq!(self.live(), 0, "{}: blocks never freed", self.name);
        assert_eq!(self.inner().lost.len(), lost, "{}: blocks leaked on purpose", self.name);
        assert_eq!(self.count(Call::Release), 1, "{}: releases", self.name);
        assert_eq!(self.calls().last(), Some(&Call::Release), "{}: the last call", self.name);
        assert_eq!(self.count(Call::Free), self.inner().frees, "{}: frees", self.name);
        assert_eq!(Arc::strong_count(&self), 1, "{}: references to the state", self.name);
    }

    /// Books a call, and fails or panics if this one is to.
    fn enter(&self, call: Call, before_fault: impl FnOnce(&mut Inner)) -> Result<(), AllocError> {
        let how = {
            let mut inner = self.inner();
            if inner.calls.contains(&Call::Release) {
                inner.complaints.push(format!("{call:?} after Release"));
            }
            inner.calls.push(call);
            let n = inner.calls.len();
            let how = inner.fault.filter(|(at, _)| *at == n).map(|(_, how)| how);
            if how.is_some() {
                before_fault(&mut inner);
            }
            how
        };
        match how {
            None => Ok(()),
            Some(How::Fail) => Err(REFUSED),
            Some(How::Panic) => panic_quietly("a fault on purpose"),
            Some(How::Bomb) => panic_quietly(Bomb),
            Some(How::Hydra) => panic_quietly(Hydra),
        }
    }
}

impl Inner {
    fn make(&mut self, layout: Layout) -> Result<RawBlock, AllocError> {
        let size = layout.size();
        if size > LIMIT {
            return Err(AllocError::TooLarge { requested: size, limit: LIMIT, knob: LIMIT_KNOB });
        }
        let align = layout.align().max(2);
        let layout_too_large = |_| AllocError::AlignmentTooLarge { align, limit: LIMIT };
        let memory = Layout::from_size_align(size * RESERVE + 1, align).map_err(layout_too_large)?;
        // SAFETY: the layout has at least one byte.
        let base =
            NonNull::new(unsafe { alloc_zeroed(memory) }).unwrap_or_else(|| handle_alloc_error(memory));
        let odd = usize::from(self.odd && layout.align() == 1);
        // SAFETY: the memory is one byte longer than the reserve.
        let ptr = unsafe { base.add(odd) };
        let given = RawBlock { ptr, size, token: self.next_token, residency: Residency::Locked };
        self.next_token += 1;
        self.live.insert(given.token, Live { given, memory: Some((base, memory)) });
        Ok(given)
    }

    /// The ledger's entry for `block`, if all of it is as it was handed out.
    fn find(&mut self, call: Call, block: &RawBlock) -> Option<&mut Live> {
        let fault = match self.live.get(&block.token) {
            None => format!("{call:?} of a block that is not live: {block:?}"),
            Some(live) if live.given != *block => format!("{call:?} of {block:?}, which is {:?}", live.given),
            Some(_) => return self.live.get_mut(&block.token),
        };
        self.complaints.push(fault);
        None
    }

    fn lose(&mut self, token: usize) {
        self.lost.extend(self.live.remove(&token));
    }
}

impl Live {
    fn dealloc(self) {
        if let Some((base, layout)) = self.memory {
            // SAFETY: made by `Inner::make` with this layout; a `Live` is consumed here, so once.
            unsafe { dealloc(base.as_ptr(), layout) }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for live in std::mem::take(&mut self.live).into_values().chain(std::mem::take(&mut self.lost)) {
            live.dealloc();
        }
    }
}

fn at(addr: usize) -> NonNull<u8> {
    NonNull::without_provenance(addr.try_into().expect("not null"))
}

/// # Safety
/// `state` is from [`Lab::register`] and not released.
unsafe fn lab<'a>(state: *const ()) -> &'a Lab {
    // SAFETY: the caller's promise.
    unsafe { &*state.cast() }
}

/// # Safety
/// As `VTable::allocate`.
unsafe fn allocate(
    state: *const (),
    layouts: &[Layout],
    out: &mut [Option<RawBlock>],
) -> Result<(), AllocError> {
    // SAFETY: called before `release`.
    let lab = unsafe { lab(state) };
    lab.enter(Call::Allocate, |_| ())?;
    let mut inner = lab.inner();
    let is_grow_lie = |lie: &Lie| matches!(lie, Lie::GrowShort | Lie::GrowHuge | Lie::GrowSaysYes);
    let lie = if inner.lie.as_ref().is_some_and(is_grow_lie) { None } else { inner.lie.take() };
    if layouts.is_empty() || layouts.len() != out.len() || out.iter().any(Option::is_some) {
        inner.complaints.push(format!("allocate was given {layouts:?} and {out:?}"));
    }
    if layouts.iter().any(|layout| layout.size() == 0) {
        inner.complaints.push(format!("allocate was asked for no bytes: {layouts:?}"));
    }

    for (i, layout) in layouts.iter().enumerate() {
        let made = if lie == Some(Lie::FailHalfway(i)) { Err(REFUSED) } else { inner.make(*layout) };
        match made {
            Ok(raw) => out[i] = Some(raw),
            Err(e) => {
                for raw in out[..i].iter().flatten() {
                    inner.live.remove(&raw.token).expect("just made").dealloc();
                }
                return Err(e);
            }
        }
        if lie == Some(Lie::PanicHalfway) {
            let token = inner.next_token - 1;
            inner.lose(token);
            drop(inner);
            panic_quietly("a panic halfway");
        }
    }

    let mut tell = |inner: &mut Inner, i: usize, ptr: NonNull<u8>, size: usize| {
        let raw = out[i].as_mut().expect("just made");
        (raw.ptr, raw.size) = (ptr, size);
        inner.live.get_mut(&raw.token).expect("just made").given = *raw;
    };
    let made =
        |inner: &Inner, i: usize| inner.live.values().rev().nth(layouts.len() - 1 - i).expect("made").given;
    match lie {
        None | Some(Lie::FailHalfway(_) | Lie::PanicHalfway) => {}
        Some(Lie::GrowShort | Lie::GrowHuge | Lie::GrowSaysYes) => unreachable!("kept for grow"),
        Some(Lie::Missing(i)) => {
            let raw = out[i].take().expect("just made");
            inner.live.remove(&raw.token).expect("just made").dealloc();
        }
        Some(Lie::Misaligned(i)) => {
            let raw = made(&inner, i);
            // SAFETY: the memory has a byte more than the block.
            tell(&mut inner, i, unsafe { raw.ptr.add(1) }, raw.size);
        }
        Some(Lie::TooSmall(i)) => {
            let raw = made(&inner, i);
            tell(&mut inner, i, raw.ptr, raw.size - 1);
        }
        Some(Lie::Huge(i)) => {
            let raw = made(&inner, i);
            tell(&mut inner, i, raw.ptr, isize::MAX as usize + 1);
        }
        Some(Lie::Wraps(i)) => {
            let raw = made(&inner, i);
            tell(&mut inner, i, at(usize::MAX - 4095), raw.size.max(8192));
        }
        Some(Lie::HighAddress(i)) => tell(&mut inner, i, at(usize::MAX - 4095), 4095),
        Some(Lie::Generous(i)) => {
            let raw = made(&inner, i);
            tell(&mut inner, i, raw.ptr, raw.size + 1);
        }
        Some(Lie::Twice(i, j) | Lie::Overlap(i, j)) => {
            let (first, second) = (made(&inner, i), made(&inner, j));
            let ptr = match lie {
                Some(Lie::Twice(..)) => first.ptr,
                // SAFETY: within the first block.
                _ => unsafe { first.ptr.add(first.size - 1) },
            };
            tell(&mut inner, j, ptr, second.size);
            inner.lose(first.token);
            inner.lose(second.token);
        }
        Some(Lie::ErrWithBlocks) => {
            for raw in out.iter_mut() {
                let token = raw.expect("just made").token;
                inner.live.remove(&token).expect("just made").dealloc();
                *raw = Some(RawBlock { ptr: at(8), size: 8, token, residency: Residency::Pinned });
            }
            return Err(REFUSED);
        }
    }
    Ok(())
}

/// # Safety
/// As `VTable::grow`.
unsafe fn grow(state: *const (), block: &RawBlock, min_size: usize) -> Result<usize, AllocError> {
    // SAFETY: called before `release`.
    let lab = unsafe { lab(state) };
    lab.enter(Call::Grow, |_| ())?;
    let mut inner = lab.inner();
    if min_size <= block.size || isize::try_from(min_size).is_err() {
        inner.complaints.push(format!("grow of {block:?} to {min_size}"));
    }
    let lie = inner.lie.take();
    let Some(live) = inner.find(Call::Grow, block) else { return Err(REFUSED) };
    match lie {
        Some(Lie::GrowShort) => return Ok(min_size - 1),
        Some(Lie::GrowHuge) => return Ok(isize::MAX as usize + 1),
        Some(Lie::GrowSaysYes) => return Ok(min_size),
        _ => {}
    }
    let reserve = live.memory.map_or(0, |(_, layout)| layout.size() - 1);
    if min_size > reserve {
        return Err(AllocError::CannotGrow { size: block.size, requested: min_size });
    }
    // A little more than asked for, as an allocator of whole pages does.
    live.given.size = (min_size + 7).min(reserve);
    Ok(live.given.size)
}

/// # Safety
/// As `VTable::seal`.
unsafe fn seal(state: *const (), block: &RawBlock) -> Result<Residency, AllocError> {
    // SAFETY: called before `release`.
    let lab = unsafe { lab(state) };
    lab.enter(Call::Seal, |inner| {
        if let Some(live) = inner.find(Call::Seal, block) {
            live.given.residency = Residency::Pageable;
        }
    })?;
    if let Some(live) = lab.inner().find(Call::Seal, block) {
        live.given.residency = Residency::Pinned;
    }
    Ok(Residency::Pinned)
}

/// # Safety
/// As `VTable::free`.
unsafe fn free(state: *const (), block: RawBlock) {
    // SAFETY: called before `release`.
    let lab = unsafe { lab(state) };
    let went_well = lab.enter(Call::Free, |inner| {
        if inner.fault.is_some_and(|(_, how)| how != How::Fail) && inner.find(Call::Free, &block).is_some() {
            inner.frees += 1;
            inner.lose(block.token);
        }
    });
    // `How::Fail` has no meaning here.
    let _: Result<(), AllocError> = went_well;
    let mut inner = lab.inner();
    if inner.find(Call::Free, &block).is_some() {
        inner.frees += 1;
        inner.live.remove(&block.token).expect("just found").dealloc();
    }
}

/// # Safety
/// As `VTable::release`.
unsafe fn release(state: *const ()) {
    {
        // SAFETY: this is the first `release`, or else the test itself holds the lab alive and the ledger
        // complains.
        let lab = unsafe { lab(state) };
        let mut inner = lab.inner();
        if inner.calls.contains(&Call::Release) {
            inner.complaints.push("released twice".into());
            return;
        }
        if !inner.live.is_empty() {
            let live = inner.live.len();
            inner.complaints.push(format!("released with {live} blocks out"));
        }
    }
    // SAFETY: `register` gave this reference, and this is the one place that takes it back.
    let lab = unsafe { Arc::from_raw(state.cast::<Lab>()) };
    // `How::Fail` has no meaning here; a panic comes after the reference was taken back.
    let _: Result<(), AllocError> = lab.enter(Call::Release, |_| ());
}

/// What [`fill`] writes, from the seed on. A table, since Miri copies and compares slices much faster than
/// single bytes.
static PATTERN: [u8; 1 << 15] = {
    let mut pattern = [0; 1 << 15];
    let mut i = 0;
    while i < pattern.len() {
        pattern[i] = (i % 251) as u8;
        i += 1;
    }
    pattern
};

/// Writes every byte of a block.
pub fn fill(block: &Block, seed: u8) {
    let bytes = &PATTERN[seed.into()..][..block.size()];
    // SAFETY: the block has as many bytes and nobody else uses it; the table is another object.
    unsafe { block.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
}

/// Checks the first `size` bytes of a block that [`fill`] wrote.
#[track_caller]
pub fn check(block: &Block, size: usize, seed: u8) {
    assert!(size <= block.size());
    // SAFETY: within the block, which is initialised and which nobody else uses.
    let bytes = unsafe { std::slice::from_raw_parts(block.as_ptr(), size) };
    assert!(bytes == &PATTERN[seed.into()..][..size], "the bytes of {block:?} changed");
}

/// Four layouts as a proof asks for them: sizes and alignments differ.
pub fn four() -> [Layout; 4] {
    [(64, 8), (96, 32), (7, 1), (80, 4096)]
        .map(|(size, align)| Layout::from_size_align(size, align).expect("a layout in the test"))
}

/// Four layouts of alignment 1.
pub fn bytes() -> [Layout; 4] {
    [64, 96, 7, 128].map(|size| Layout::array::<u8>(size).expect("a layout in the test"))
}

/// The sizes of all, in bytes.
pub fn total<const N: usize>(layouts: [Layout; N]) -> usize {
    layouts.iter().map(Layout::size).sum()
}
