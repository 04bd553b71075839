//! What the two processes tell each other: a file with one synthesised circuit, and lines.
//!
//! Both programs compile this file (`pinprover-peer` links nothing else of ours), so it stands alone.
//!
//! The file: a magic number, the six [`Counts`], then a, b, c, the inputs and the witness (32 bytes an element, as it lies in
//! memory: Montgomery form, little-endian), the three densities (a bit a variable, in words of 64), r, s, and the SHA-256 of
//! all that. All numbers are little-endian. The length follows from the counts; nothing is allocated before it was compared.
//!
//! The lines: `prove pageable` and `prove pinned` to the peer; `ready`, `proof` and `error` ([`Reply`]) from it.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;
use std::str::FromStr;

use sha2::{Digest, Sha256};

/// A scalar as it lies in memory.
pub type Element = [u64; 4];

/// Bytes of a proof: A, B and C, compressed.
pub const PROOF: usize = 192;

/// The longest line, in bytes, its end included.
pub const LONGEST_LINE: usize = 1024;

const MAGIC: [u8; 8] = *b"PINPEER1";
const HEADER: u64 = 8 + 6 * 8;
const CHECKSUM: usize = 32;
/// Elements that are converted at once.
const CHUNK: usize = 1 << 15;

/// How much there is of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Elements of a, of b and of c.
    pub abc: u64,
    /// Inputs, with the constant one.
    pub inputs: u64,
    /// Witness.
    pub aux: u64,
    /// Bits that are set in the density of the witness in A.
    pub a_aux: u64,
    /// The same of the inputs in B.
    pub b_inputs: u64,
    /// The same of the witness in B.
    pub b_aux: u64,
}

impl Counts {
    /// Bytes of the file; `None` if that does not fit a number.
    pub fn file_bytes(&self) -> Option<u64> {
        let elements =
            self.abc.checked_mul(3)?.checked_add(self.inputs)?.checked_add(self.aux)?.checked_add(2)?;
        let words = self.aux.div_ceil(64).checked_mul(2)?.checked_add(self.inputs.div_ceil(64))?;
        let body = elements.checked_mul(32)?.checked_add(words.checked_mul(8)?)?;
        body.checked_add(HEADER + CHECKSUM as u64)
    }
}

/// A synthesised circuit with its witness, and the randomness of its proof.
pub struct Synthesised {
    /// How much there is.
    pub counts: Counts,
    /// Evaluations of A.
    pub a: Vec<Element>,
    /// Evaluations of B.
    pub b: Vec<Element>,
    /// Evaluations of C.
    pub c: Vec<Element>,
    /// Values of the inputs, the constant one first.
    pub inputs: Vec<Element>,
    /// Values of the witness.
    pub aux: Vec<Element>,
    /// Which of the witness has a base in the A query.
    pub a_aux: Vec<u64>,
    /// Which inputs have a base in the B queries.
    pub b_inputs: Vec<u64>,
    /// Which of the witness has a base in the B queries.
    pub b_aux: Vec<u64>,
    /// Blinds A.
    pub r: Element,
    /// Blinds B.
    pub s: Element,
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It begins with something else.
    #[error("not a synthesised circuit: the first 8 bytes are others")]
    Magic,
    /// It is shorter or longer than its counts say.
    #[error("{found} bytes, its counts need {expected}")]
    Length {
        /// By its counts.
        expected: u64,
        /// As it is.
        found: u64,
    },
    /// Its counts fit no file.
    #[error("its counts fit no file")]
    Counts,
    /// Memory for so many bytes cannot be had.
    #[error("no memory for {bytes} bytes")]
    OutOfMemory {
        /// So many.
        bytes: u64,
    },
    /// Its content is not what was written.
    #[error("damaged: the checksum is another")]
    Checksum,
    /// A density has another number of bits than the counts say, or bits behind the last variable.
    #[error("the density of {what} has {found} bits set below bit {length}, its counts say {expected}")]
    Density {
        /// Of what.
        what: &'static str,
        /// By the counts.
        expected: u64,
        /// As it is.
        found: u64,
        /// Variables.
        length: u64,
    },
}

