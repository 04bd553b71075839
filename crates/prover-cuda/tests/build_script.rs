//! Field case 45: what the build script says about a toolkit that is missing, too old, or does not know the architectures.
//!
//! The real `build.rs` with the real `cc`, run by cargo as a package of its own, so that neither blst nor sppark are built: the
//! script looks at the toolkit before it asks for them. The nvccs are shell scripts that answer as one would. Needs neither a
//! toolkit nor feature `cuda`; some seconds, all packages from the cache.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

const ARCHS: &str = "PINPROVER_CUDA_ARCHS";
const DEFAULT: &str = "/usr/local/cuda/bin/nvcc";

/// The package around the build script.
struct Package {
    root: PathBuf,
    /// A folder with nothing in it, for a `PATH`.
    nowhere: PathBuf,
}

/// What cargo said.
#[derive(Debug)]
struct Said {
    success: bool,
    text: String,
}

impl Said {
    /// It failed, by the script's own words, which name all of these.
    fn refuses(&self, parts: &[&str]) {
        assert!(!self.success, "it succeeds: {}", self.text);
        assert!(self.text.contains("error: prover-cuda: "), "the script said nothing: {}", self.text);
        for part in parts {
            assert!(self.text.contains(part), "{part:?} is not in: {}", self.text);
        }
        assert!(!self.text.contains("panicked"), "{}", self.text);
    }
}

impl Package {
    /// Made, and its build script compiled, once; one test at a time uses it.
    fn take() -> MutexGuard<'static, Self> {
        static PACKAGE: OnceLock<Mutex<Package>> = OnceLock::new();
        let package = PACKAGE.get_or_init(|| Mutex::new(Self::make()));
        package.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make() -> Self {
        let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("build-script");
        let nowhere = root.join("nowhere");
        for folder in [&root.join("src"), &nowhere] {
            fs::create_dir_all(folder).expect("a folder under target");
        }
        let script = crate_root.join("build.rs");
        // As in this crate's manifest, but for the dependencies that the script does not link.
        let manifest = format!(
            "[package]\nname = \"build-script\"\nversion = \"0.0.0\"\nedition = \"2021\"\nbuild = {script:?}\n\
             [features]\ncuda = [\"dep:cc\"]\n\
             [build-dependencies]\ncc = {{ version = \"1.2\", optional = true }}\n\
             [workspace]\n"
        );
        fs::write(root.join("Cargo.toml"), manifest).expect("a manifest");
        fs::write(root.join("src/lib.rs"), "").expect("a library");
        // The versions of the workspace, which are in the cache.
        let lock = crate_root.join("../../Cargo.lock");
        fs::copy(lock, root.join("Cargo.lock")).expect("the workspace's lock file");
        let package = Self { root, nowhere };
        // Compiles the script with and without the feature, with the PATH that a linker is on.
        let path = std::env::var("PATH").unwrap_or_default();
        let nvcc = package.nvcc("first", "echo nothing");
        package.cargo(&path, &["--features=cuda"], &[("NVCC", &nvcc)]).refuses(&["prints no release"]);
        let said = package.cargo(&path, &[], &[]);
        assert!(said.success, "{}", said.text);
        package
    }

    /// An nvcc that runs these lines of shell.
    fn nvcc(&self, name: &str, script: &str) -> String {
        let folder = self.root.join(name).join("bin");
        fs::create_dir_all(&folder).expect("a folder under target");
        let file = folder.join("nvcc");
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("a script");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("it may be run");
        file.to_str().expect("a path of text").to_owned()
    }

    /// One that says so of its release, and knows sm_80 and sm_90.
    fn nvcc_of(&self, release: &str) -> String {
        let script = format!(
            "case $1 in\n--version) echo 'Cuda compilation tools, release {release}, V{release}.1' ;;\n\
             --list-gpu-arch) echo compute_80; echo compute_90 ;;\n*) exit 1 ;;\nesac"
        );
        self.nvcc(&format!("cuda-{release}"), &script)
    }

    /// Builds the package.
    fn cargo(&self, path: &str, options: &[&str], variables: &[(&str, &str)]) -> Said {
        let cargo = PathBuf::from(std::env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into()));
        let mut command = Command::new(&cargo);
        command.args(["check", "--offline", "--color=never", "--target-dir"]).arg(self.root.join("target"));
        command.args(options).current_dir(&self.root);
        for variable in ["NVCC", "CUDA_HOME", "CUDA_PATH", ARCHS, "CARGO_TARGET_DIR"] {
            command.env_remove(variable);
        }
        let rustc = cargo.with_file_name("rustc");
        if rustc.is_file() {
            // The PATH may not have it.
            command.env("RUSTC", rustc);
        }
        let output = command.env("PATH", path).envs(variables.iter().copied()).output();
        let output = output.unwrap_or_else(|error| panic!("{}: {error}", cargo.display()));
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        Said { success: output.status.success(), text }
    }

    /// Builds it with feature `cuda`, and with nothing on the PATH.
    fn build(&self, variables: &[(&str, &str)]) -> Said {
        self.cargo(self.nowhere(), &["--features=cuda"], variables)
    }

    fn nowhere(&self) -> &str {
        self.nowhere.to_str().expect("a path of text")
    }
}

