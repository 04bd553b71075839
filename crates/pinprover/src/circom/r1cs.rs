//! The `.r1cs` file: a rank-1 constraint system in iden3's binary format, version 1.
//!
//! Sections: 1 header, 2 constraints, 3 wire-to-label map, 4 and 5 custom gates. All of 1 to 3 are required by
//! the format. The map's content is not used, but its size is the only thing in the file that vouches for the
//! number of wires, which wires without a constraint make otherwise unbounded.
//!
//! Wires are `1 | public outputs | public inputs | private inputs | the rest`.

use std::fmt;
use std::path::Path;

use blstrs::Scalar;

use super::binfile::{BinFile, Cursor, Known};
use super::circuit::CircuitShape;
use super::error::{FormatError, MatrixName};
use super::file::{self, ReadError};
use super::matrix::{CoeffTable, Matrix};
use super::prime::{self, SCALAR_BYTES};
use super::FormatFileError;

pub(crate) const MAGIC: [u8; 4] = *b"r1cs";
const VERSION: u32 = 1;

const HEADER: Known = (1, "header");
const CONSTRAINTS: Known = (2, "constraints");
const WIRE_TO_LABEL: Known = (3, "wire-to-label map");
const GATE_LIST: Known = (4, "custom gate list");
const GATE_USES: Known = (5, "custom gate uses");

/// Bytes of a term: wire and coefficient.
const TERM_BYTES: usize = 4 + SCALAR_BYTES;
/// Bytes of the smallest constraint: three empty rows.
const MIN_CONSTRAINT_BYTES: u64 = 12;

/// A circuit as circom compiled it.
///
/// `Debug` shows the counts, not the matrices, which may be gigabytes.
#[derive(Clone)]
pub struct R1cs {
    pub(crate) counts: Counts,
    pub(crate) a: Matrix,
    pub(crate) b: Matrix,
    pub(crate) c: Matrix,
    coefficients: Vec<Scalar>,
    /// For each wire its place among the auxiliary variables, or [`NO_AUX`].
    aux_index: Vec<u32>,
    shape: CircuitShape,
}

/// A wire that is no auxiliary variable: the constant, a public one, or one in no constraint.
pub(crate) const NO_AUX: u32 = u32::MAX;

/// The counts of the header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    pub(crate) wires: u32,
    pub(crate) pub_out: u32,
    pub(crate) pub_in: u32,
    pub(crate) prv_in: u32,
    pub(crate) labels: u64,
    pub(crate) constraints: u32,
}

impl R1cs {
    /// Reads a `.r1cs` file.
    ///
    /// # Errors
    /// The file and the first thing that is wrong with it, see [`FormatError`].
    pub fn read(path: impl AsRef<Path>) -> Result<Self, FormatFileError> {
        let path = path.as_ref();
        load(path, MAGIC)
            .and_then(|bytes| Self::from_bytes(&bytes))
            .map_err(|cause| FormatFileError::new(path, cause))
    }

