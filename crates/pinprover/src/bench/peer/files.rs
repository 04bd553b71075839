//! The folder with what the peer reads: the key, and one synthesised circuit.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use bellperson::groth16::{Parameters, ProvingAssignment};
use blst::blst_fr;
use blstrs::{Bls12, Scalar};
use tempfile::TempDir;

use super::wire::{Counts, Element, Writer};
use super::PeerError;
use crate::error::Error;
use crate::keys::write_params;
use crate::proving::Blinding;
use crate::signals;

/// Both files. They hold a witness: the folder is open to nobody else, and goes with the value, or with the process if it
/// is interrupted.
pub struct Files {
    folder: Option<TempDir>,
    paths: [PathBuf; 2],
}

impl Files {
    /// Writes both files to a new folder in `parent`, once it is clear that they fit there.
    ///
    /// # Errors
    /// [`PeerError::NoSpace`] with both numbers; [`Error::Io`]. Nothing stays then.
    pub fn write(
        parent: &Path,
        params: &Parameters<Bls12>,
        assignment: &ProvingAssignment<Scalar>,
        blinding: Blinding,
    ) -> Result<Self, Error> {
        let counts = counts(assignment);
        let needed = Self::needed(params, assignment);
        let free = free_bytes(parent).map_err(Error::io("ask for the free space of", parent))?;
        if free < needed {
            return Err(PeerError::NoSpace { folder: parent.to_owned(), needed, free }.into());
        }
        let files = Self::new(parent).map_err(Error::io("make a folder in", parent))?;
        let [key, synthesised] = &files.paths;
        let write = |path: &Path, content: &dyn Fn(File) -> io::Result<()>| {
            File::create_new(path).and_then(content).map_err(Error::io("write", path))
        };
        write(key, &|file| write_params(params, file))?;
        write(synthesised, &|file| write_synthesised(file, &counts, assignment, blinding))?;
        Ok(files)
    }

    /// Bytes that both files will have.
    pub fn needed(params: &Parameters<Bls12>, assignment: &ProvingAssignment<Scalar>) -> u64 {
        let synthesised = counts(assignment).file_bytes().unwrap_or(u64::MAX);
        synthesised.saturating_add(key_bytes(params))
    }

    fn new(parent: &Path) -> io::Result<Self> {
        // Locked before the folder is there: no interruption can come between.
        let mut temporary = signals::lock();
        let folder = tempfile::Builder::new().prefix(".pinprover-peer-").tempdir_in(parent)?;
        let paths = ["key", "synthesised"].map(|name| folder.path().join(name));
        temporary.add(folder.path());
        paths.iter().for_each(|path| temporary.add(path));
        Ok(Self { folder: Some(folder), paths })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.folder.as_ref().expect("only taken when dropped").path()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let Some(folder) = self.folder.take() else { return };
        let path = folder.path().to_owned();
        if let Err(cause) = folder.close() {
            tracing::warn!("cannot remove {}: {cause}", path.display());
        }
        let mut temporary = signals::lock();
        self.paths.iter().for_each(|path| temporary.remove(path));
        temporary.remove(&path);
    }
}

fn counts(assignment: &ProvingAssignment<Scalar>) -> Counts {
    let shape = assignment.shape();
    Counts {
        abc: shape.constraints as u64,
        inputs: shape.inputs as u64,
        aux: shape.aux as u64,
        a_aux: assignment.a_aux_density().get_total_density() as u64,
        b_inputs: assignment.b_input_density().get_total_density() as u64,
        b_aux: assignment.b_aux_density().get_total_density() as u64,
    }
}

fn write_synthesised(
    file: File,
    counts: &Counts,
    assignment: &ProvingAssignment<Scalar>,
    blinding: Blinding,
) -> io::Result<()> {
    let mut writer = Writer::new(BufWriter::new(file), counts)?;
    for vector in [
        assignment.a(),
        assignment.b(),
        assignment.c(),
        assignment.input_assignment(),
        assignment.aux_assignment(),
    ] {
        writer.elements(vector.iter().map(element))?;
    }
    for density in [assignment.a_aux_density(), assignment.b_input_density(), assignment.b_aux_density()] {
        writer.words(words(density.bv.as_raw_slice(), density.bv.len()))?;
    }
    writer.elements([element(&blinding.r), element(&blinding.s)])?;
    writer.finish()?;
    Ok(())
}

/// In Montgomery form, as it lies in memory.
fn element(scalar: &Scalar) -> Element {
    blst_fr::from(*scalar).l
}

/// The words of a density of `bits` bits. What lies behind the last bit is anything, and left out.
fn words(raw: &[usize], bits: usize) -> impl Iterator<Item = u64> + '_ {
    const { assert!(usize::BITS == 64) };
    raw.iter().take(bits.div_ceil(64)).enumerate().map(move |(i, word)| match bits - i * 64 {
        left @ 0..64 => *word as u64 & ((1 << left) - 1),
        _ => *word as u64,
    })
}

/// Bytes of the key's file: bellperson's uncompressed format.
fn key_bytes(params: &Parameters<Bls12>) -> u64 {
    let g1 = params.h.len() + params.l.len() + params.a.len() + params.b_g1.len() + params.vk.ic.len();
    3 * (96 + 192) + 6 * 4 + g1 as u64 * 96 + params.b_g2.len() as u64 * 192
}

