//! The writers: bellperson's own bytes, through a buffer.

use std::io::{self, BufWriter, Write};

use bellperson::groth16::{Parameters, Proof, VerifyingKey};
use blstrs::Bls12;

/// Bytes collected before each write: bellperson writes point by point.
const BUFFER: usize = 1 << 20;

/// Writes proving parameters as bellperson does, and flushes.
///
/// # Errors
/// The writer's, or `InvalidInput` if a query has more points than the format's 32-bit counts hold.
pub fn write_params<W: Write>(params: &Parameters<Bls12>, writer: W) -> io::Result<()> {
    let counts = [params.h.len(), params.l.len(), params.a.len(), params.b_g1.len(), params.b_g2.len()];
    if let Some(n) = counts.into_iter().find(|n| u32::try_from(*n).is_err()) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("a query of {n} points does not fit the format, which counts with 32 bits"),
        ));
    }
    let mut writer = BufWriter::with_capacity(BUFFER, writer);
    params.write(&mut writer)?;
    writer.flush()
}

/// Writes a verifying key as bellperson does, and flushes.
///
/// # Errors
/// The writer's.
pub fn write_vk<W: Write>(vk: &VerifyingKey<Bls12>, writer: W) -> io::Result<()> {
    let mut writer = BufWriter::new(writer);
    vk.write(&mut writer)?;
    writer.flush()
}

/// Writes the 192 bytes of a proof as bellperson does, and flushes.
///
/// # Errors
/// The writer's.
pub fn write_proof<W: Write>(proof: &Proof<Bls12>, writer: W) -> io::Result<()> {
    let mut writer = BufWriter::new(writer);
    proof.write(&mut writer)?;
    writer.flush()
}
