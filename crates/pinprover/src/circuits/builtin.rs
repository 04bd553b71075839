//! One of the built-in circuits at one size.

use std::fmt;
use std::str::FromStr;

use bellperson::{Circuit, ConstraintSystem, SynthesisError};
use ff::PrimeField;
use rand_core::RngCore;

use super::mimc::{self, Mimc, MimcCircuit};
use super::mixed::{self, Mixed, MixedCircuit};
use super::sha256::{self, Sha256, Sha256Circuit};
use super::size::{Size, SizeError, MAX_CONSTRAINTS};
use super::squarings::{self, Squarings, SquaringsCircuit};

/// Which circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// A chain of squarings.
    Squarings,
    /// A MiMC permutation.
    Mimc,
    /// SHA-256 of a message.
    Sha256,
    /// Three tenths field elements, the rest bits.
    Mixed,
}

impl Family {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Squarings, Self::Mimc, Self::Sha256, Self::Mixed];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Squarings => "squarings",
            Self::Mimc => "mimc",
            Self::Sha256 => "sha256",
            Self::Mixed => "mixed",
        }
    }

    /// The fewest constraints that one can have, as the prover counts them.
    pub fn least(self) -> usize {
        match self {
            Self::Squarings => squarings::LEAST,
            Self::Mimc => mimc::LEAST,
            Self::Sha256 => sha256::least(),
            Self::Mixed => mixed::LEAST,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Family {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|family| family.name() == text)
            .ok_or_else(|| format!("expected one of {}", Self::ALL.map(Self::name).join(", ")))
    }
}

/// One of the built-in circuits at one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BuiltIn {
    /// A chain of squarings.
    Squarings(Squarings),
    /// A MiMC permutation.
    Mimc(Mimc),
    /// SHA-256 of a message.
    Sha256(Sha256),
    /// Three tenths field elements, the rest bits.
    Mixed(Mixed),
}

impl BuiltIn {
    /// The largest circuit of the family that is no larger than `size`. Squarings and the mixed circuit
    /// reach every number of constraints exactly; MiMC rounds down to an even number; SHA-256 to a whole number of bytes.
    ///
    /// # Errors
    /// If the family has no circuit of that size.
    pub fn new(family: Family, size: Size) -> Result<Self, SizeError> {
        let built = match size {
            Size::Constraints(found) => {
                if found > MAX_CONSTRAINTS {
                    return Err(SizeError::TooMany { family, found });
                }
                let built = match family {
                    Family::Squarings => Squarings::with_rows(found).map(Self::Squarings),
                    Family::Mimc => Mimc::with_rows(found).map(Self::Mimc),
                    Family::Sha256 => Sha256::with_rows(found).map(Self::Sha256),
                    Family::Mixed => Mixed::with_rows(found).map(Self::Mixed),
                };
                built.ok_or_else(|| SizeError::TooFew { family, found, least: family.least() })?
            }
            Size::Bytes(0) if family == Family::Sha256 => return Err(SizeError::EmptyMessage),
            Size::Bytes(bytes) if family == Family::Sha256 => Self::Sha256(Sha256 { bytes }),
            Size::Bytes(_) => return Err(SizeError::NoMessage { family }),
        };
        match built.rows() {
            rows if rows > MAX_CONSTRAINTS => Err(SizeError::TooMany { family, found: rows }),
            _ => Ok(built),
        }
    }

    /// Which circuit.
    pub fn family(&self) -> Family {
        match self {
            Self::Squarings(_) => Family::Squarings,
            Self::Mimc(_) => Family::Mimc,
            Self::Sha256(_) => Family::Sha256,
            Self::Mixed(_) => Family::Mixed,
        }
    }

    /// The constraints as the prover counts them, the rows of the public inputs included.
    pub fn rows(&self) -> usize {
        match self {
            Self::Squarings(circuit) => circuit.rows(),
            Self::Mimc(circuit) => circuit.rows(),
            Self::Sha256(circuit) => circuit.rows(),
            Self::Mixed(circuit) => circuit.rows(),
        }
    }

