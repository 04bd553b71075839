//! Temporary files do not outlive an interrupted process.
//!
//! A list of the files and folders that exist only while a command runs. On SIGINT, SIGTERM and SIGHUP a thread removes them
//! and exits with 130. Whoever publishes results holds the list's lock while doing so: the interruption then
//! comes before or after, never between two renames that belong together.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::Error;

static TEMPORARY: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// The exit code of an interrupted process, as shells have it for SIGINT.
const INTERRUPTED: i32 = 130;

/// Installs the handler. Once a process.
///
/// # Errors
/// [`Error::Configuration`] if the system refuses it, or if there is one already.
pub fn install() -> Result<(), Error> {
    let ignored = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP].map(|signal| (signal, is_ignored(signal)));
    ctrlc::set_handler(|| {
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
        std::process::exit(INTERRUPTED);
    })
    .map_err(|e| Error::Configuration(format!("cannot install the signal handler: {e}")))?;
    // What the parent had us ignore stays ignored: `nohup` counts on it.
    for (signal, _) in ignored.into_iter().filter(|(_, ignored)| *ignored) {
        // SAFETY: SIG_IGN is a valid disposition for these signals, and no handler of ours is involved.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    Ok(())
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
