//! Temporary files do not outlive an interrupted process.
//!
//! A list of the files that exist only while a command runs. On SIGINT, SIGTERM and SIGHUP a thread removes them
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
    ctrlc::set_handler(|| {
        let paths = lock();
        for path in paths.iter() {
            // Nothing is left to tell if it fails.
            let _ = std::fs::remove_file(path);
        }
        // With the lock held: nobody makes another one now.
        std::process::exit(INTERRUPTED);
    })
    .map_err(|e| Error::Configuration(format!("cannot install the signal handler: {e}")))
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

    fn iter(&self) -> impl Iterator<Item = &PathBuf> {
        self.0.iter()
    }
}
