//! Output files that appear only when whole.
//!
//! A command first plans its outputs: paths that can never work are refused before any work is done. The contents
//! go to temporary files in the target folders, are synchronised, and take their names by rename. Several outputs
//! of one command take their names together: if a later rename fails, the earlier ones are undone. On every way
//! out, an interruption included, no temporary file is left.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tempfile::NamedTempFile;

use crate::error::Error;
use crate::signals;

/// A path on the command line, with the option that gave it.
pub type Named<'a> = (&'static str, &'a Path);

/// The outputs of one command.
#[derive(Debug)]
pub struct Outputs {
    files: Vec<Output>,
}

#[derive(Debug)]
struct Output {
    option: &'static str,
    /// Where it goes: symbolic links resolved, so that the file behind a link is replaced and not the link.
    target: PathBuf,
    folder: PathBuf,
    staged: Option<Staged>,
}

impl Outputs {
    /// Checks that every output can be written, and is neither an input nor another output.
    ///
    /// # Errors
    /// [`Error::Usage`] if two paths are one file, or if a path is something other than a file;
    /// [`Error::Io`] if a folder is not there or not writable.
    pub fn plan(inputs: &[Named<'_>], outputs: &[Named<'_>]) -> Result<Self, Error> {
        let mut files: Vec<Output> = Vec::new();
        for &(option, path) in outputs {
            let output = Output::plan(option, path)?;
            let same =
                |(other, input): &&Named<'_>| (same_file(input, &output.target)).then_some(other).is_some();
            if let Some((other, _)) = inputs.iter().find(same) {
                return Err(Error::Usage(format!("{option} {} is the input of {other}", path.display())));
            }
            if let Some(other) = files.iter().find(|other| same_file(&other.target, &output.target)) {
                let other = other.option;
                return Err(Error::Usage(format!("{option} {} is the output of {other}", path.display())));
            }
            files.push(output);
        }
        Ok(Self { files })
    }

    /// Writes the content of the output of `option`, without giving it its name yet.
    ///
    /// # Errors
    /// [`Error::Io`]; the disk being full shows here.
    ///
    /// # Panics
    /// If `option` was not planned.
    pub fn write(
        &mut self,
        option: &'static str,
        content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Error> {
        let file = self.files.iter_mut().find(|file| file.option == option).expect("the output was planned");
        let staged = Staged::new(&file.folder).and_then(|staged| {
            let mut buffer = BufWriter::with_capacity(1 << 20, staged.file());
            content(&mut buffer)?;
            buffer.into_inner().map_err(|e| e.into_error())?.sync_all()?;
            Ok(staged)
        });
        file.staged = Some(staged.map_err(Error::io("write", &file.target))?);
        Ok(())
    }

    /// [`write`](Self::write)s a result as JSON for people and programs.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    ///
    /// # Panics
    /// As [`write`](Self::write).
    pub fn write_json(&mut self, option: &'static str, value: &impl Serialize) -> Result<(), Error> {
        let json = serde_json::to_string_pretty(value).expect("results are plain data") + "\n";
        self.write(option, |file| file.write_all(json.as_bytes()))
    }

    /// Gives every output its name. All or, as far as the system lets us, none.
    ///
    /// # Errors
    /// [`Error::Io`] for the rename that failed.
    ///
    /// # Panics
    /// If an output was planned and not written.
    pub fn commit(mut self) -> Result<(), Error> {
        // An interruption waits until the outputs are complete or undone.
        let mut temporary = signals::lock();
        let mut published: Vec<Published> = Vec::new();
        for file in &mut self.files {
            let staged = file.staged.take().expect("every planned output was written");
            match Published::new(&file.target, staged, &mut temporary) {
                Ok(done) => published.push(done),
                Err(cause) => {
                    for done in published.into_iter().rev() {
                        done.undo(&mut temporary);
                    }
                    // `self` still holds staged files, whose drop takes the lock.
                    drop(temporary);
                    return Err(Error::io("write", &file.target)(cause));
                }
            }
        }
        for done in published {
            done.keep(&mut temporary);
        }
        for file in &self.files {
            // The names are there; whether they survive a power cut is all that can still fail.
            if let Err(cause) = File::open(&file.folder).and_then(|folder| folder.sync_all()) {
                tracing::debug!("cannot synchronise {}: {cause}", file.folder.display());
            }
        }
        Ok(())
    }
}

impl Output {
    fn plan(option: &'static str, path: &Path) -> Result<Self, Error> {
        let refuse = |what: &str| Error::Usage(format!("{option} {}: {what}", path.display()));
        let target = match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => return Err(refuse("is a folder, expected a file")),
            Ok(meta) if !meta.is_file() => {
                return Err(refuse("is not a regular file, so it cannot be replaced"))
            }
            Ok(_) => path.canonicalize().map_err(Error::io("find", path))?,
            // It would be written under this name now, and through the link once its target is there.
            Err(_) if fs::symlink_metadata(path).is_ok() => {
                return Err(refuse("is a link to something that is not there"))
            }
            Err(_) => path.to_owned(),
        };
        if target.file_name().is_none() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Err(refuse("is not the name of a file"));
        }
        let folder = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let folder = folder.canonicalize().map_err(Error::io("find the folder", folder))?;
        if !folder.is_dir() {
            return Err(refuse("its parent is not a folder"));
        }
        // A file without a name proves that the folder is writable, and leaves nothing behind.
        tempfile::tempfile_in(&folder).map_err(Error::io("write in the folder", &folder))?;
        let target = folder.join(target.file_name().expect("checked above"));
        Ok(Self { option, target, folder, staged: None })
    }
}

