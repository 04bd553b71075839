//! `pinprover-peer FOLDER`: proofs by supraseal-c2, for `pinprover bench prove --peer`.
//!
//! A process of its own, because supraseal-c2 and our kernels export the same symbols. It reads the key and the circuit that
//! `pinprover` wrote to the folder, proves once, says `ready`, and then answers each line with a proof and the time it took,
//! until its standard input ends. Whatever goes wrong is said in a line, or is the end of this process.
//!
//! supraseal-c2 hides when it has read the key: the first proof waits for it, so that later ones do not.

#[path = "../bench/peer/wire.rs"]
#[allow(dead_code, reason = "the other process uses the other half")]
mod wire;

use std::fs::File;
use std::io::{self, BufRead, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use blst::{blst_p1_affine, blst_p1_affine_compress, blst_p2_affine, blst_p2_affine_compress};
use supraseal_c2::{Assignment, SRS};

use wire::{Element, Memory, Reply, Synthesised};

fn main() -> ExitCode {
    let mut replies = match own_stdout() {
        Ok(file) => file,
        Err(cause) => {
            eprintln!("pinprover-peer: cannot keep standard output for replies: {cause}");
            return ExitCode::FAILURE;
        }
    };
    let Some(folder) = std::env::args_os().nth(1) else {
        eprintln!("pinprover-peer is started by `pinprover bench prove --peer`");
        return ExitCode::from(2);
    };
    die_with_parent();
    let Err(text) = catch(|| serve(Path::new(&folder), &mut replies)).and_then(|served| served) else {
        return ExitCode::SUCCESS;
    };
    // If the parent is gone, there is nobody left to tell.
    let _ = writeln!(replies, "{}", Reply::Error(text));
    ExitCode::FAILURE
}

/// Standard output, for replies alone: what a library prints goes to standard error from now on.
fn own_stdout() -> io::Result<File> {
    let kept: OwnedFd = io::stdout().as_fd().try_clone_to_owned()?;
    // SAFETY: both are open descriptors of this process, and no thread but this one is there to use them meanwhile.
    if unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(kept.into())
}

/// A proof may hang: nobody must have to look for this process when the parent is gone.
fn die_with_parent() {
    #[cfg(target_os = "linux")]
    // SAFETY: PR_SET_PDEATHSIG takes a signal's number and touches no memory.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
}

/// supraseal-c2 panics with what went wrong.
fn catch<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
    })
}

fn serve(folder: &Path, replies: &mut File) -> Result<(), String> {
    let told = |cause: io::Error| format!("cannot reply: {cause}");
    let start = Instant::now();
    let file = folder.join("synthesised");
    let synthesised = wire::read(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let srs = SRS::try_new(folder.join("key"), false)
        .map_err(|e| format!("{}: {}", folder.join("key").display(), String::from(e)))?;
    let pageable = Vectors::of(&synthesised);
    prove(&synthesised, &pageable, &srs);
    let seconds = start.elapsed().as_secs_f64();
    writeln!(replies, "{}", Reply::Ready { seconds }).map_err(told)?;

    let mut pinned = None;
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|cause| format!("standard input: {cause}"))?;
        let vectors = match wire::parse_request(&line) {
            Some(Memory::Pageable) => &pageable,
            Some(Memory::Pinned) => match &mut pinned {
                Some(pinned) => pinned,
                none => none.insert(Vectors::pinned(&synthesised)?),
            },
            None => return Err(format!("{line:?} is no request")),
        };
        let (proof, seconds) = prove(&synthesised, vectors, &srs);
        writeln!(replies, "{}", Reply::Proof { seconds, proof }).map_err(told)?;
    }
    Ok(())
}

/// Where a, b, c and the witness lie, for as long as the process runs.
struct Vectors {
    a: *const Element,
    b: *const Element,
    c: *const Element,
    aux: *const Element,
}

