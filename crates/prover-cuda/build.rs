//! Compiles the kernels with nvcc, if feature `cuda` asks for them.
//!
//! - nvcc: `NVCC`, else `bin/nvcc` under `CUDA_HOME` or `CUDA_PATH`, else on the `PATH`, else in `/usr/local/cuda`;
//! - `PINPROVER_CUDA_ARCHS`: compute capabilities to compile for, for instance `80,90` (the default). The highest is
//!   included as PTX as well, which the driver compiles on newer devices.

fn main() {
    println!("cargo:rerun-if-changed=cuda");
    #[cfg(feature = "cuda")]
    cuda::build();
}

#[cfg(feature = "cuda")]
mod cuda {
    use std::env;
    use std::ffi::OsString;
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// The oldest nvcc whose bundled CUB and whose C++17 the kernels compile with.
    const OLDEST: (u32, u32) = (12, 0);
    const ARCHS: &str = "PINPROVER_CUDA_ARCHS";
    /// The slowest to compile come first.
    const SOURCES: [&str; 12] = [
        "fixed_base_g2.cu",
        "msm_g2.cu",
        "fixed_base_g1.cu",
        "msm_g1.cu",
        "scalars.cu",
        "quotient.cu",
        "slot.cu",
        "self_test.cu",
        "abi.cpp",
        "gpus.cpp",
        "fault.cpp",
        "msm_plan.cpp",
    ];
    const DEFINES: [&str; 3] =
        ["FEATURE_BLS12_381", "SPPARK_DONT_INSTANTIATE_TEMPLATES", "TAKE_RESPONSIBILITY_FOR_ERROR_MESSAGE"];

    pub fn build() {
        for variable in ["NVCC", "CUDA_HOME", "CUDA_PATH", "PATH", ARCHS] {
            println!("cargo:rerun-if-env-changed={variable}");
        }
        let nvcc = find_nvcc().unwrap_or_else(|tried| {
            fail(&format!(
                "feature `cuda` needs nvcc {}.{} or newer, and there is none; tried {tried}. Install the CUDA toolkit, set NVCC, \
                 or run `eval \"$(scripts/cuda_toolchain.sh)\"`, which fetches one from PyPI; or build without the feature",
                OLDEST.0, OLDEST.1
            ))
        });
        check_version(&nvcc);
        let archs = architectures(&nvcc);
        compile(&nvcc, &archs);
        let list: Vec<String> = archs.iter().map(u32::to_string).collect();
        println!("cargo:rustc-env=PINPROVER_CUDA_ARCHS={}", list.join(","));
    }

    fn fail(text: &str) -> ! {
        eprintln!("error: prover-cuda: {text}");
        std::process::exit(1)
    }

    fn find_nvcc() -> Result<PathBuf, String> {
        let mut tried = Vec::new();
        let mut candidates: Vec<(String, PathBuf)> = Vec::new();
        if let Some(path) = env::var_os("NVCC").filter(|v| !v.is_empty()) {
            let path = which(&path).unwrap_or_else(|| path.into());
            // Whoever names one does not mean another.
            let named = format!("NVCC ({}), which is no file", path.display());
            return if path.is_file() { Ok(path) } else { Err(named) };
        }
        for variable in ["CUDA_HOME", "CUDA_PATH"] {
            if let Some(home) = env::var_os(variable).filter(|v| !v.is_empty()) {
                candidates.push((variable.to_owned(), Path::new(&home).join("bin/nvcc")));
            }
        }
        match which(&OsString::from("nvcc")) {
            Some(path) => candidates.push(("PATH".to_owned(), path)),
            None => tried.push("PATH".to_owned()),
        }
        candidates.push(("default".to_owned(), PathBuf::from("/usr/local/cuda/bin/nvcc")));
        for (source, path) in candidates {
            if path.is_file() {
                return Ok(path);
            }
            tried.push(format!("{source} ({})", path.display()));
        }
        Err(tried.join(", "))
    }

