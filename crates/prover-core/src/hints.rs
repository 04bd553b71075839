//! How large a circuit's vectors will be, remembered from the last time.
//!
//! With the right capacity the proving vectors are mapped once, at their final size. The counts are known
//! only after a synthesis, so they are kept: in memory, and in a small file for the next process. A hint is
//! only a hint: a wrong or missing one costs growth, a hint beyond what the memory budget could hold is not
//! given at all.
//!
//! The file is versioned JSON, replaced as a whole by renaming, so that readers see the old or the new one
//! and processes that write at once do not mix; the last one wins, with the other's entries taken over as far
//! as it saw them. Whatever is wrong with the file or its folder is a warning, once, and a start from
//! nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::memory::sync::lock;

/// The version of the file's format.
const VERSION: u32 = 1;
/// Bytes of one scalar.
const SCALAR: u64 = 32;
/// The most characters of a key.
const MAX_KEY: usize = 128;
/// Circuits remembered at most.
const MAX_ENTRIES: usize = 256;
/// The largest file that is read, in bytes. [`MAX_ENTRIES`] of the longest keys take less than half.
const MAX_FILE: u64 = 256 << 10;

/// Which circuit.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HintKey(String);

impl HintKey {
    /// A circuit known by a digest, for instance of its verifying key or its constraint system.
    pub fn digest(digest: &[u8; 32]) -> Self {
        Self(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// A circuit known by a name: 1 to 128 printable ASCII characters. `None` if it is not that.
    pub fn named(name: &str) -> Option<Self> {
        Self::is_valid(name).then(|| Self(name.to_owned()))
    }

    fn is_valid(name: &str) -> bool {
        (1..=MAX_KEY).contains(&name.len()) && name.bytes().all(|byte| (b' '..=b'~').contains(&byte))
    }
}

impl fmt::Debug for HintKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HintKey").field(&self.0).finish()
    }
}

/// How many elements a circuit's vectors have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hint {
    /// Elements of each of a, b and c.
    pub constraints: u64,
    /// Elements of the auxiliary assignment.
    pub aux: u64,
    /// Elements of the input assignment.
    pub inputs: u64,
}

impl Hint {
    /// Bytes of all five vectors, or `None` if that does not fit 64 bits.
    pub fn bytes(&self) -> Option<u64> {
        let elements = self.constraints.checked_mul(3)?.checked_add(self.aux)?.checked_add(self.inputs)?;
        elements.checked_mul(SCALAR)
    }
}

/// One line of the file.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    hint: Hint,
    /// When it was last asked for or recorded, counted in uses of the store. The lowest is forgotten first.
    used: u64,
}

/// The file.
#[derive(Serialize, Deserialize)]
struct Stored {
    /// First in the file, so that a file is known by its beginning, see [`may_replace`].
    #[serde(rename = "pinprover-hints")]
    version: u32,
    entries: BTreeMap<String, Entry>,
}

/// Remembers hints. Share it by reference; it locks inside.
pub struct HintStore {
    path: Option<PathBuf>,
    max_bytes: u64,
    entries: Mutex<BTreeMap<String, Entry>>,
    /// Held while the file is written, so that the threads of a process do it one after the other.
    writing: Mutex<()>,
    warned: AtomicBool,
}

impl HintStore {
    /// A store that forgets at the end of the process. A hint for more than `max_bytes` (what the memory
    /// budget could ever hold) is ignored.
    pub fn in_memory(max_bytes: u64) -> Self {
        Self {
            path: None,
            max_bytes,
            entries: Mutex::default(),
            writing: Mutex::default(),
            warned: AtomicBool::new(false),
        }
    }

    /// A store kept in the file at `path`, which need not exist; nor need its folder. A file that cannot be
    /// read or is no hint file is warned of and replaced at the next record.
    pub fn open(path: impl Into<PathBuf>, max_bytes: u64) -> Self {
        let path = path.into();
        let mut store = Self::in_memory(max_bytes);
        match read(&path) {
            Ok(entries) => store.entries = Mutex::new(entries),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => store.warn(&path, "cannot be used; starting without hints", &error),
        }
        store.path = Some(path);
        store
    }