/// Writes the file, in the order of the format: first [`Writer::new`], then each part, then [`Writer::finish`].
pub struct Writer<W> {
    to: W,
    hash: Sha256,
    buffer: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Writes the counts.
    ///
    /// # Errors
    /// The writer's.
    pub fn new(to: W, counts: &Counts) -> io::Result<Self> {
        let mut this = Self { to, hash: Sha256::new(), buffer: Vec::new() };
        this.buffer.extend(MAGIC);
        let Counts { abc, inputs, aux, a_aux, b_inputs, b_aux } = *counts;
        this.words([abc, inputs, aux, a_aux, b_inputs, b_aux])?;
        Ok(this)
    }

    /// Writes a vector.
    ///
    /// # Errors
    /// The writer's.
    pub fn elements(&mut self, elements: impl IntoIterator<Item = Element>) -> io::Result<()> {
        self.words(elements.into_iter().flatten())
    }

    /// Writes the words of a density.
    ///
    /// # Errors
    /// The writer's.
    pub fn words(&mut self, words: impl IntoIterator<Item = u64>) -> io::Result<()> {
        for word in words {
            self.buffer.extend(word.to_le_bytes());
            if self.buffer.len() >= CHUNK * 32 {
                self.flush()?;
            }
        }
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.hash.update(&self.buffer);
        self.to.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Writes the checksum and gives the writer back.
    ///
    /// # Errors
    /// The writer's.
    pub fn finish(mut self) -> io::Result<W> {
        self.to.write_all(&self.hash.finalize())?;
        self.to.flush()?;
        Ok(self.to)
    }
}

/// Reads a file, and checks all that can be checked.
///
/// # Errors
/// [`FileError`].
pub fn read(path: &Path) -> Result<Synthesised, FileError> {
    let file = File::open(path)?;
    let found = file.metadata()?.len();
    if found < HEADER + CHECKSUM as u64 {
        return Err(FileError::Length { expected: HEADER + CHECKSUM as u64, found });
    }
    let mut reader = Reader { from: BufReader::with_capacity(1 << 20, file), hash: Sha256::new() };
    let mut magic = [0; 8];
    reader.fill(&mut magic)?;
    if magic != MAGIC {
        return Err(FileError::Magic);
    }
    let mut numbers = [0; 6];
    for number in &mut numbers {
        let mut bytes = [0; 8];
        reader.fill(&mut bytes)?;
        *number = u64::from_le_bytes(bytes);
    }
    let [abc, inputs, aux, a_aux, b_inputs, b_aux] = numbers;
    let counts = Counts { abc, inputs, aux, a_aux, b_inputs, b_aux };
    let expected = counts.file_bytes().ok_or(FileError::Counts)?;
    if found != expected {
        return Err(FileError::Length { expected, found });
    }
    let synthesised = Synthesised {
        counts,
        a: reader.elements(abc)?,
        b: reader.elements(abc)?,
        c: reader.elements(abc)?,
        inputs: reader.elements(inputs)?,
        aux: reader.elements(aux)?,
        a_aux: reader.words(aux.div_ceil(64))?,
        b_inputs: reader.words(inputs.div_ceil(64))?,
        b_aux: reader.words(aux.div_ceil(64))?,
        r: reader.element()?,
        s: reader.element()?,
    };
    let mut checksum = [0; CHECKSUM];
    reader.from.read_exact(&mut checksum)?;
    if reader.hash.finalize().as_slice() != checksum {
        return Err(FileError::Checksum);
    }
    for (what, words, length, expected) in [
        ("the witness in A", &synthesised.a_aux, aux, a_aux),
        ("the inputs in B", &synthesised.b_inputs, inputs, b_inputs),
        ("the witness in B", &synthesised.b_aux, aux, b_aux),
    ] {
        let set: u64 = words.iter().map(|word| u64::from(word.count_ones())).sum();
        let behind = match (length % 64, words.last()) {
            (0, _) | (_, None) => 0,
            (bits, Some(last)) => u64::from((last >> bits).count_ones()),
        };
        if behind != 0 || set != expected {
            return Err(FileError::Density { what, expected, found: set - behind, length });
        }
    }
    Ok(synthesised)
}

struct Reader<R> {
    from: R,
    hash: Sha256,
}

impl<R: Read> Reader<R> {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), FileError> {
        self.from.read_exact(bytes)?;
        self.hash.update(bytes);
        Ok(())
    }

