//! Circuits for tests. Values are random, with many zeros and ones among them, as in real witnesses.

use bellperson::{Circuit, ConstraintSystem, LinearCombination, SynthesisError, Variable};
use blstrs::Scalar;
use ff::Field;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

/// A random satisfied R1CS: some free variables, then a chain of products of random linear combinations.
#[derive(Clone, Debug)]
pub struct RandomR1cs {
    /// Public inputs, without the constant one.
    pub inputs: Vec<Scalar>,
    aux: Vec<Scalar>,
    products: Vec<[Vec<(usize, Scalar)>; 2]>,
    /// How many children synthesise the products, where the constraint system can be extended; 0 for none.
    children: usize,
}

/// A random value as witnesses have them: 0 or 1 in most cases if `bits`.
pub fn value(rng: &mut impl Rng, bits: bool) -> Scalar {
    match rng.gen_range(0..4) {
        0 if bits => Scalar::ZERO,
        1 | 2 if bits => Scalar::ONE,
        _ => Scalar::random(rng),
    }
}

impl RandomR1cs {
    /// `products` constraints over `inputs` public inputs and `free` variables, from a seed.
    pub fn new(seed: u64, inputs: usize, free: usize, products: usize, bits: bool) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let inputs: Vec<_> = (0..inputs).map(|_| value(&mut rng, bits)).collect();
        let aux: Vec<_> = (0..free.max(1)).map(|_| value(&mut rng, bits)).collect();
        let free = inputs.len() + aux.len();
        let mut combination = || -> Vec<(usize, Scalar)> {
            // Index 0 is the constant one; the others are inputs, then free variables. Some combinations are empty, some
            // name a variable twice, some have a zero coefficient.
            let terms = rng.gen_range(0..4);
            (0..terms).map(|_| (rng.gen_range(0..=free), value(&mut rng, true))).collect()
        };
        let products = (0..products).map(|_| [combination(), combination()]).collect();
        Self { inputs, aux, products, children: 0 }
    }

    /// The same circuit, synthesised by `children` children that extend the root.
    pub fn with_children(mut self, children: usize) -> Self {
        self.children = children;
        self
    }

    fn values(&self) -> Vec<Scalar> {
        [&[Scalar::ONE][..], &self.inputs, &self.aux].concat()
    }

    /// Adds the free variables and returns all that combinations may name.
    fn variables<CS: ConstraintSystem<Scalar>>(&self, cs: &mut CS) -> Result<Vec<Variable>, SynthesisError> {
        let mut variables = vec![CS::one()];
        for (i, value) in self.inputs.iter().enumerate() {
            variables.push(cs.alloc_input(|| format!("input {i}"), || Ok(*value))?);
        }
        for (i, value) in self.aux.iter().enumerate() {
            let variable = cs.alloc(|| format!("free {i}"), || Ok(*value))?;
            // The generator refuses variables that no constraint uses.
            cs.enforce(|| format!("used {i}"), |lc| lc + variable, |lc| lc + CS::one(), |lc| lc + variable);
            variables.push(variable);
        }
        Ok(variables)
    }

    fn product<CS: ConstraintSystem<Scalar>>(
        &self,
        cs: &mut CS,
        i: usize,
        variables: &[Variable],
        values: &[Scalar],
    ) -> Result<(), SynthesisError> {
        let [a, b] = &self.products[i];
        let eval = |terms: &[(usize, Scalar)]| -> Scalar { terms.iter().map(|(v, k)| values[*v] * k).sum() };
        let lc = |terms: &[(usize, Scalar)], zero: LinearCombination<Scalar>| {
            terms.iter().fold(zero, |lc, (v, k)| lc + (*k, variables[*v]))
        };
        let c = cs.alloc(|| format!("product {i}"), || Ok(eval(a) * eval(b)))?;
        cs.enforce(|| format!("product {i}"), |zero| lc(a, zero), |zero| lc(b, zero), |zero| zero + c);
        Ok(())
    }
}

impl Circuit<Scalar> for RandomR1cs {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let children = self.children;
        if children == 0 {
            let variables = self.variables(cs)?;
            let values = self.values();
            for i in 0..self.products.len() {
                self.product(cs, i, &variables, &values)?;
            }
            return Ok(());
        }
        // Children share nothing but the constant one, so each has its own part of a larger system. The generator cannot
        // be extended, so it adds the parts one after the other.
        let parts: Vec<_> = (0..children)
            .map(|child| Self { inputs: self.inputs.clone(), ..Self::new(child as u64, 0, 3, 7, true) })
            .collect();
        if CS::is_extensible() {
            for part in parts {
                let mut child = CS::new();
                child.alloc_input(|| "one", || Ok(Scalar::ONE))?;
                part.with_children(0).synthesize(&mut child)?;
                cs.extend(&child);
            }
        } else {
            for (i, part) in parts.into_iter().enumerate() {
                part.with_children(0).synthesize(&mut cs.namespace(|| format!("part {i}")))?;
            }
        }
        Ok(())
    }
}

/// A chain of `length` squarings of a secret, whose end is public.
#[derive(Clone, Copy, Debug)]
pub struct Squarings {
    /// Constraints.
    pub length: usize,
    /// The secret.
    pub start: Scalar,
}

impl Circuit<Scalar> for Squarings {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let mut value = self.start;
        let mut variable = cs.alloc(|| "start", || Ok(value))?;
        for i in 0..self.length {
            value = value.square();
            let next = match i + 1 == self.length {
                true => cs.alloc_input(|| "end", || Ok(value))?,
                false => cs.alloc(|| format!("square {i}"), || Ok(value))?,
            };
            cs.enforce(|| format!("square {i}"), |lc| lc + variable, |lc| lc + variable, |lc| lc + next);
            variable = next;
        }
        Ok(())
    }
}