    /// What is known about a circuit, if it is sane.
    pub fn get(&self, key: &HintKey) -> Option<Hint> {
        let mut entries = lock(&self.entries);
        let now = next_use(&entries);
        let entry = entries.get_mut(&key.0)?;
        entry.used = now;
        Some(entry.hint).filter(|hint| self.is_sane(hint))
    }

    /// Remembers what a circuit turned out to have, and writes the file if that is new. A hint that could
    /// never be used is not remembered.
    pub fn record(&self, key: &HintKey, hint: Hint) {
        if !self.is_sane(&hint) {
            return;
        }
        let mut entries = lock(&self.entries);
        let used = next_use(&entries);
        let before = entries.insert(key.0.clone(), Entry { hint, used });
        forget_the_oldest(&mut entries);
        drop(entries);
        if before.is_none_or(|before| before.hint != hint) {
            self.save();
        }
    }

    /// Circuits known.
    pub fn len(&self) -> usize {
        lock(&self.entries).len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn is_sane(&self, hint: &Hint) -> bool {
        hint.bytes().is_some_and(|bytes| bytes <= self.max_bytes)
    }

    /// Writes the file, with what other processes have added to it since.
    fn save(&self) {
        let Some(path) = &self.path else { return };
        let _one_at_a_time = lock(&self.writing);
        if !matches!(may_replace(path), Ok(true)) {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "it holds something else by now");
            return self.warn(path, "is left alone; hints are kept for this process only", &error);
        }
        // What is there may be damaged or another version's: then it is replaced.
        let theirs = read(path).unwrap_or_default();
        let mut entries = lock(&self.entries);
        for (key, entry) in theirs {
            entries.entry(key).or_insert(entry);
        }
        forget_the_oldest(&mut entries);
        let stored = Stored { version: VERSION, entries: entries.clone() };
        drop(entries);
        if let Err(error) = write(path, &stored) {
            self.warn(path, "cannot be written; hints are kept for this process only", &error);
        }
    }

    fn warn(&self, path: &Path, what: &str, error: &io::Error) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(file = %path.display(), %error, "the file of capacity hints {what}");
        }
    }
}

impl fmt::Debug for HintStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HintStore").field("path", &self.path).field("circuits", &self.len()).finish()
    }
}

/// Whether a file may be replaced by one of hints: it does not exist, is empty, or begins as files of hints
/// do, whatever its version and however damaged its rest.
///
/// # Errors
/// A file that cannot be read.
pub fn may_replace(path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error),
        Ok(found) if !found.is_file() => return Ok(false),
        Ok(_) => {}
    }
    let mut head = Vec::new();
    File::open(path)?.take(64).read_to_end(&mut head)?;
    let head = String::from_utf8_lossy(&head);
    Ok(head.is_empty() || head.starts_with('{') && head.contains("\"pinprover-hints\""))
}

fn next_use(entries: &BTreeMap<String, Entry>) -> u64 {
    entries.values().map(|entry| entry.used).max().map_or(0, |used| used.saturating_add(1))
}

fn forget_the_oldest(entries: &mut BTreeMap<String, Entry>) {
    while entries.len() > MAX_ENTRIES {
        let Some(oldest) = entries.iter().min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone())
        else {
            return;
        };
        entries.remove(&oldest);
    }
}

/// Reads a file of ours. Anything else is an error.
fn read(path: &Path) -> io::Result<BTreeMap<String, Entry>> {
    let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    // Asked before it is opened: opening a named pipe would wait for a writer.
    if !fs::metadata(path)?.is_file() {
        return Err(invalid("it is not a regular file".into()));
    }
    let mut text = Vec::new();
    File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_FILE {
        return Err(invalid(format!("it is larger than {MAX_FILE} bytes")));
    }
    let stored: Stored = serde_json::from_slice(&text).map_err(|error| invalid(error.to_string()))?;
    if stored.version != VERSION {
        return Err(invalid(format!("it has version {}, this program reads {VERSION}", stored.version)));
    }
    let mut entries = stored.entries;
    entries.retain(|key, entry| HintKey::is_valid(key) && entry.hint.bytes().is_some());
    // `used` of another program's making must not make ours the oldest for ever.
    if next_use(&entries) > u64::MAX / 2 {
        entries.values_mut().for_each(|entry| entry.used = 0);
    }
    forget_the_oldest(&mut entries);
    Ok(entries)
}

