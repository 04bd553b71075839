//! The wall between this crate and the registered functions: no panic of theirs passes it.

/// Runs `f` and returns its value, or `None` if it panicked.
///
/// The payload of a panic is a value of foreign code as well, and dropping it may panic in turn. That one is
/// stopped too; a second payload is leaked, which ends the regress.
///
/// With `panic = "abort"` there is nothing to catch: a function that panics ends the process.
#[cfg(not(loom))]
pub(crate) fn contain<R>(f: impl FnOnce() -> R) -> Option<R> {
    use std::panic::{catch_unwind, AssertUnwindSafe};

    // Unwind safety: after a panic the callers use nothing that `f` wrote to.
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(value) => Some(value),
        Err(payload) => {
            if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                std::mem::forget(again);
            }
            None
        }
    }
}

/// Under loom a panic is the verdict of the model and must get through.
#[cfg(loom)]
pub(crate) fn contain<R>(f: impl FnOnce() -> R) -> Option<R> {
    Some(f())
}
