//! The choice of a built-in circuit on the command line.

use clap::Args;

use super::options::size;
use crate::circuits::{parse_count, BuiltIn, Family, Size};
use crate::error::Error;

/// The size of a built-in circuit.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct SizeOptions {
    /// At most this many constraints, as a number or a power of two such as 2^18. The rows that Groth16 adds for
    /// the public inputs are counted: 2^18 fills a domain of 2^18
    #[arg(long, value_name = "N", value_parser = parse_count)]
    constraints: Option<usize>,

    /// The length of the message, for sha256, for instance 1024 or 4KiB
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "constraints")]
    bytes: Option<u64>,
}

impl SizeOptions {
    /// The circuit of `family` in this size, or with `default` constraints if none is given.
    pub(super) fn of(&self, family: Family, default: usize) -> Result<BuiltIn, Error> {
        let (option, size) = match (self.constraints, self.bytes) {
            (_, Some(bytes)) => ("--bytes", Size::Bytes(usize::try_from(bytes).unwrap_or(usize::MAX))),
            (constraints, None) => ("--constraints", Size::Constraints(constraints.unwrap_or(default))),
        };
        BuiltIn::new(family, size).map_err(|cause| Error::Size { option, cause })
    }
}

/// The circuits of `family` with these numbers of constraints, from `--sizes`.
pub(super) fn of_sizes(family: Family, sizes: &[usize]) -> Result<Vec<BuiltIn>, Error> {
    let circuit = |&size: &usize| BuiltIn::new(family, Size::Constraints(size));
    let circuits: Result<_, _> = sizes.iter().map(circuit).collect();
    circuits.map_err(|cause| Error::Size { option: "--sizes", cause })
}