/// Replaces the file by renaming a whole new one, readable by its owner only.
fn write(path: &Path, stored: &Stored) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    create_folder(folder)?;
    // Created with mode 0600, and removed again if anything below fails.
    let mut file = tempfile::Builder::new().prefix(".hints-").tempfile_in(folder)?;
    let mut text = serde_json::to_vec_pretty(stored)?;
    text.push(b'\n');
    file.write_all(&text)?;
    file.as_file().sync_all()?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

#[cfg(unix)]
fn create_folder(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(not(unix))]
fn create_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const MAX: u64 = 1 << 40;
    const HINT: Hint = Hint { constraints: 1000, aux: 900, inputs: 3 };

    fn key(n: usize) -> HintKey {
        HintKey::named(&format!("circuit {n}")).unwrap()
    }

    fn file() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing/folder/hints.json");
        (folder, path)
    }

    #[test]
    fn hints_survive_the_process() {
        let (_folder, path) = file();
        let store = HintStore::open(&path, MAX);
        assert!(store.is_empty() && store.get(&key(1)).is_none());
        store.record(&key(1), HINT);
        store.record(&HintKey::digest(&[0xAB; 32]), Hint { aux: 5, ..HINT });
        let store = HintStore::open(&path, MAX);
        assert_eq!(store.get(&key(1)), Some(HINT));
        assert_eq!(store.get(&HintKey::digest(&[0xAB; 32])), Some(Hint { aux: 5, ..HINT }));
        store.record(&key(1), Hint { constraints: 2000, ..HINT });
        assert_eq!(HintStore::open(&path, MAX).get(&key(1)).unwrap().constraints, 2000);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        }
        let left: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
        assert_eq!(left.len(), 1, "no temporary file stays: {left:?}");
    }

    #[test]
    fn keys_are_short_and_printable() {
        assert!(HintKey::named("sdr porep 32GiB-1_2").is_some());
        for name in ["", "a\nb", "é", "a\0", &"x".repeat(MAX_KEY + 1)] {
            assert!(HintKey::named(name).is_none(), "{name:?}");
        }
        assert_eq!(HintKey::digest(&[0x0F; 32]).0, "0f".repeat(32));
    }

    #[test]
    fn hints_beyond_the_budget_are_ignored() {
        let (_folder, path) = file();
        let store = HintStore::open(&path, HINT.bytes().unwrap());
        let more = Hint { inputs: HINT.inputs + 1, ..HINT };
        for absurd in [
            more,
            Hint { constraints: u64::MAX, ..HINT },
            Hint { constraints: u64::MAX / 96, aux: u64::MAX, inputs: 1 },
        ] {
            store.record(&key(1), absurd);
            assert_eq!(store.get(&key(1)), None);
        }
        assert!(!path.exists());
        store.record(&key(1), HINT);
        assert_eq!(store.get(&key(1)), Some(HINT));
        // Written under a larger budget, read under a smaller one.
        assert_eq!(HintStore::open(&path, 1000).get(&key(1)), None);
    }

    #[test]
    fn foreign_files_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for text in [
            &b"{\n \"name\": \"mine\",\n \"version\": \"1.0.0\"\n}\n"[..],
            b"{\"version\": 3, \"lockfileVersion\": 3}",
            b"\x00\x01 a proving key",
        ] {
            fs::write(&path, text).unwrap();
            HintStore::open(&path, MAX).record(&key(1), HINT);
            assert_eq!(fs::read(&path).unwrap(), text);
            // Also one that came after the store was opened.
            fs::remove_file(&path).unwrap();
            let store = HintStore::open(&path, MAX);
            fs::write(&path, text).unwrap();
            store.record(&key(1), HINT);
            assert_eq!(fs::read(&path).unwrap(), text);
        }
    }

    #[test]
    fn any_damage_is_a_start_from_nothing_and_is_repaired() {
        let (_folder, path) = file();
        HintStore::open(&path, MAX).record(&key(1), HINT);
        let good = fs::read(&path).unwrap();
        let mut damaged: Vec<Vec<u8>> = (0..good.len() - 2).map(|cut| good[..cut].to_vec()).collect();
        damaged.push([&good[..], b"junk"].concat());
        damaged.push(vec![b' '; MAX_FILE as usize + 1]);
        damaged.push(vec![b'['; 100_000]);
        damaged.push(b"\xff\xfe".to_vec());
        for text in [
            r#"{"pinprover-hints":2,"entries":{}}"#,
            r#"{"pinprover-hints":1,"entries":{"a":{"constraints":-1,"aux":0,"inputs":0,"used":0}}}"#,
            r#"{"pinprover-hints":1,"entries":{"a":{"constraints":1e30,"aux":0,"inputs":0,"used":0}}}"#,
            r#"{"pinprover-hints":1,"entries":{"a":{"constraints":1}}}"#,
            r#"{"pinprover-hints":1}"#,
            "[]",
            "null",
        ] {
            damaged.push(text.into());
        }
        for text in damaged {
            fs::write(&path, &text).unwrap();
            let store = HintStore::open(&path, MAX);
            assert!(store.is_empty(), "{:?}", String::from_utf8_lossy(&text[..text.len().min(80)]));
            let ours = may_replace(&path).unwrap();
            store.record(&key(2), HINT);
            if ours {
                assert_eq!(HintStore::open(&path, MAX).get(&key(2)), Some(HINT));
            } else {
                assert_eq!(fs::read(&path).unwrap(), text, "what is not ours is left alone");
                assert_eq!(store.get(&key(2)), Some(HINT), "for this process");
            }
        }
        // Entries that make no sense are dropped, the others are kept.
        let text = r#"{"pinprover-hints":1,"entries":{
            "ok":{"constraints":1,"aux":2,"inputs":3,"used":18446744073709551615},
            "":{"constraints":1,"aux":2,"inputs":3,"used":0},
            "huge":{"constraints":18446744073709551615,"aux":2,"inputs":3,"used":0}}}"#;
        fs::write(&path, text).unwrap();
        let store = HintStore::open(&path, MAX);
        assert_eq!(store.len(), 1);
        assert_eq!(
            store.get(&HintKey::named("ok").unwrap()),
            Some(Hint { constraints: 1, aux: 2, inputs: 3 })
        );
    }

    #[test]
    fn the_least_recently_used_is_forgotten_and_the_file_stays_small() {
        let (_folder, path) = file();
        let store = HintStore::open(&path, MAX);
        let long = |n: usize| HintKey::named(&format!("{n:0>MAX_KEY$}")).unwrap();
        for n in 0..MAX_ENTRIES + 20 {
            store.record(&long(n), HINT);
            store.get(&long(0));
        }
        assert_eq!(store.len(), MAX_ENTRIES);
        assert!(store.get(&long(0)).is_some() && store.get(&long(1)).is_none());
        assert!(fs::metadata(&path).unwrap().len() < MAX_FILE / 2);
        assert_eq!(HintStore::open(&path, MAX).len(), MAX_ENTRIES);
    }

    #[test]
    fn places_that_cannot_be_written_or_read_only_cost_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let in_the_way = folder.path().join("file");
        fs::write(&in_the_way, "x").unwrap();
        for path in
            [in_the_way.join("hints.json"), folder.path().to_owned(), PathBuf::from("/proc/none/hints.json")]
        {
            let store = HintStore::open(&path, MAX);
            store.record(&key(1), HINT);
            assert_eq!(store.get(&key(1)), Some(HINT), "{}", path.display());
        }
        let store = HintStore::in_memory(MAX);
        store.record(&key(1), HINT);
        assert_eq!(store.get(&key(1)), Some(HINT));
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_in_its_place_does_not_hang() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hints.json");
        let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: a valid C string.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let store = HintStore::open(&path, MAX);
        store.record(&key(1), HINT);
        assert_eq!(store.get(&key(1)), Some(HINT), "for this process");
        assert!(!fs::metadata(&path).unwrap().is_file(), "what is not ours is left alone");
    }

    #[test]
    fn writers_at_once_leave_a_whole_file() {
        let (_folder, path) = file();
        thread::scope(|scope| {
            for writer in 0..4 {
                let path = &path;
                scope.spawn(move || {
                    // A store each, as separate processes would have.
                    let store = HintStore::open(path, MAX);
                    for n in 0..10 {
                        store.record(&key(writer * 10 + n), HINT);
                        assert!(!HintStore::open(path, MAX).is_empty(), "readers see a whole file");
                    }
                });
            }
        });
        let store = HintStore::open(&path, MAX);
        assert!(store.len() >= 10, "{}", store.len());
    }
}