    fn words(&mut self, count: u64) -> Result<Vec<u64>, FileError> {
        self.numbers(count, |[word]: [u64; 1]| word)
    }

    fn elements(&mut self, count: u64) -> Result<Vec<Element>, FileError> {
        self.numbers(count, |element: Element| element)
    }

    fn element(&mut self) -> Result<Element, FileError> {
        Ok(self.elements(1)?[0])
    }

    /// `count` things of `N` words. The file is long enough for them, which bounds what is allocated.
    fn numbers<const N: usize, T>(
        &mut self,
        count: u64,
        make: fn([u64; N]) -> T,
    ) -> Result<Vec<T>, FileError> {
        let out_of_memory = || FileError::OutOfMemory { bytes: count * N as u64 * 8 };
        let count = usize::try_from(count).map_err(|_| out_of_memory())?;
        let mut all = Vec::new();
        all.try_reserve_exact(count).map_err(|_| out_of_memory())?;
        let mut buffer = vec![0; CHUNK.min(count) * N * 8];
        while all.len() < count {
            let bytes = &mut buffer[..CHUNK.min(count - all.len()) * N * 8];
            self.fill(bytes)?;
            all.extend(bytes.chunks_exact(N * 8).map(|bytes| {
                make(std::array::from_fn(|i| {
                    u64::from_le_bytes(bytes[i * 8..][..8].try_into().expect("eight bytes"))
                }))
            }));
        }
        Ok(all)
    }
}

/// The memory that a, b, c and the witness are read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Ordinary heap memory.
    Pageable,
    /// `cudaHostAlloc`.
    Pinned,
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pageable => "pageable",
            Self::Pinned => "pinned",
        })
    }
}

/// What a line to the peer asks for.
pub fn request(memory: Memory) -> String {
    format!("prove {memory}")
}

/// The reverse of [`request`].
pub fn parse_request(line: &str) -> Option<Memory> {
    [Memory::Pageable, Memory::Pinned].into_iter().find(|memory| line == request(*memory))
}

/// A line from the peer.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// It has read the files and made a first proof, all in so many seconds.
    Ready {
        /// Seconds.
        seconds: f64,
    },
    /// A proof.
    Proof {
        /// Seconds that the call took.
        seconds: f64,
        /// A, B and C, compressed.
        proof: [u8; PROOF],
    },
    /// What went wrong.
    Error(String),
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready { seconds } => write!(f, "ready {seconds}"),
            Self::Proof { seconds, proof } => {
                write!(f, "proof {seconds} ")?;
                proof.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            // One line, and no longer than one may be.
            Self::Error(text) => {
                let text: String =
                    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect();
                write!(f, "error {text}")
            }
        }
    }
}

impl FromStr for Reply {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        let (word, rest) = line.split_once(' ').ok_or(())?;
        let seconds = |text: &str| {
            let seconds: f64 = text.parse().map_err(|_| ())?;
            if seconds.is_finite() && seconds > 0.0 {
                Ok(seconds)
            } else {
                Err(())
            }
        };
        match word {
            "ready" => Ok(Self::Ready { seconds: seconds(rest)? }),
            "proof" => {
                let (time, digits) = rest.split_once(' ').ok_or(())?;
                let digits = digits.as_bytes();
                if digits.len() != 2 * PROOF {
                    return Err(());
                }
                let digit = |byte: u8| char::from(byte).to_digit(16).ok_or(());
                let mut proof = [0; PROOF];
                for (byte, pair) in proof.iter_mut().zip(digits.chunks_exact(2)) {
                    *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
                }
                Ok(Self::Proof { seconds: seconds(time)?, proof })
            }
            "error" => Ok(Self::Error(rest.to_owned())),
            _ => Err(()),
        }
    }
}