    /// Reads the content of a `.r1cs` file.
    ///
    /// Memory: 8 bytes a term, 24 bytes a constraint, 4 bytes a wire, and the different coefficients once.
    ///
    /// # Errors
    /// The first thing that is wrong, see [`FormatError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FormatError> {
        let known = [HEADER, CONSTRAINTS, WIRE_TO_LABEL, GATE_LIST, GATE_USES];
        let file = BinFile::parse(bytes, MAGIC, VERSION, &known)?;
        let counts = read_header(file.section(HEADER)?)?;
        for gates in [GATE_LIST, GATE_USES] {
            if let Some(mut section) = file.optional(gates) {
                let count = section.u32("the number of custom gates")?;
                if count > 0 {
                    return Err(FormatError::CustomGates { count });
                }
            }
        }
        file.section(WIRE_TO_LABEL)?.expect_size(8 * u64::from(counts.wires))?;
        let section = file.section(CONSTRAINTS)?;
        section.expect_room(u64::from(counts.constraints), MIN_CONSTRAINT_BYTES, "constraints")?;
        let (matrices, coefficients) = read_constraints(section, &counts)?;
        let [a, b, c] = matrices;
        let (aux_index, shape) = lay_out(&counts, &a, &b, &c);
        Ok(Self { counts, a, b, c, coefficients, aux_index, shape })
    }

    /// Wires, the constant one (wire 0) among them; the length of a witness.
    pub fn num_wires(&self) -> usize {
        self.counts.wires as usize
    }

    /// Constraints.
    pub fn num_constraints(&self) -> usize {
        self.counts.constraints as usize
    }

    /// Public outputs, the first of the public wires.
    pub fn num_public_outputs(&self) -> usize {
        self.counts.pub_out as usize
    }

    /// Public inputs, which follow the outputs.
    pub fn num_public_inputs(&self) -> usize {
        self.counts.pub_in as usize
    }

    /// Private inputs of the source. Those that no constraint uses may have lost their wires to the optimiser.
    pub fn num_private_inputs(&self) -> usize {
        self.counts.prv_in as usize
    }

    /// Labels (signals before circom's optimiser), as the header says.
    pub fn num_labels(&self) -> u64 {
        self.counts.labels
    }

    /// Public values of a statement: outputs and public inputs. The constant one does not count.
    pub fn num_public(&self) -> usize {
        // A u32 holds the sum: the header's reader has checked it against the wires.
        (self.counts.pub_out + self.counts.pub_in) as usize
    }

    /// Wires that no constraint uses and that are not public: they are no variables of the Groth16 circuit.
    pub fn num_unused_wires(&self) -> usize {
        self.num_wires() - 1 - self.num_public() - self.shape.aux
    }

    /// One of the matrices.
    pub fn matrix(&self, name: MatrixName) -> &Matrix {
        match name {
            MatrixName::A => &self.a,
            MatrixName::B => &self.b,
            MatrixName::C => &self.c,
        }
    }

    /// The different coefficients: first 1, then -1, then the others in the order of the file.
    pub fn coefficients(&self) -> &[Scalar] {
        &self.coefficients
    }

    /// The counts that a key for this circuit must have.
    pub fn shape(&self) -> CircuitShape {
        self.shape
    }

    pub(crate) fn aux_index(&self) -> &[u32] {
        &self.aux_index
    }
}

impl fmt::Debug for R1cs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let terms = [&self.a, &self.b, &self.c].map(Matrix::num_terms);
        f.debug_struct("R1cs")
            .field("counts", &self.counts)
            .field("terms", &terms)
            .field("coefficients", &self.coefficients.len())
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}

/// The bytes of a file that starts with `magic`.
pub(crate) fn load(path: &Path, magic: [u8; 4]) -> Result<Vec<u8>, FormatError> {
    let first = std::cell::RefCell::new(Vec::new());
    let head = |bytes: &[u8]| {
        first.replace(bytes[..bytes.len().min(4)].to_vec());
        bytes.starts_with(&magic)
    };
    file::read(path, u64::MAX, head).map_err(|e| match e {
        ReadError::Io(e) => FormatError::Io(e),
        ReadError::Head | ReadError::TooLarge { .. } => {
            let found = first.take();
            if found.is_empty() {
                FormatError::Empty
            } else {
                FormatError::Magic { expected: magic, found }
            }
        }
    })
}

/// Reads the size of a field element and the prime, and checks both.
pub(crate) fn read_field(section: &mut Cursor<'_>) -> Result<(), FormatError> {
    let size = section.u32("the field size")?;
    // Before the size is believed: a prime that is not there says nothing.
    if size as usize != SCALAR_BYTES && size as usize > section.remaining() {
        return Err(FormatError::FieldSize { found: size });
    }
    prime::check(section.take(size as usize, "the prime")?)
}

fn read_header(mut section: Cursor<'_>) -> Result<Counts, FormatError> {
    read_field(&mut section)?;
    let counts = Counts {
        wires: section.u32("the number of wires")?,
        pub_out: section.u32("the number of public outputs")?,
        pub_in: section.u32("the number of public inputs")?,
        prv_in: section.u32("the number of private inputs")?,
        labels: section.u64("the number of labels")?,
        constraints: section.u32("the number of constraints")?,
    };
    section.finish()?;
    // Private inputs are not counted here: circom's optimiser removes the wires of unused ones and leaves their
    // number in the header as it was.
    let Counts { wires, pub_out, pub_in, .. } = counts;
    if 1 + u64::from(pub_out) + u64::from(pub_in) > u64::from(wires) {
        return Err(FormatError::WireCounts { wires, pub_out, pub_in });
    }
    Ok(counts)
}