    /// The program of this name on the PATH, or the path itself if it is one.
    fn which(name: &OsString) -> Option<PathBuf> {
        let path = Path::new(name);
        if path.components().count() > 1 {
            return path.is_file().then(|| path.to_owned());
        }
        env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(name)).find(|path| path.is_file())
    }

    fn check_version(nvcc: &Path) {
        let output = match Command::new(nvcc).arg("--version").output() {
            Ok(output) if output.status.success() => output,
            Ok(output) => fail(&format!("{} --version ended with {}", nvcc.display(), output.status)),
            Err(e) => fail(&format!("{} cannot be run: {e}", nvcc.display())),
        };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.split("release ").nth(1).and_then(|rest| {
            let mut numbers = rest.split([',', '.']).map(|n| n.trim().parse::<u32>());
            Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
        });
        match version {
            Some(version) if version >= OLDEST => {}
            Some((major, minor)) => fail(&format!(
                "{} is version {major}.{minor}; {}.{} or newer is needed",
                nvcc.display(),
                OLDEST.0,
                OLDEST.1
            )),
            None => fail(&format!("{} --version prints no release: {}", nvcc.display(), text.trim())),
        }
    }

    fn architectures(nvcc: &Path) -> Vec<u32> {
        let wanted = env::var(ARCHS).ok().filter(|v| !v.trim().is_empty());
        let text = wanted.unwrap_or_else(|| "80,90".to_owned());
        let mut archs = Vec::new();
        for part in text.split([',', ';', ' ']).filter(|part| !part.is_empty()) {
            let number = part.trim_start_matches("sm_").replace('.', "").parse::<u32>();
            match number {
                Ok(number) if number >= 70 => archs.push(number),
                _ => fail(&format!("{ARCHS}={text}: {part} is no compute capability of 7.0 or newer; write for instance 80,90")),
            }
        }
        archs.sort_unstable();
        archs.dedup();
        if let Ok(output) = Command::new(nvcc).arg("--list-gpu-arch").output() {
            let known = String::from_utf8_lossy(&output.stdout).into_owned();
            for arch in archs.iter().filter(|_| output.status.success()) {
                if !known.split_whitespace().any(|line| line == format!("compute_{arch}")) {
                    let known: Vec<&str> = known.split_whitespace().collect();
                    fail(&format!(
                        "{} does not compile for sm_{arch} ({ARCHS}={text}); it knows {}",
                        nvcc.display(),
                        known.join(" ")
                    ));
                }
            }
        }
        archs
    }

    fn compile(nvcc: &Path, archs: &[u32]) {
        let folder = |variable: &str| {
            PathBuf::from(
                env::var_os(variable)
                    .unwrap_or_else(|| fail(&format!("{variable} is not set by its crate's build script"))),
            )
        };
        let (sppark, blst) = (folder("DEP_SPPARK_ROOT"), folder("DEP_BLST_C_SRC"));
        let out = folder("OUT_DIR");
        let mut flags: Vec<String> =
            ["-O3", "-std=c++17", "-w", "-Xcompiler", "-fPIC"].map(str::to_owned).into();
        for include in [&sppark, &blst] {
            flags.push(format!("-I{}", include.display()));
        }
        flags.extend(DEFINES.map(|define| format!("-D{define}")));
        if env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("x86_64") {
            // blst chooses the instructions at run time; its headers want to know that they may be there.
            flags.push("-D__ADX__".to_owned());
        }
        for arch in archs {
            flags.extend(["-gencode".to_owned(), format!("arch=compute_{arch},code=sm_{arch}")]);
        }
        if let Some(newest) = archs.last() {
            flags.extend(["-gencode".to_owned(), format!("arch=compute_{newest},code=compute_{newest}")]);
        }
        let objects = compile_all(nvcc, &flags, &out);
        let mut archive = cc::Build::new();
        archive.cargo_metadata(false);
        for object in objects {
            archive.object(object);
        }
        if let Err(e) = archive.try_compile("pinprover_cuda") {
            fail(&format!("the kernels' archive: {e}"));
        }
        println!("cargo:rustc-link-search=native={}", out.display());
        println!("cargo:rustc-link-lib=static=pinprover_cuda");
        for library in libraries(nvcc) {
            println!("cargo:rustc-link-search=native={}", library.display());
        }
        println!("cargo:rustc-link-lib=static=cudart_static");
        for library in ["stdc++", "dl", "rt", "pthread"] {
            println!("cargo:rustc-link-lib=dylib={library}");
        }
    }

    /// Compiles every file, as many at a time as cargo allows.
    fn compile_all(nvcc: &Path, flags: &[String], out: &Path) -> Vec<PathBuf> {
        let jobs = env::var("NUM_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(1);
        let next = AtomicUsize::new(0);
        let worker = || {
            while let Some(file) = SOURCES.get(next.fetch_add(1, Ordering::Relaxed)) {
                let object = out.join(file).with_extension("o");
                let mut command = Command::new(nvcc);
                command
                    .args(flags)
                    .args(["-x", "cu", "-c"])
                    .arg(Path::new("cuda").join(file))
                    .arg("-o")
                    .arg(&object);
                match command.output() {
                    Ok(output) if output.status.success() => {}
                    Ok(output) => fail(&format!(
                        "cuda/{file} does not compile ({}): {command:?}\n{}{}",
                        output.status,
                        String::from_utf8_lossy(&output.stdout),
                        String::from_utf8_lossy(&output.stderr)
                    )),
                    Err(e) => fail(&format!("{} cannot be run: {e}", nvcc.display())),
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(worker);
            }
        });
        SOURCES.iter().map(|file| out.join(file).with_extension("o")).collect()
    }

    /// Where the toolkit of this nvcc keeps its libraries.
    fn libraries(nvcc: &Path) -> Vec<PathBuf> {
        let real = nvcc.canonicalize().unwrap_or_else(|_| nvcc.to_owned());
        let homes = [nvcc, &real].into_iter().filter_map(|path| Some(path.parent()?.parent()?.to_owned()));
        homes
            .flat_map(|home| {
                ["lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"]
                    .map(|lib| home.join(lib))
            })
            .filter(|folder| folder.join("libcudart_static.a").is_file())
            .collect()
    }
}
