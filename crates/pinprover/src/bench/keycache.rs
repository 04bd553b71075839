//! Keys for benchmarks, kept between runs.
//!
//! The key of a circuit is the same in every run: it comes from a seed that is the circuit's name. Whoever knows
//! the seed can forge proofs, so these keys are good for benchmarks and nothing else.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use bellperson::groth16::Parameters;
use blstrs::{Bls12, Scalar};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use sha2::{Digest, Sha256};

use crate::circuits::{BuiltIn, Shape};
use crate::error::Error;
use crate::keys;
use crate::output::Outputs;
use crate::ui::Progress;

/// Where keys are kept if the user names no folder.
pub fn default_folder() -> PathBuf {
    std::env::temp_dir().join("pinprover-bench-keys")
}

/// The file of a circuit's key.
fn file(folder: &Path, circuit: &BuiltIn) -> PathBuf {
    folder.join(format!("{circuit}.params"))
}

/// The key of `circuit`: from `folder` if it is there, else made and kept there. One step of `progress`.
///
/// # Errors
/// If the key cannot be made or kept. A file that cannot be read or does not fit is made anew.
pub fn load_or_make(
    folder: &Path,
    circuit: &BuiltIn,
    progress: &Progress,
) -> Result<Parameters<Bls12>, Error> {
    let path = file(folder, circuit);
    if path.exists() {
        match progress.step(&format!("load the key {}", path.display()), || load(folder, circuit)).0 {
            Ok(params) => return Ok(params),
            Err(e) => tracing::warn!("making the key anew: {e}"),
        }
    }
    std::fs::create_dir_all(folder).map_err(Error::io("make the folder", folder))?;
    let mut outputs = Outputs::plan(&[], &[("--key-cache", &path)])?;
    let seed = Sha256::digest(format!("pinprover benchmark key, not secret: {circuit}"));
    let mut rng = ChaCha20Rng::from_seed(seed.into());
    let make = || {
        let shape = Shape::of(circuit.circuit::<Scalar>()).map_err(Error::synthesis("count the circuit"))?;
        keys::generate("make the key", || circuit.circuit::<Scalar>(), &shape, &mut rng)
    };
    let what = format!("make the key of {circuit} (kept in {} for the next run)", folder.display());
    let params = progress.step(&what, make).0?;
    outputs.write("--key-cache", |w| params.write(w))?;
    outputs.commit()?;
    Ok(params)
}

/// The key of `circuit`, which must be in `folder`.
///
/// # Errors
/// If it is not, or does not fit the circuit.
pub fn load(folder: &Path, circuit: &BuiltIn) -> Result<Parameters<Bls12>, Error> {
    let path = file(folder, circuit);
    let read = File::open(&path).map_err(Error::io("read", &path))?;
    // Unchecked points: a bad one shows in the check of the proof, and checking takes longer than the race.
    let params =
        Parameters::read(BufReader::with_capacity(1 << 20, read), false).map_err(Error::io("read", &path))?;
    let shape = Shape::of(circuit.circuit::<Scalar>()).map_err(Error::synthesis("count the circuit"))?;
    shape.fits(&params).map_err(|cause| Error::KeyMismatch { key: path, cause: cause.to_string() })?;
    Ok(params)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::circuits::{Family, Size};
    use crate::ui::Ui;

    #[test]
    fn a_key_is_made_once_and_again_if_it_is_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("new");
        let circuit = BuiltIn::new(Family::Squarings, Size::Constraints(20)).unwrap();
        let get = || load_or_make(&folder, &circuit, &Ui::new(false, true).progress(1)).unwrap();
        let first = get();
        let path = file(&folder, &circuit);
        let written = std::fs::metadata(&path).unwrap().modified().unwrap();
        assert!(get() == first);
        assert_eq!(std::fs::metadata(&path).unwrap().modified().unwrap(), written, "read, not made");
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert!(get() == first);
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        // The key of another circuit under this one's name.
        let other = BuiltIn::new(Family::Squarings, Size::Constraints(21)).unwrap();
        std::fs::copy(&path, file(&folder, &other)).unwrap();
        assert!(matches!(load(&folder, &other), Err(Error::KeyMismatch { .. })));
    }
}