/// Bytes that a user without privileges can still write to the file system of `folder`.
fn free_bytes(folder: &Path) -> io::Result<u64> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(folder.as_os_str().as_bytes())?;
    let mut stat = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends with a zero byte, and statvfs only writes to the valid pointer it gets.
    if unsafe { libc::statvfs(path.as_ptr(), stat.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: on success the kernel has filled it in.
    let stat = unsafe { stat.assume_init() };
    #[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
    Ok((stat.f_bavail as u64).saturating_mul(stat.f_frsize as u64))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use bellperson::groth16::synthesize;
    use rand_chacha::ChaCha20Rng;
    use rand_core::SeedableRng;

    use super::*;
    use crate::bench::peer::wire::{self, FileError};
    use crate::circuits::{BuiltIn, Family, Instance, Shape, Size};
    use crate::keys;

    fn files(parent: &Path) -> (Parameters<Bls12>, ProvingAssignment<Scalar>, Blinding, Files) {
        let mut rng = ChaCha20Rng::seed_from_u64(7);
        let built = BuiltIn::new(Family::Mixed, Size::Constraints(300)).unwrap();
        let shape = Shape::of(built.circuit::<Scalar>()).unwrap();
        let params = keys::generate("make a key", || built.circuit::<Scalar>(), &shape, &mut rng).unwrap();
        let Instance { circuit, .. } = built.instance::<Scalar>(&mut rng);
        let assignment = synthesize(circuit, None).unwrap();
        let blinding = Blinding::from_rng(&mut rng);
        let files = Files::write(parent, &params, &assignment, blinding).unwrap();
        (params, assignment, blinding, files)
    }

    #[test]
    fn what_was_written_is_read_and_the_folder_goes_with_the_value() {
        let parent = tempfile::tempdir().unwrap();
        let (params, assignment, blinding, files) = files(parent.path());
        let read = wire::read(&files.paths[1]).unwrap();
        let scalars = |elements: &[Element]| -> Vec<Scalar> {
            elements.iter().map(|limbs| Scalar::from(blst_fr { l: *limbs })).collect()
        };
        assert_eq!(scalars(&read.a), assignment.a());
        assert_eq!(scalars(&read.b), assignment.b());
        assert_eq!(scalars(&read.c), assignment.c());
        assert_eq!(scalars(&read.inputs), assignment.input_assignment());
        assert_eq!(scalars(&read.aux), assignment.aux_assignment());
        assert_eq!(scalars(&[read.r, read.s]), [blinding.r, blinding.s]);
        for (words, density) in [
            (&read.a_aux, assignment.a_aux_density()),
            (&read.b_inputs, assignment.b_input_density()),
            (&read.b_aux, assignment.b_aux_density()),
        ] {
            let bits: Vec<bool> = (0..density.bv.len()).map(|i| words[i / 64] >> (i % 64) & 1 == 1).collect();
            assert_eq!(bits, density.bv.iter().by_vals().collect::<Vec<_>>());
        }
        assert_eq!(read.counts, counts(&assignment));
        assert!(keys::read_params(&files.paths[0], true).unwrap() == params);
        let sizes: u64 = files.paths.iter().map(|path| fs::metadata(path).unwrap().len()).sum();
        assert_eq!(Files::needed(&params, &assignment), sizes);
        drop(files);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_damaged_or_cut_file_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let (.., files) = files(parent.path());
        let path = &files.paths[1];
        let whole = fs::read(path).unwrap();
        let read = |bytes: &[u8]| {
            fs::write(path, bytes).unwrap();
            wire::read(path).err().expect("the file is not what was written")
        };
        let changed = |at: usize| {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            bytes
        };
        assert!(matches!(read(&[]), FileError::Length { found: 0, .. }));
        for length in [1, 50, whole.len() / 2, whole.len() - 1] {
            let found = read(&whole[..length]);
            assert!(matches!(found, FileError::Length { .. }), "{length}: {found}");
        }
        assert!(matches!(read(&[&whole[..], &[0]].concat()), FileError::Length { .. }));
        assert!(matches!(read(&changed(0)), FileError::Magic));
        // Each count of elements; the highest byte of one.
        for at in [8, 16, 24, 15 - 3] {
            let found = read(&changed(at));
            assert!(matches!(found, FileError::Length { .. } | FileError::Checksum), "{at}: {found}");
        }
        assert!(matches!(read(&[&whole[..8], &[0xff; 48], &whole[56..]].concat()), FileError::Counts));
        for at in [32, 40, 48, 56, whole.len() / 2, whole.len() - 33, whole.len() - 1] {
            let found = read(&changed(at));
            assert!(matches!(found, FileError::Checksum), "{at}: {found}");
        }
    }

    #[test]
    fn a_density_with_other_bits_than_counted_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("synthesised");
        let write = |words: [u64; 3]| {
            let counts = Counts { abc: 1, inputs: 1, aux: 2, a_aux: 2, b_inputs: 0, b_aux: 1 };
            let mut writer = Writer::new(File::create(&path).unwrap(), &counts).unwrap();
            // a, b, c, one input, two of the witness.
            writer.elements([[1, 2, 3, 4]; 6]).unwrap();
            writer.words(words).unwrap();
            writer.elements([[0; 4]; 2]).unwrap();
            writer.finish().unwrap();
            wire::read(&path)
        };
        assert!(write([0b11, 0, 0b10]).is_ok());
        for words in [[0b01, 0, 0b10], [0b11, 1, 0b10], [0b11, 0, 0b11], [0b101, 0, 0b10], [0b11, 0, 1 << 63]]
        {
            assert!(matches!(write(words), Err(FileError::Density { .. })), "{words:?}");
        }
    }

    #[test]
    fn bits_behind_the_last_variable_are_left_out() {
        assert_eq!(words(&[usize::MAX; 3], 70).collect::<Vec<_>>(), [u64::MAX, 0b11_1111]);
        assert_eq!(words(&[usize::MAX; 2], 64).collect::<Vec<_>>(), [u64::MAX]);
        assert_eq!(words(&[usize::MAX], 0).count(), 0);
    }
}