fn same_file(one: &Path, other: &Path) -> bool {
    if let (Ok(one), Ok(other)) = (fs::metadata(one), fs::metadata(other)) {
        return (one.dev(), one.ino()) == (other.dev(), other.ino());
    }
    one == other
}

/// A temporary file that is known to the signal handler.
#[derive(Debug)]
struct Staged(Option<NamedTempFile>);

impl Staged {
    fn new(folder: &Path) -> io::Result<Self> {
        // Locked before the file is there: no interruption can come between.
        let mut temporary = signals::lock();
        let file = tempfile::Builder::new()
            .prefix(".pinprover-")
            .suffix(".tmp")
            // As any new file: the user's umask takes away from this.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder)?;
        temporary.add(file.path());
        Ok(Self(Some(file)))
    }

    fn file(&self) -> &File {
        self.0.as_ref().expect("only taken by value").as_file()
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some(file) = self.0.take() {
            let path = file.path().to_owned();
            drop(file);
            signals::lock().remove(&path);
        }
    }
}

/// An output that has its name, and what it takes to undo that.
struct Published {
    target: PathBuf,
    before: Before,
}

enum Before {
    Nothing,
    /// The file that was there, under another name.
    Kept(PathBuf),
    /// There was one, and the file system has no hard links to keep it by.
    Lost,
}

impl Published {
    fn new(target: &Path, mut staged: Staged, temporary: &mut signals::TemporaryFiles) -> io::Result<Self> {
        let file = staged.0.take().expect("only taken by value");
        let path = file.path().to_owned();
        let before = if target.exists() {
            let mut kept = path.clone().into_os_string();
            kept.push(".old");
            let kept = PathBuf::from(kept);
            match fs::hard_link(target, &kept) {
                Ok(()) => {
                    temporary.add(&kept);
                    Before::Kept(kept)
                }
                Err(_) => Before::Lost,
            }
        } else {
            Before::Nothing
        };
        let renamed = file.persist(target);
        temporary.remove(&path);
        match renamed {
            Ok(_) => Ok(Self { target: target.to_owned(), before }),
            Err(e) => {
                // Dropping the error drops the file, which removes it.
                let cause = e.error;
                drop(e.file);
                Self { target: target.to_owned(), before }.keep(temporary);
                Err(cause)
            }
        }
    }

    /// Forgets what was there before.
    fn keep(self, temporary: &mut signals::TemporaryFiles) {
        if let Before::Kept(kept) = self.before {
            if let Err(cause) = fs::remove_file(&kept) {
                tracing::warn!("cannot remove {}: {cause}", kept.display());
            }
            temporary.remove(&kept);
        }
    }