fn read_constraints(
    mut section: Cursor<'_>,
    counts: &Counts,
) -> Result<([Matrix; 3], Vec<Scalar>), FormatError> {
    let names = [MatrixName::A, MatrixName::B, MatrixName::C];
    // The caller has seen 12 bytes for each row that is reserved here.
    let mut matrices = names.map(|_| Matrix::with_rows(counts.constraints as usize));
    let mut table = CoeffTable::new();
    for constraint in 0..counts.constraints {
        for (matrix, name) in matrices.iter_mut().zip(names) {
            read_row(&mut section, counts.wires, constraint, name, matrix, &mut table)?;
        }
    }
    section.finish()?;
    matrices.iter_mut().for_each(Matrix::shrink);
    Ok((matrices, table.values))
}

fn read_row(
    section: &mut Cursor<'_>,
    wires: u32,
    constraint: u32,
    name: MatrixName,
    matrix: &mut Matrix,
    table: &mut CoeffTable,
) -> Result<(), FormatError> {
    let count = section.u32("the number of terms in a row")?;
    section.expect_room(u64::from(count), TERM_BYTES as u64, "terms of a row")?;
    let start = section.offset();
    let terms = section.take(count as usize * TERM_BYTES, "the terms of a row")?;
    let offset = |term: u32| start + u64::from(term) * TERM_BYTES as u64;
    let mut unsorted = false;
    let mut last = None;
    for (term, bytes) in (0..count).zip(terms.chunks_exact(TERM_BYTES)) {
        let (wire, coeff) = bytes.split_at(4);
        let wire = u32::from_le_bytes(wire.try_into().expect("split at four"));
        let coeff: &[u8; SCALAR_BYTES] = coeff.try_into().expect("the rest of a term");
        if wire >= wires {
            return Err(FormatError::WireOutOfRange {
                constraint,
                matrix: name,
                term,
                offset: offset(term),
                wire,
                wires,
            });
        }
        if *coeff == [0; SCALAR_BYTES] {
            continue;
        }
        let Some(coeff) = table.intern(coeff) else {
            return Err(FormatError::CoefficientTooLarge {
                constraint,
                matrix: name,
                term,
                offset: offset(term),
            });
        };
        unsorted |= last.is_some_and(|last| last >= wire);
        last = Some(wire);
        matrix.push(wire, coeff);
    }
    matrix.end_row(unsorted, table);
    Ok(())
}

/// Decides which wires are variables, and counts what a key for the circuit holds.
///
/// bellperson's generator refuses auxiliary variables in no constraint (their element of the L query would be the
/// identity), and circom leaves such wires in: unused private inputs with `--O0`, for one. They are left out of the
/// allocation, which is sound (nothing depends on them) and the same for set-up and proof, because it depends
/// on the matrices alone.
fn lay_out(counts: &Counts, a: &Matrix, b: &Matrix, c: &Matrix) -> (Vec<u32>, CircuitShape) {
    const IN_A: u8 = 1;
    const IN_B: u8 = 2;
    const IN_C: u8 = 4;
    let mut uses = vec![0_u8; counts.wires as usize];
    for (matrix, flag) in [(a, IN_A), (b, IN_B), (c, IN_C)] {
        for &wire in matrix.wires() {
            uses[wire as usize] |= flag;
        }
    }
    let inputs = 1 + (counts.pub_out + counts.pub_in) as usize;
    let mut aux_index = vec![NO_AUX; counts.wires as usize];
    let mut shape = CircuitShape {
        constraints: counts.constraints as usize,
        inputs,
        aux: 0,
        a_aux: 0,
        b_inputs: uses[..inputs].iter().filter(|u| **u & IN_B != 0).count(),
        b_aux: 0,
    };
    for (index, used) in aux_index.iter_mut().zip(&uses).skip(inputs).filter(|(_, used)| **used != 0) {
        // Below the number of wires, a u32.
        *index = shape.aux as u32;
        shape.aux += 1;
        shape.a_aux += usize::from(used & IN_A != 0);
        shape.b_aux += usize::from(used & IN_B != 0);
    }
    (aux_index, shape)
}
