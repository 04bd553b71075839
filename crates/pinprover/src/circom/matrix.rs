//! One constraint matrix in compressed rows, with its coefficients in a table.
//!
//! circom's matrices are nearly all ones, minus ones and powers of two: a term is 8 bytes here (wire and table
//! index) instead of the 36 it has in the file.

use std::collections::HashMap;

use blstrs::Scalar;
use ff::{Field, PrimeField};

use super::prime::SCALAR_BYTES;

/// A sparse matrix: a row for each constraint, a column for each wire.
///
/// Rows are canonical: wires strictly ascending, no coefficient zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matrix {
    /// Row `k` is the terms `offsets[k]..offsets[k + 1]`.
    offsets: Vec<u64>,
    wires: Vec<u32>,
    coeffs: Vec<u32>,
}

/// One row of a [`Matrix`].
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The wires, strictly ascending.
    pub wires: &'a [u32],
    /// For each wire the index of its coefficient in [`R1cs::coefficients`](super::R1cs::coefficients).
    pub coeffs: &'a [u32],
}

impl Matrix {
    pub(crate) fn with_rows(rows: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Self { offsets, wires: Vec::new(), coeffs: Vec::new() }
    }

    /// Rows, which are constraints.
    pub fn num_rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Terms with a coefficient other than zero.
    pub fn num_terms(&self) -> usize {
        self.wires.len()
    }

    /// The `rows + 1` places in [`wires`](Self::wires) where rows start and end.
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// The wire of each term.
    pub fn wires(&self) -> &[u32] {
        &self.wires
    }

    /// The coefficient of each term, as its index in [`R1cs::coefficients`](super::R1cs::coefficients).
    pub fn coeffs(&self) -> &[u32] {
        &self.coeffs
    }

    /// The row of constraint `k`.
    ///
    /// # Panics
    /// If there is no row `k`.
    pub fn row(&self, k: usize) -> Row<'_> {
        // Fit: they index vectors that are in memory.
        let terms = self.offsets[k] as usize..self.offsets[k + 1] as usize;
        Row { wires: &self.wires[terms.clone()], coeffs: &self.coeffs[terms] }
    }

    pub(crate) fn push(&mut self, wire: u32, coeff: u32) {
        self.wires.push(wire);
        self.coeffs.push(coeff);
    }

    /// Ends the row that the last pushes made, and brings it to canonical form if it is `unsorted`.
    pub(crate) fn end_row(&mut self, unsorted: bool, table: &mut CoeffTable) {
        if unsorted {
            let start = self.offsets[self.offsets.len() - 1] as usize;
            let mut terms: Vec<(u32, u32)> =
                self.wires.drain(start..).zip(self.coeffs.drain(start..)).collect();
            terms.sort_by_key(|(wire, _)| *wire);
            for same in terms.chunk_by(|x, y| x.0 == y.0) {
                let (wire, mut coeff) = same[0];
                if same.len() > 1 {
                    let sum: Scalar = same.iter().map(|(_, c)| table.values[*c as usize]).sum();
                    if bool::from(sum.is_zero()) {
                        continue;
                    }
                    coeff = table.insert(sum);
                }
                self.push(wire, coeff);
            }
        }
        self.offsets.push(self.wires.len() as u64);
    }

    pub(crate) fn shrink(&mut self) {
        self.wires.shrink_to_fit();
        self.coeffs.shrink_to_fit();
    }
}

/// The table index of the coefficient 1.
pub(crate) const ONE: u32 = 0;
/// The table index of the coefficient -1.
pub(crate) const MINUS_ONE: u32 = 1;

/// The different coefficients of a circuit while it is read.
pub(crate) struct CoeffTable {
    index: HashMap<[u8; SCALAR_BYTES], u32>,
    pub(crate) values: Vec<Scalar>,
    one: [u8; SCALAR_BYTES],
    minus_one: [u8; SCALAR_BYTES],
}

impl CoeffTable {
    pub(crate) fn new() -> Self {
        let (one, minus_one) = (Scalar::ONE, -Scalar::ONE);
        let mut table = Self {
            index: HashMap::new(),
            values: Vec::new(),
            one: one.to_bytes_le(),
            minus_one: minus_one.to_bytes_le(),
        };
        assert_eq!(table.insert(one), ONE);
        assert_eq!(table.insert(minus_one), MINUS_ONE);
        table
    }

    /// The index of a coefficient given as little-endian bytes; `None` if it is not below the prime.
    pub(crate) fn intern(&mut self, bytes: &[u8; SCALAR_BYTES]) -> Option<u32> {
        if *bytes == self.one {
            return Some(ONE);
        }
        if *bytes == self.minus_one {
            return Some(MINUS_ONE);
        }
        if let Some(&i) = self.index.get(bytes) {
            return Some(i);
        }
        let value = Option::from(Scalar::from_repr(*bytes))?;
        Some(self.insert(value))
    }

    fn insert(&mut self, value: Scalar) -> u32 {
        let next = u32::try_from(self.values.len()).expect("2^32 coefficients do not fit the memory read");
        let values = &mut self.values;
        *self.index.entry(value.to_bytes_le()).or_insert_with(|| {
            values.push(value);
            next
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsorted_rows_become_canonical() {
        let mut table = CoeffTable::new();
        let two = table.insert(Scalar::from(2));
        let mut m = Matrix::with_rows(3);
        // 2 w5 + w3 + w5 - w9 + w9 = w3 + 3 w5
        for (w, c) in [(5, two), (3, ONE), (5, ONE), (9, MINUS_ONE), (9, ONE)] {
            m.push(w, c);
        }
        m.end_row(true, &mut table);
        m.end_row(false, &mut table);
        m.push(7, two);
        m.end_row(true, &mut table);
        assert_eq!(m.num_rows(), 3);
        assert_eq!(m.row(0).wires, [3, 5]);
        assert_eq!(table.values[m.row(0).coeffs[1] as usize], Scalar::from(3));
        assert!(m.row(1).wires.is_empty());
        assert_eq!((m.row(2).wires, m.row(2).coeffs), (&[7][..], &[two][..]));
    }

    #[test]
    fn equal_coefficients_share_a_place() {
        let mut table = CoeffTable::new();
        let bytes = Scalar::from(77).to_bytes_le();
        assert_eq!(table.intern(&bytes), table.intern(&bytes));
        assert_eq!(table.intern(&(-Scalar::ONE).to_bytes_le()), Some(MINUS_ONE));
        assert_eq!(table.intern(&[0xff; 32]), None);
        assert_eq!(table.values.len(), 3);
    }
}
