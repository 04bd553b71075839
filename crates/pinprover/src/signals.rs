//! Temporary files do not outlive an interrupted process.
//!
//! A list of the files and folders that exist only while a command runs. On SIGINT, SIGTERM and SIGHUP a thread removes them
//! and exits with 130. Whoever publishes results holds the list's lock while doing so: the interruption then
//! comes before or after, never between two renames that belong together.
//!
//! A command that can end by itself when it is interrupted watches for that: the first signal is then only told to it, the
//! second ends the process as above.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::Error;

static TEMPORARY: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Set by the first signal, if somebody watches for it.
static WATCHED: Mutex<Option<Arc<AtomicBool>>> = Mutex::new(None);

/// The exit code of an interrupted process, as shells have it for SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;

/// Installs the handler. Once a process.
///
/// # Errors
/// [`Error::Configuration`] if the system refuses it, or if there is one already.
pub fn install() -> Result<(), Error> {
    let ignored = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP].map(|signal| (signal, is_ignored(signal)));
    ctrlc::set_handler(|| {
        if !told() {
            leave();
        }
    })
    .map_err(|e| Error::Configuration(format!("cannot install the signal handler: {e}")))?;
    // What the parent had us ignore stays ignored: `nohup` counts on it.
    for (signal, _) in ignored.into_iter().filter(|(_, ignored)| *ignored) {
        // SAFETY: SIG_IGN is a valid disposition for these signals, and no handler of ours is involved.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    Ok(())
}

/// Tells whoever watches; `false` if nobody does, or if it was told before.
fn told() -> bool {
    let watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    watched.as_ref().is_some_and(|flag| !flag.swap(true, Ordering::Relaxed))
}

/// Ends the process as an interruption does, threads that run or not.
pub(crate) fn leave() -> ! {
    let paths = lock();
    for path in paths.iter() {
        // Nothing is left to tell if it fails.
        let _ = std::fs::remove_file(path);
    }
    // Folders, once they are empty: a folder comes before what is in it.
    for path in paths.iter().rev() {
        let _ = std::fs::remove_dir(path);
    }
    // With the lock held: nobody makes another one now.
    std::process::exit(INTERRUPTED.into());
}

/// While it is there, the first interruption is told to it and does nothing else.
#[derive(Debug)]
pub(crate) struct Interruption(Arc<AtomicBool>);

impl Interruption {
    /// Watches from now on. One at a time in a process.
    pub(crate) fn watch() -> Self {
        let flag = Arc::new(AtomicBool::new(false));
        *WATCHED.lock().unwrap_or_else(PoisonError::into_inner) = Some(flag.clone());
        Self(flag)
    }

    /// Does something that an interruption may end at once, as if nobody watched.
    pub(crate) fn paused<T>(&self, work: impl FnOnce() -> T) -> T {
        let watch = |flag| *WATCHED.lock().unwrap_or_else(PoisonError::into_inner) = flag;
        watch(None);
        let done = work();
        watch(Some(self.0.clone()));
        done
    }

    /// Whether there was one.
    pub(crate) fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Interruption {
    fn drop(&mut self) {
        *WATCHED.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn is_ignored(signal: libc::c_int) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: with a null new action, sigaction only writes the current one to the valid pointer it gets.
    let known = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) } == 0;
    // SAFETY: on success the kernel has filled it in; it is read on success only.
    known && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// The list, locked: an interruption waits until the guard is gone.
pub(crate) fn lock() -> TemporaryFiles {
    TemporaryFiles(TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner))
}

pub(crate) struct TemporaryFiles(MutexGuard<'static, BTreeSet<PathBuf>>);

impl TemporaryFiles {
    pub(crate) fn add(&mut self, path: &Path) {
        self.0.insert(path.to_owned());
    }

    pub(crate) fn remove(&mut self, path: &Path) {
        self.0.remove(path);
    }

    fn iter(&self) -> impl DoubleEndedIterator<Item = &PathBuf> {
        self.0.iter()
    }
}