    fn undo(self, temporary: &mut signals::TemporaryFiles) {
        let undone = match &self.before {
            Before::Nothing => fs::remove_file(&self.target),
            Before::Kept(kept) => {
                let undone = fs::rename(kept, &self.target);
                temporary.remove(kept);
                undone
            }
            Before::Lost => Err(io::Error::other("the file that was there could not be kept")),
        };
        if let Err(cause) = undone {
            tracing::error!("cannot undo the writing of {}: {cause}", self.target.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn write_two(one: &Path, two: &Path) -> Result<(), Error> {
        let mut outputs = Outputs::plan(&[], &[("--one", one), ("--two", two)])?;
        outputs.write("--one", |w| w.write_all(b"new one"))?;
        outputs.write("--two", |w| w.write_all(b"new two"))?;
        outputs.commit()
    }

    #[test]
    fn contents_appear_at_commit_and_nothing_else_does() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        fs::write(&two, "old two").unwrap();
        let mut outputs = Outputs::plan(&[], &[("--one", &one), ("--two", &two)]).unwrap();
        assert_eq!(names(dir.path()), ["two"], "planning leaves nothing behind");
        outputs.write("--one", |w| w.write_all(b"new one")).unwrap();
        outputs.write("--two", |w| w.write_all(b"new two")).unwrap();
        assert!(!one.exists());
        assert_eq!(fs::read_to_string(&two).unwrap(), "old two");
        outputs.commit().unwrap();
        assert_eq!(names(dir.path()), ["one", "two"]);
        assert_eq!(fs::read_to_string(&one).unwrap(), "new one");
        assert_eq!(fs::read_to_string(&two).unwrap(), "new two");
    }

    #[test]
    fn new_files_have_the_mode_of_any_new_file() {
        let dir = tempfile::tempdir().unwrap();
        let usual = dir.path().join("usual");
        File::create(&usual).unwrap();
        write_two(&dir.path().join("one"), &dir.path().join("two")).unwrap();
        let mode = |name: &str| fs::metadata(dir.path().join(name)).unwrap().mode();
        assert_eq!(mode("one"), mode("usual"));
    }

    #[test]
    fn without_commit_nothing_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let one = dir.path().join("one");
        let mut outputs = Outputs::plan(&[], &[("--one", &one)]).unwrap();
        outputs.write("--one", |w| w.write_all(b"x")).unwrap();
        drop(outputs);
        assert_eq!(names(dir.path()), [""; 0]);
        let mut outputs = Outputs::plan(&[], &[("--one", &one)]).unwrap();
        let failed = outputs.write("--one", |w| {
            w.write_all(b"half")?;
            Err(io::Error::other("the source dried up"))
        });
        assert!(failed.unwrap_err().to_string().contains("the source dried up"));
        drop(outputs);
        assert_eq!(names(dir.path()), [""; 0]);
    }

    #[test]
    fn a_failed_second_rename_undoes_the_first() {
        for old in [None, Some("old one")] {
            let dir = tempfile::tempdir().unwrap();
            let (one, two) = (dir.path().join("one"), dir.path().join("two"));
            if let Some(old) = old {
                fs::write(&one, old).unwrap();
            }
            let mut outputs = Outputs::plan(&[], &[("--one", &one), ("--two", &two)]).unwrap();
            outputs.write("--one", |w| w.write_all(b"new one")).unwrap();
            outputs.write("--two", |w| w.write_all(b"new two")).unwrap();
            // A folder that came in between: a file cannot replace it.
            fs::create_dir_all(two.join("in the way")).unwrap();
            assert!(matches!(outputs.commit(), Err(Error::Io { .. })));
            assert_eq!(fs::read_to_string(&one).ok().as_deref(), old);
            assert_eq!(names(dir.path()), if old.is_some() { &["one", "two"][..] } else { &["two"] });
        }
    }

    #[test]
    fn impossible_paths_are_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("input"), "in").unwrap();
        std::os::unix::fs::symlink(path("input"), path("link")).unwrap();
        fs::hard_link(path("input"), path("twin")).unwrap();
        let plan = |output: &Path| Outputs::plan(&[("--in", &path("input"))], &[("--out", output)]);
        let twisted = dir.path().join(".").join("input");
        for same in [path("input"), path("link"), path("twin"), twisted] {
            let error = plan(&same).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().contains("is the input of --in"), "{error}");
        }
        let error = write_two(&path("new"), &dir.path().join(".").join("new")).unwrap_err();
        assert!(error.to_string().contains("is the output of --one"), "{error}");
        assert_eq!(plan(dir.path()).unwrap_err().exit_code(), 2);
        assert_eq!(plan(Path::new("/dev/null")).unwrap_err().exit_code(), 2);
        assert_eq!(plan(Path::new("")).unwrap_err().exit_code(), 2);
        assert_eq!(plan(&path("new/")).unwrap_err().exit_code(), 2);
        let error = plan(&path("no/such/folder/file")).unwrap_err();
        assert_eq!(error.exit_code(), 1);
        assert!(error.to_string().contains("no/such/folder"), "{error}");
        assert_eq!(names(dir.path()), ["input", "link", "twin"]);
    }

    #[test]
    fn the_file_behind_a_link_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let mut outputs = Outputs::plan(&[], &[("--out", &link)]).unwrap();
        outputs.write("--out", |w| w.write_all(b"new")).unwrap();
        outputs.commit().unwrap();
        assert_eq!(fs::read_to_string(&real).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}
