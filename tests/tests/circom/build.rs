//! `.r1cs` and `.wtns` files made by hand, byte by byte.

use blstrs::Scalar;

/// The order of BLS12-381's groups, little-endian.
pub fn prime() -> [u8; 32] {
    let mut bytes = (-Scalar::from(1)).to_bytes_le();
    bytes[0] += 1;
    bytes
}

/// One iden3 file.
pub fn file(magic: &[u8; 4], version: u32, sections: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = magic.to_vec();
    bytes.extend(version.to_le_bytes());
    bytes.extend((sections.len() as u32).to_le_bytes());
    for (kind, content) in sections {
        bytes.extend(kind.to_le_bytes());
        bytes.extend((content.len() as u64).to_le_bytes());
        bytes.extend(content);
    }
    bytes
}

/// A row: wires and little-endian coefficients.
pub type Row = Vec<(u32, [u8; 32])>;

/// The parts of a `.r1cs` file.
#[derive(Clone, Debug)]
pub struct R1csParts {
    pub field_size: u32,
    pub prime: Vec<u8>,
    pub wires: u32,
    pub pub_out: u32,
    pub pub_in: u32,
    pub prv_in: u32,
    /// The header's count, if it is to differ from the rows that are there.
    pub constraints: Option<u32>,
    pub rows: Vec<[Row; 3]>,
}

impl R1csParts {
    /// A header and no rows.
    pub fn new(wires: u32, pub_out: u32, pub_in: u32) -> Self {
        Self {
            field_size: 32,
            prime: prime().to_vec(),
            wires,
            pub_out,
            pub_in,
            prv_in: 0,
            constraints: None,
            rows: Vec::new(),
        }
    }

    /// `wire 1 = wire 2 * wire 3`, wire 1 public.
    pub fn product() -> Self {
        let mut parts = Self::new(4, 1, 0);
        parts.push(&[(2, 1)], &[(3, 1)], &[(1, 1)]);
        parts
    }

    /// Adds a constraint with small coefficients.
    pub fn push(&mut self, a: &[(u32, i64)], b: &[(u32, i64)], c: &[(u32, i64)]) {
        let row = |terms: &[(u32, i64)]| terms.iter().map(|&(w, c)| (w, scalar(c).to_bytes_le())).collect();
        self.rows.push([row(a), row(b), row(c)]);
    }

    pub fn header(&self) -> Vec<u8> {
        let mut bytes = self.field_size.to_le_bytes().to_vec();
        bytes.extend(&self.prime);
        for n in [self.wires, self.pub_out, self.pub_in, self.prv_in] {
            bytes.extend(n.to_le_bytes());
        }
        bytes.extend(u64::from(self.wires).to_le_bytes());
        bytes.extend(self.constraints.unwrap_or(self.rows.len() as u32).to_le_bytes());
        bytes
    }

    pub fn constraints(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for row in self.rows.iter().flatten() {
            bytes.extend((row.len() as u32).to_le_bytes());
            for (wire, coeff) in row {
                bytes.extend(wire.to_le_bytes());
                bytes.extend(coeff);
            }
        }
        bytes
    }

    /// The wire-to-label map.
    pub fn labels(&self) -> Vec<u8> {
        (0..u64::from(self.wires)).flat_map(u64::to_le_bytes).collect()
    }

    /// The sections in the order of their numbers.
    pub fn sections(&self) -> Vec<(u32, Vec<u8>)> {
        vec![(1, self.header()), (2, self.constraints()), (3, self.labels())]
    }

    pub fn bytes(&self) -> Vec<u8> {
        file(b"r1cs", 1, &self.sections())
    }
}

/// A small number as a scalar.
pub fn scalar(n: i64) -> Scalar {
    let abs = Scalar::from(n.unsigned_abs());
    if n < 0 {
        -abs
    } else {
        abs
    }
}

/// A `.wtns` file's two sections.
pub fn wtns_sections(values: &[Scalar]) -> Vec<(u32, Vec<u8>)> {
    let mut header = 32_u32.to_le_bytes().to_vec();
    header.extend(prime());
    header.extend((values.len() as u32).to_le_bytes());
    vec![(1, header), (2, values.iter().flat_map(Scalar::to_bytes_le).collect())]
}