#[test]
fn an_old_toolkit_is_named_with_both_versions_wherever_it_was_found() {
    let package = Package::take();
    for release in ["11.0", "11.8"] {
        let nvcc = package.nvcc_of(release);
        let expected = format!("{nvcc} is version {release}; 12.0 or newer is needed");
        let folder = nvcc.trim_end_matches("/nvcc").to_owned();
        let home = folder.trim_end_matches("/bin");
        package.build(&[("NVCC", &nvcc)]).refuses(&[&expected]);
        package.build(&[("CUDA_HOME", home)]).refuses(&[&expected]);
        package.build(&[("CUDA_PATH", home)]).refuses(&[&expected]);
        package.cargo(&folder, &["--features=cuda"], &[]).refuses(&[&expected]);
        // A name is looked for on the PATH.
        package.cargo(&folder, &["--features=cuda"], &[("NVCC", "nvcc")]).refuses(&[&expected]);
    }
}

#[test]
fn no_toolkit_at_all_is_answered_with_what_was_tried_and_what_to_do() {
    let package = Package::take();
    if Path::new(DEFAULT).exists() {
        println!("not run: there is {DEFAULT}, which the script finds");
        return;
    }
    let help = ["needs nvcc 12.0 or newer", "set NVCC", "scripts/cuda_toolchain.sh", "without the feature"];
    package.build(&[]).refuses(&[&help[..], &[&format!("tried PATH, default ({DEFAULT})")]].concat());
    // Empty is unset.
    package.build(&[("NVCC", ""), ("CUDA_HOME", "")]).refuses(&["tried PATH, default"]);
    package
        .build(&[("NVCC", "/nowhere/nvcc")])
        .refuses(&[&help[..], &["tried NVCC (/nowhere/nvcc), which is no file"]].concat());
    package.build(&[("CUDA_HOME", "/nowhere")]).refuses(&["CUDA_HOME (/nowhere/bin/nvcc)"]);
    package.build(&[("CUDA_PATH", "/nowhere")]).refuses(&["CUDA_PATH (/nowhere/bin/nvcc)"]);
    // A folder is no program.
    package.build(&[("NVCC", "/")]).refuses(&["NVCC (/)"]);
}

#[test]
fn an_nvcc_that_is_none_is_named() {
    let package = Package::take();
    let nvcc = package.nvcc("fails", "echo 'release 12.4,'; exit 7");
    package.build(&[("NVCC", &nvcc)]).refuses(&[&nvcc, "--version ended with", "7"]);
    let nvcc = package.nvcc("other", "echo 'gcc 13'");
    package.build(&[("NVCC", &nvcc)]).refuses(&[&nvcc, "prints no release: gcc 13"]);
    let nvcc = package.nvcc("locked", "echo 'release 12.4,'");
    fs::set_permissions(&nvcc, fs::Permissions::from_mode(0o644)).expect("it may not be run");
    package.build(&[("NVCC", &nvcc)]).refuses(&[&nvcc, "cannot be run"]);
}

#[test]
fn architectures_that_are_none_or_unknown_to_the_toolkit_are_named() {
    let package = Package::take();
    let nvcc = package.nvcc_of("12.4");
    let build = |archs: &str| package.build(&[("NVCC", &nvcc), (ARCHS, archs)]);
    for (archs, wrong) in [("12,abc", "12"), ("90,abc", "abc"), ("-90", "-90"), ("sm_", "sm_"), ("60", "60")]
    {
        build(archs).refuses(&[&format!(
            "{ARCHS}={archs}: {wrong} is no compute capability of 7.0 or newer; write for instance 80,90"
        )]);
    }
    build("80,120").refuses(&[
        &nvcc,
        &format!("does not compile for sm_120 ({ARCHS}=80,120)"),
        "it knows compute_80 compute_90",
    ]);
}

/// The other way round: what is fine passes, up to where the script needs the packages that this one leaves out.
#[test]
fn a_toolkit_that_will_do_gets_further() {
    let package = Package::take();
    let further = &["DEP_SPPARK_ROOT is not set"];
    for release in ["12.0", "12.4", "13.0"] {
        package.build(&[("NVCC", &package.nvcc_of(release))]).refuses(further);
    }
    let nvcc = package.nvcc_of("12.4");
    for archs in ["", "90", "sm_90", "8.0;9.0", "80 90"] {
        package.build(&[("NVCC", &nvcc), (ARCHS, archs)]).refuses(further);
    }
}

#[test]
fn without_the_feature_no_toolkit_is_looked_for() {
    let package = Package::take();
    let said = package.cargo(package.nowhere(), &[], &[("NVCC", "/nowhere/nvcc"), (ARCHS, "abc")]);
    assert!(said.success, "{}", said.text);
}
