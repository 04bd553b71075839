//! The wall between this crate and the registered functions: no panic of theirs passes it.

/// How often the payload of a panic may panic when it is dropped, before it is leaked instead.
#[cfg(not(loom))]
const PAYLOADS: usize = 4;

/// Runs `f` and returns its value, or `None` if it panicked.
///
/// The payload of a panic is a value of foreign code as well, and dropping it may panic in turn, with a
/// payload of its own, and so on: after a few of them the next one is leaked.
///
/// With `panic = "abort"` there is nothing to catch: a function that panics ends the process.
#[cfg(not(loom))]
pub(crate) fn contain<R>(f: impl FnOnce() -> R) -> Option<R> {
    use std::panic::{catch_unwind, AssertUnwindSafe};

    // Unwind safety: after a panic the callers use nothing that `f` wrote to.
    let mut payload = match catch_unwind(AssertUnwindSafe(f)) {
        Ok(value) => return Some(value),
        Err(payload) => payload,
    };
    for _ in 0..PAYLOADS {
        match catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            Ok(()) => return None,
            Err(next) => payload = next,
        }
    }
    std::mem::forget(payload);
    None
}

/// Under loom a panic is the verdict of the model and must get through.
#[cfg(loom)]
pub(crate) fn contain<R>(f: impl FnOnce() -> R) -> Option<R> {
    Some(f())
}