    /// The circuit without a witness, to make a key from.
    pub fn circuit<F: PrimeField>(&self) -> BuiltInCircuit<F> {
        match self {
            Self::Squarings(circuit) => BuiltInCircuit::Squarings(circuit.circuit()),
            Self::Mimc(circuit) => BuiltInCircuit::Mimc(circuit.circuit()),
            Self::Sha256(circuit) => BuiltInCircuit::Sha256(circuit.circuit()),
            Self::Mixed(circuit) => BuiltInCircuit::Mixed(circuit.circuit()),
        }
    }

    /// The circuit with a fresh random witness.
    pub fn instance<F: PrimeField>(&self, rng: &mut impl RngCore) -> Instance<F> {
        let (circuit, public) = match self {
            Self::Squarings(shape) => {
                let (circuit, public) = shape.instance(rng);
                (BuiltInCircuit::Squarings(circuit), public)
            }
            Self::Mimc(shape) => {
                let (circuit, public) = shape.instance(rng);
                (BuiltInCircuit::Mimc(circuit), public)
            }
            Self::Sha256(shape) => {
                let (circuit, public) = shape.instance(rng);
                (BuiltInCircuit::Sha256(circuit), public)
            }
            Self::Mixed(shape) => {
                let (circuit, public) = shape.instance(rng);
                (BuiltInCircuit::Mixed(circuit), public)
            }
        };
        Instance { circuit, public }
    }
}

/// The circuit's identity: the same text, the same constraints. Fit for a file name.
impl fmt::Display for BuiltIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Squarings(circuit) => write!(f, "squarings-{}", circuit.squarings),
            Self::Mimc(circuit) => write!(f, "mimc-{}-rounds", circuit.rounds),
            Self::Sha256(circuit) => write!(f, "sha256-{}-bytes", circuit.bytes),
            Self::Mixed(circuit) => write!(f, "mixed-{}", circuit.constraints),
        }
    }
}

/// A circuit with its witness, and what the verifier needs.
#[derive(Clone)]
pub struct Instance<F: PrimeField> {
    /// The circuit with its witness. Cloning it is cheap.
    pub circuit: BuiltInCircuit<F>,
    /// The public inputs, without the constant one.
    pub public: Vec<F>,
}

/// A built-in circuit, with or without a witness.
#[derive(Clone)]
pub enum BuiltInCircuit<F: PrimeField> {
    /// A chain of squarings.
    Squarings(SquaringsCircuit<F>),
    /// A MiMC permutation.
    Mimc(MimcCircuit<F>),
    /// SHA-256 of a message.
    Sha256(Sha256Circuit),
    /// Three tenths field elements, the rest bits.
    Mixed(MixedCircuit<F>),
}

impl<F: PrimeField> Circuit<F> for BuiltInCircuit<F> {
    fn synthesize<CS: ConstraintSystem<F>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        match self {
            Self::Squarings(circuit) => circuit.synthesize(cs),
            Self::Mimc(circuit) => circuit.synthesize(cs),
            Self::Sha256(circuit) => circuit.synthesize(cs),
            Self::Mixed(circuit) => circuit.synthesize(cs),
        }
    }
}

#[cfg(test)]
mod tests {
    use bellperson::util_cs::test_cs::TestConstraintSystem;
    use blstrs::Scalar;
    use ff::Field;
    use rand_chacha::ChaCha20Rng;
    use rand_core::SeedableRng;

    use super::super::Shape;
    use super::*;

    fn sizes(family: Family) -> Vec<Size> {
        let least = family.least();
        let mut sizes: Vec<_> = [least, least + 1, least + 2, least + 3, 64, 1000, 1023, 1024, 1025]
            .map(Size::Constraints)
            .into_iter()
            .filter(|size| !matches!(size, Size::Constraints(n) if *n < least))
            .collect();
        if family == Family::Sha256 {
            sizes = vec![
                Size::Constraints(least),
                Size::Bytes(3),
                Size::Bytes(56),
                Size::Bytes(64),
                Size::Bytes(130),
            ];
        }
        sizes
    }

