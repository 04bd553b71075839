//! Running the binary, and folders whose content can be compared.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;

/// A command that runs the binary, in a known environment.
pub fn command<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(arguments: I) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pinprover"));
    command.args(arguments).env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// What a run left on its streams.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("the streams are UTF-8");
        Self {
            code: output.status.code().expect("the process was not killed"),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

impl Run {
    /// Standard output as one JSON object.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// Panics unless the run ended with `code`.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    /// Panics unless the run failed with `code`, one line that has all of `parts`, and nothing on standard output.
    #[track_caller]
    pub fn expect_error(self, code: i32, parts: &[&str]) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        assert!(self.stderr.starts_with("error: "), "{self:?}");
        assert_eq!(self.stderr.lines().count(), 1, "{self:?}");
        // Folders have random names, in which a short part would be found by chance.
        let without_folders: Vec<_> =
            self.stderr.split(' ').map(|word| word.rsplit('/').next().unwrap_or_default()).collect();
        let without_folders = without_folders.join(" ");
        for part in parts {
            let text = if part.contains('/') { &self.stderr } else { &without_folders };
            assert!(text.contains(part), "{part:?} is not in {text:?}");
        }
        self
    }
}

/// Runs the binary.
pub fn run<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(arguments: I) -> Run {
    command(arguments).output().expect("the binary starts").into()
}

/// A fixture made from a circom source of ours.
pub fn fixture(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/circom").join(name);
    assert!(path.is_file(), "{}", path.display());
    path
}

/// A folder that goes with the value.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn root(&self) -> &Path {
        self.0.path()
    }

    /// A file in it.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), content).unwrap();
        self.path(name)
    }

    /// Every file in it, hidden ones too, with its content.
    pub fn content(&self) -> BTreeMap<String, Vec<u8>> {
        fs::read_dir(self.root())
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let content = fs::read(entry.path()).unwrap_or_default();
                (entry.file_name().into_string().unwrap(), content)
            })
            .collect()
    }

    pub fn names(&self) -> Vec<String> {
        self.content().into_keys().collect()
    }
}

/// Keys and a proof of a fixture, made once by the binary itself.
pub struct Proved {
    pub folder: Folder,
    pub name: &'static str,
}

impl Proved {
    pub fn make(name: &'static str) -> Self {
        let proved = Self { folder: Folder::new(), name };
        proved.setup(&proved.params(), &proved.vk()).expect(0);
        proved.prove(&proved.proof(), &proved.public()).expect(0);
        proved
    }

    /// `multiplier.circom`: one public output, 33.
    pub fn multiplier() -> &'static Self {
        static MADE: OnceLock<Proved> = OnceLock::new();
        MADE.get_or_init(|| Self::make("multiplier"))
    }

    pub fn r1cs(&self) -> PathBuf {
        fixture(&format!("{}.r1cs", self.name))
    }

    pub fn wtns(&self) -> PathBuf {
        fixture(&format!("{}.wtns", self.name))
    }

    pub fn params(&self) -> PathBuf {
        self.folder.path("c.params")
    }

    pub fn vk(&self) -> PathBuf {
        self.folder.path("c.vk")
    }

    pub fn proof(&self) -> PathBuf {
        self.folder.path("c.proof")
    }

    pub fn public(&self) -> PathBuf {
        self.folder.path("c.public.json")
    }

    pub fn setup(&self, params: &Path, vk: &Path) -> Run {
        setup(&self.r1cs(), params, vk)
    }

    pub fn prove(&self, proof: &Path, public: &Path) -> Run {
        prove(&self.r1cs(), &self.wtns(), &self.params(), proof, public)
    }
}

pub fn setup(r1cs: &Path, params: &Path, vk: &Path) -> Run {
    run(setup_arguments(r1cs, params, vk))
}

pub fn setup_arguments<'a>(r1cs: &'a Path, params: &'a Path, vk: &'a Path) -> Vec<&'a OsStr> {
    vec![
        "setup".as_ref(),
        "--r1cs".as_ref(),
        r1cs.as_ref(),
        "--params".as_ref(),
        params.as_ref(),
        "--vk".as_ref(),
        vk.as_ref(),
    ]
}

pub fn prove(r1cs: &Path, wtns: &Path, params: &Path, proof: &Path, public: &Path) -> Run {
    run(prove_arguments(r1cs, wtns, params, proof, public))
}

pub fn prove_arguments<'a>(
    r1cs: &'a Path,
    wtns: &'a Path,
    params: &'a Path,
    proof: &'a Path,
    public: &'a Path,
) -> Vec<&'a OsStr> {
    let mut arguments: Vec<&OsStr> = vec!["prove".as_ref()];
    let options =
        [("--r1cs", r1cs), ("--wtns", wtns), ("--params", params), ("--proof", proof), ("--public", public)];
    for (option, path) in options {
        arguments.extend([option.as_ref(), path.as_os_str()]);
    }
    arguments
}

pub fn verify(vk: &Path, proof: &Path, public: &Path) -> Run {
    run(verify_arguments(vk, proof, public))
}

pub fn verify_arguments<'a>(vk: &'a Path, proof: &'a Path, public: &'a Path) -> Vec<&'a OsStr> {
    let [vk, proof, public] = [vk, proof, public].map(Path::as_os_str);
    vec!["verify".as_ref(), "--vk".as_ref(), vk, "--proof".as_ref(), proof, "--public".as_ref(), public]
}
