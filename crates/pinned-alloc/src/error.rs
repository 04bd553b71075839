//! What can go wrong, with the numbers.

use std::fmt;

/// Why an allocation, the growth or the sealing of a block was refused. All sizes are in bytes.
///
/// After a refused allocation nothing stays allocated; after a refused growth or seal the block and its
/// contents are as they were. The caller can always go on with ordinary memory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AllocError {
    /// No allocator is registered.
    NotRegistered,
    /// The caller asked for no bytes. Its own mistake: it has nothing to store.
    ZeroSize,
    /// `count * element_size` passes `isize::MAX`, more than any allocation can have. The caller's own
    /// mistake. A group of blocks, or a growth, is counted in elements of one byte.
    CapacityOverflow {
        /// Elements asked for.
        count: usize,
        /// Bytes of one element.
        element_size: usize,
    },
    /// The budget has no room for the request now.
    Exhausted {
        /// Bytes asked for.
        requested: usize,
        /// Bytes the budget had left.
        available: usize,
        /// Bytes of the whole budget.
        total: usize,
        /// The setting that changes it.
        knob: &'static str,
    },
    /// The request can never fit: it is larger than the whole budget or than the allocator serves.
    TooLarge {
        /// Bytes asked for.
        requested: usize,
        /// The most bytes one request may have.
        limit: usize,
        /// The setting that changes it.
        knob: &'static str,
    },
    /// The wait for memory passed its deadline.
    TimedOut {
        /// Bytes asked for.
        requested: usize,
        /// Milliseconds waited.
        waited_ms: u64,
        /// The setting that changes it.
        knob: &'static str,
    },
    /// The allocator serves no alignment as large as this one.
    AlignmentTooLarge {
        /// Alignment asked for, in bytes.
        align: usize,
        /// The largest alignment the allocator serves, in bytes.
        limit: usize,
    },
    /// The system refused to map or to lock the memory.
    Refused {
        /// Bytes asked for.
        requested: usize,
        /// What the system said, and the remedy.
        cause: Cause,
    },
    /// The block has no reserved address space left to grow in place; move instead.
    CannotGrow {
        /// Bytes the block has.
        size: usize,
        /// Bytes asked for.
        requested: usize,
    },
    /// The registered allocator shuts down and serves nobody any more.
    ShuttingDown,
    /// A registered function broke its contract (a misaligned pointer, a block too small, a panic).
    BrokenAllocator {
        /// Bytes asked for, over the whole group.
        requested: usize,
        /// What it did.
        what: &'static str,
    },
}

/// What the operating system or a driver said when it refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cause {
    /// The call that failed, for instance `"mmap"` or `"mlock"`.
    pub call: &'static str,
    /// The error number (`errno` or the driver's code).
    pub code: i32,
    /// What to do about it.
    pub remedy: &'static str,
}

impl Cause {
    /// A cause from its parts.
    pub const fn new(call: &'static str, code: i32, remedy: &'static str) -> Self {
        Self { call, code, remedy }
    }
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRegistered => f.write_str("no pinned-memory allocator is registered"),
            Self::ZeroSize => f.write_str("a block of 0 bytes was asked for"),
            Self::CapacityOverflow { count, element_size } => {
                write!(f, "{count} elements of {element_size} bytes are more than an allocation can hold")
            }
            Self::Exhausted { requested, available, total, knob } => write!(
                f,
                "host memory (system RAM): {requested} bytes asked for, {available} of the budget's {total} bytes \
                 left; raise {knob} or run fewer proofs at once"
            ),
            Self::TooLarge { requested, limit, knob } => write!(
                f,
                "host memory (system RAM): {requested} bytes asked for, {limit} bytes is the most; \
                 raise {knob}"
            ),
            Self::TimedOut { requested, waited_ms, knob } => write!(
                f,
                "host memory (system RAM): {requested} bytes did not come free within {waited_ms} ms; \
                 see {knob}"
            ),
            Self::Refused { requested, cause } => write!(
                f,
                "host memory (system RAM): {} of {requested} bytes failed with error {}; {}",
                cause.call, cause.code, cause.remedy
            ),
            Self::AlignmentTooLarge { align, limit } => {
                write!(f, "an alignment of {align} bytes was asked for, {limit} bytes is the most served")
            }
            Self::CannotGrow { size, requested } => {
                write!(f, "a block of {size} bytes cannot grow in place to {requested} bytes")
            }
            Self::ShuttingDown => f.write_str("the pinned-memory allocator is shutting down"),
            Self::BrokenAllocator { requested, what } => {
                write!(f, "the registered allocator broke its contract for {requested} bytes: {what}")
            }
        }
    }
}

impl std::error::Error for AllocError {}

/// Another allocator is registered already. It holds the name of that one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadyRegistered {
    /// [`VTable::name`](crate::VTable::name) of the allocator in place.
    pub by: &'static str,
}

impl fmt::Display for AlreadyRegistered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a pinned-memory allocator is registered already: {}; drop its registration first", self.by)
    }
}

impl std::error::Error for AlreadyRegistered {}