    #[test]
    fn every_instance_is_satisfied_and_public() {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        for family in Family::ALL {
            for size in sizes(family) {
                let built = BuiltIn::new(family, size).unwrap();
                let Instance { circuit, public } = built.instance::<Scalar>(&mut rng);
                let mut cs = TestConstraintSystem::new();
                circuit.synthesize(&mut cs).unwrap();
                assert_eq!(cs.which_is_unsatisfied(), None, "{built}");
                assert!(cs.verify(&public), "{built}");
                // The other way round: another public input does not pass.
                let mut wrong = public.clone();
                wrong[0] += Scalar::ONE;
                assert!(!cs.verify(&wrong), "{built}");
                assert_eq!(cs.num_constraints() + cs.num_inputs(), built.rows(), "{built}");
            }
        }
    }

    #[test]
    fn sizes_are_as_promised() {
        for rows in [3, 4, 5, 100, 1 << 12] {
            for family in [Family::Squarings, Family::Mixed] {
                assert_eq!(BuiltIn::new(family, Size::Constraints(rows)).unwrap().rows(), rows);
            }
        }
        for rows in [6, 7, 8, 99, 100, 1 << 12] {
            assert_eq!(BuiltIn::new(Family::Mimc, Size::Constraints(rows)).unwrap().rows(), rows & !1);
        }
        // A message for 2^18 constraints fills nine tenths of them and the whole domain.
        let sha = BuiltIn::new(Family::Sha256, Size::Constraints(1 << 18)).unwrap();
        assert!(sha.rows() <= 1 << 18 && sha.rows() > (1 << 18) / 10 * 9, "{}", sha.rows());
    }

    #[test]
    fn impossible_sizes_are_errors() {
        let too_few =
            |family: Family, found: usize| SizeError::TooFew { family, found, least: family.least() };
        for family in Family::ALL {
            for rows in [0, 1, family.least() - 1] {
                assert_eq!(BuiltIn::new(family, Size::Constraints(rows)), Err(too_few(family, rows)));
            }
            assert!(BuiltIn::new(family, Size::Constraints(family.least())).is_ok());
            let found = MAX_CONSTRAINTS + 1;
            assert_eq!(
                BuiltIn::new(family, Size::Constraints(found)),
                Err(SizeError::TooMany { family, found })
            );
        }
        assert_eq!(BuiltIn::new(Family::Sha256, Size::Bytes(0)), Err(SizeError::EmptyMessage));
        for family in [Family::Squarings, Family::Mimc, Family::Mixed] {
            assert_eq!(BuiltIn::new(family, Size::Bytes(64)), Err(SizeError::NoMessage { family }));
        }
        for bytes in [1 << 40, usize::MAX / 8, usize::MAX] {
            let error = BuiltIn::new(Family::Sha256, Size::Bytes(bytes)).unwrap_err();
            assert!(matches!(error, SizeError::TooMany { .. }), "{error}");
        }
    }

    #[test]
    fn a_blank_circuit_has_the_shape_of_a_full_one() {
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        for family in Family::ALL {
            let built = BuiltIn::new(family, sizes(family)[1]).unwrap();
            let blank = Shape::of(built.circuit::<Scalar>()).unwrap();
            let full = Shape::of(built.instance::<Scalar>(&mut rng).circuit).unwrap();
            assert_eq!(blank, full);
            assert_eq!(blank.rows(), built.rows());
        }
    }

    #[test]
    fn seeds_decide_the_witness() {
        for family in Family::ALL {
            let built = BuiltIn::new(family, sizes(family)[0]).unwrap();
            let public = |seed| built.instance::<Scalar>(&mut ChaCha20Rng::seed_from_u64(seed)).public;
            assert_eq!(public(1), public(1));
            assert_ne!(public(1), public(2));
        }
    }
}