impl Vectors {
    fn of(synthesised: &Synthesised) -> Self {
        let Synthesised { a, b, c, aux, .. } = synthesised;
        Self { a: a.as_ptr(), b: b.as_ptr(), c: c.as_ptr(), aux: aux.as_ptr() }
    }

    fn pinned(synthesised: &Synthesised) -> Result<Self, String> {
        let Synthesised { a, b, c, aux, .. } = synthesised;
        Ok(Self { a: pin(a)?, b: pin(b)?, c: pin(c)?, aux: pin(aux)? })
    }
}

extern "C" {
    fn cudaHostAlloc(memory: *mut *mut Element, bytes: usize, flags: u32) -> i32;
}

/// A copy in page-locked memory, which stays until the process ends.
fn pin(elements: &[Element]) -> Result<*const Element, String> {
    const PORTABLE: u32 = 1;
    let mut memory = std::ptr::null_mut();
    let bytes = size_of_val(elements);
    // SAFETY: the runtime writes a pointer to the place it gets, which is one.
    match unsafe { cudaHostAlloc(&mut memory, bytes, PORTABLE) } {
        // SAFETY: on success the memory holds `bytes` bytes, is aligned to pages and is nobody else's.
        0 => unsafe { std::ptr::copy_nonoverlapping(elements.as_ptr(), memory, elements.len()) },
        status => return Err(format!("cudaHostAlloc of {bytes} bytes failed with status {status}")),
    }
    Ok(memory)
}

/// A proof as supraseal-c2 writes it: its points have blst's layout, the identity being all zeros in both.
#[repr(C)]
#[derive(Default)]
struct Proof {
    a: blst_p1_affine,
    b: blst_p2_affine,
    c: blst_p1_affine,
}

const _: () = assert!(size_of::<Proof>() == 96 + 192 + 96);

impl Proof {
    fn compressed(&self) -> [u8; wire::PROOF] {
        let mut bytes = [0; wire::PROOF];
        let (a, rest) = bytes.split_at_mut(48);
        let (b, c) = rest.split_at_mut(96);
        // SAFETY: blst reads one point and writes 48 bytes for one of G1, 96 for one of G2: as long as the slices are.
        unsafe {
            blst_p1_affine_compress(a.as_mut_ptr(), &self.a);
            blst_p2_affine_compress(b.as_mut_ptr(), &self.b);
            blst_p1_affine_compress(c.as_mut_ptr(), &self.c);
        }
        bytes
    }
}

/// The proof, and the seconds from the synthesised circuit to it.
fn prove(synthesised: &Synthesised, vectors: &Vectors, srs: &SRS) -> ([u8; wire::PROOF], f64) {
    let counts = &synthesised.counts;
    // The counts are those of vectors in memory.
    let size = |count: u64| count as usize;
    let assignment = Assignment::<Element> {
        a_aux_density: synthesised.a_aux.as_ptr().cast(),
        a_aux_bit_len: size(counts.aux),
        a_aux_popcount: size(counts.a_aux),
        b_inp_density: synthesised.b_inputs.as_ptr().cast(),
        b_inp_bit_len: size(counts.inputs),
        b_inp_popcount: size(counts.b_inputs),
        b_aux_density: synthesised.b_aux.as_ptr().cast(),
        b_aux_bit_len: size(counts.aux),
        b_aux_popcount: size(counts.b_aux),
        a: vectors.a,
        b: vectors.b,
        c: vectors.c,
        abc_size: size(counts.abc),
        inp_assignment_data: synthesised.inputs.as_ptr(),
        inp_assignment_size: size(counts.inputs),
        aux_assignment_data: vectors.aux,
        aux_assignment_size: size(counts.aux),
    };
    let mut proof = [Proof::default()];
    let start = Instant::now();
    supraseal_c2::generate_groth16_proofs(&[assignment], &[synthesised.r], &[synthesised.s], &mut proof, srs);
    let seconds = start.elapsed().as_secs_f64();
    (proof[0].compressed(), seconds)
}
