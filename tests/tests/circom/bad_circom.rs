//! `.r1cs` and `.wtns` files that must be refused, each with an error that says what and where.

use std::path::Path;

use blstrs::Scalar;
use pinprover::circom::{FormatError, R1cs, Witness};

use super::build::{self, prime, wtns_sections, R1csParts};
use super::{fixture, fixture_bytes};

/// The error for a `.r1cs`, which must hold all of `needles`.
#[track_caller]
fn refuse_r1cs(bytes: &[u8], needles: &[&str]) -> FormatError {
    let error = R1cs::from_bytes(bytes).expect_err("a bad file was read");
    let text = error.to_string();
    for needle in needles {
        assert!(text.contains(needle), "{text:?} lacks {needle:?}");
    }
    error
}

#[track_caller]
fn refuse_wtns(bytes: &[u8], needles: &[&str]) -> FormatError {
    let error = Witness::from_bytes(bytes).expect_err("a bad file was read");
    let text = error.to_string();
    for needle in needles {
        assert!(text.contains(needle), "{text:?} lacks {needle:?}");
    }
    error
}

#[test]
fn the_hand_made_files_are_good() {
    R1cs::from_bytes(&R1csParts::product().bytes()).unwrap();
    let values = [1, 6, 2, 3].map(Scalar::from);
    let wtns = Witness::from_bytes(&build::file(b"wtns", 2, &wtns_sections(&values))).unwrap();
    assert_eq!(wtns.values(), values);
}

#[test]
fn every_truncation() {
    for name in ["multiplier", "unused", "custom_gate", "empty"] {
        let bytes = fixture_bytes(&format!("{name}.r1cs"));
        for len in 0..bytes.len() {
            let error = refuse_r1cs(&bytes[..len], &[]);
            match len {
                0 => assert!(matches!(error, FormatError::Empty)),
                1..=3 => assert!(matches!(error, FormatError::Magic { .. })),
                _ => assert!(
                    matches!(error, FormatError::Truncated { .. } | FormatError::SectionOverrun { .. }),
                    "{len}: {error}"
                ),
            }
        }
    }
    let bytes = fixture_bytes("unused.wtns");
    for len in 0..bytes.len() {
        refuse_wtns(&bytes[..len], &[]);
    }
}

#[test]
fn magic_and_version() {
    let good = R1csParts::product();
    let r1cs = good.bytes();
    let wtns = fixture_bytes("multiplier.wtns");
    refuse_r1cs(&wtns, &["magic", "\"r1cs\"", "\"wtns\""]);
    refuse_wtns(&r1cs, &["magic", "\"wtns\"", "\"r1cs\""]);
    refuse_r1cs(b"{\"pi_a\": []}", &["magic"]);
    refuse_r1cs(&build::file(b"r1cs", 2, &good.sections()), &["version 2", "expected version 1"]);
    refuse_wtns(
        &build::file(b"wtns", 1, &wtns_sections(&[Scalar::from(1)])),
        &["version 1", "expected version 2"],
    );
}

#[test]
fn other_primes_are_named_with_the_remedy() {
    let advice = "circom --prime bls12381";
    refuse_r1cs(&fixture_bytes("multiplier_bn128.r1cs"), &["bn128", advice]);
    refuse_r1cs(&fixture_bytes("multiplier_goldilocks.r1cs"), &["goldilocks", advice]);
    refuse_wtns(&fixture_bytes("multiplier_bn128.wtns"), &["bn128", advice]);
    refuse_wtns(&fixture_bytes("multiplier_goldilocks.wtns"), &["goldilocks", advice]);

    let mut unknown = R1csParts::product();
    unknown.prime[0] ^= 4;
    refuse_r1cs(&unknown.bytes(), &["wrong prime", "0x73eda753", advice]);
}

#[test]
fn field_sizes() {
    for size in [0, 8, 31, 40, 48] {
        let mut parts = R1csParts::product();
        parts.field_size = size;
        parts.prime = vec![7; size as usize];
        refuse_r1cs(&parts.bytes(), &["field size", &format!("found {size}")]);
    }
    // A size that the section does not have.
    let mut parts = R1csParts::product();
    parts.field_size = u32::MAX;
    refuse_r1cs(&parts.bytes(), &["field size", "4294967295"]);
}

#[test]
fn missing_and_double_sections() {
    let sections = R1csParts::product().sections();
    for (i, name) in ["header", "constraints", "wire-to-label map"].iter().enumerate() {
        let mut fewer = sections.clone();
        fewer.remove(i);
        refuse_r1cs(&build::file(b"r1cs", 1, &fewer), &[name, "missing"]);
        let mut more = sections.clone();
        more.push(sections[i].clone());
        refuse_r1cs(&build::file(b"r1cs", 1, &more), &[name, "twice"]);
    }
    let sections = wtns_sections(&[Scalar::from(1)]);
    for (i, name) in ["header", "values"].iter().enumerate() {
        let mut fewer = sections.clone();
        fewer.remove(i);
        refuse_wtns(&build::file(b"wtns", 2, &fewer), &[name, "missing"]);
        let mut more = sections.clone();
        more.push(sections[i].clone());
        refuse_wtns(&build::file(b"wtns", 2, &more), &[name, "twice"]);
    }
}

#[test]
fn bytes_after_the_end() {
    for junk in [&[0][..], b"trailing junk"] {
        let mut bytes = R1csParts::product().bytes();
        let end = bytes.len();
        bytes.extend(junk);
        refuse_r1cs(&bytes, &[&format!("{} bytes follow", junk.len()), &format!("byte {end}")]);
        let mut bytes = fixture_bytes("multiplier.wtns");
        bytes.extend(junk);
        refuse_wtns(&bytes, &["bytes follow the last section"]);
    }
    // After the end of a section's content, inside the section.
    for (i, name) in ["header", "constraints", "wire-to-label map"].iter().enumerate() {
        let mut sections = R1csParts::product().sections();
        sections[i].1.push(0);
        refuse_r1cs(&build::file(b"r1cs", 1, &sections), &[name, "expected", "found"]);
    }
    for (i, name) in ["header", "values"].iter().enumerate() {
        let mut sections = wtns_sections(&[Scalar::from(1)]);
        sections[i].1.push(0);
        refuse_wtns(&build::file(b"wtns", 2, &sections), &[name]);
    }
}

#[test]
fn sections_longer_than_the_file() {
    let good = R1csParts::product().bytes();
    // The size field of the first section.
    for size in [u64::MAX, u64::MAX / 2, 1 << 40, good.len() as u64] {
        let mut bytes = good.clone();
        bytes[16..24].copy_from_slice(&size.to_le_bytes());
        refuse_r1cs(&bytes, &["section 1", &size.to_string()]);
    }
    // More sections than there are.
    let mut bytes = good;
    bytes[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    refuse_r1cs(&bytes, &["truncated"]);
}

#[test]
fn counts_that_no_bytes_stand_behind() {
    let max = u32::MAX;
    let mut parts = R1csParts::product();
    parts.constraints = Some(max);
    let error = refuse_r1cs(&parts.bytes(), &["4294967295 constraints"]);
    assert!(matches!(error, FormatError::Count { needed, .. } if needed == u64::from(max) * 12));
    for constraints in [0, 2] {
        parts.constraints = Some(constraints);
        refuse_r1cs(&parts.bytes(), &["constraints"]);
    }

    // Wires that the map does not have: header and map are made apart.
    let mut big = R1csParts::product();
    big.wires = max;
    let mut sections = R1csParts::product().sections();
    sections[0].1 = big.header();
    let labels = (u64::from(max) * 8).to_string();
    refuse_r1cs(&build::file(b"r1cs", 1, &sections), &["wire-to-label map", &labels]);

    // Kinds of wires that are more than the wires, also if their sum overflows.
    for (pub_out, pub_in) in [(4, 0), (1, 3), (0, 4), (max, 1), (max, max), (1, max)] {
        let mut parts = R1csParts::product();
        (parts.pub_out, parts.pub_in) = (pub_out, pub_in);
        refuse_r1cs(&parts.bytes(), &["header", &pub_out.to_string(), "4 wires"]);
    }
    let mut none = R1csParts::product();
    (none.wires, none.pub_out) = (0, 0);
    refuse_r1cs(&none.bytes(), &["0 wires"]);

    // A row with more terms than the section has.
    for count in [4, max / 36 + 1, max] {
        let mut sections = R1csParts::product().sections();
        sections[1].1[..4].copy_from_slice(&u32::to_le_bytes(count));
        refuse_r1cs(&build::file(b"r1cs", 1, &sections), &[]);
    }

    // Values of a witness.
    for count in [0, 3, 5, max] {
        let mut sections = wtns_sections(&[1, 2, 3, 4].map(Scalar::from));
        sections[0].1[36..40].copy_from_slice(&u32::to_le_bytes(count));
        let expected = (u64::from(count) * 32).to_string();
        refuse_wtns(&build::file(b"wtns", 2, &sections), &["values", &expected, "128"]);
    }
}

#[test]
fn wires_and_coefficients_out_of_range() {
    let mut parts = R1csParts::product();
    parts.push(&[(0, 1)], &[(1, 1), (4, 1)], &[]);
    let error = refuse_r1cs(&parts.bytes(), &["constraint 1, B, term 1", "wire 4", "has 4"]);
    let FormatError::WireOutOfRange { offset, .. } = error else { panic!("{error}") };
    assert_eq!(&parts.bytes()[offset as usize..][..4], 4_u32.to_le_bytes());

    parts.rows[1][1][1] = (u32::MAX, [0; 32]);
    refuse_r1cs(&parts.bytes(), &["wire 4294967295"]);

    for coeff in [prime(), [0xff; 32]] {
        let mut parts = R1csParts::product();
        parts.rows[0][2][0].1 = coeff;
        let error = refuse_r1cs(&parts.bytes(), &["constraint 0, C, term 0", "not below the prime"]);
        let FormatError::CoefficientTooLarge { offset, .. } = error else { panic!("{error}") };
        assert_eq!(&parts.bytes()[offset as usize + 4..][..32], coeff);
    }
}

#[test]
fn values_out_of_range() {
    // Many enough that several threads look at them; the first bad one is named.
    let mut sections = wtns_sections(&vec![Scalar::from(1); 40_000]);
    for wire in [39_999, 20_000, 12_345] {
        sections[1].1[wire * 32..][..32].copy_from_slice(&prime());
        refuse_wtns(&build::file(b"wtns", 2, &sections), &[&format!("wire {wire} "), "not below the prime"]);
    }
}

#[test]
fn custom_gates() {
    refuse_r1cs(&fixture_bytes("custom_gate.r1cs"), &["custom gates", "pragma custom_templates"]);
    for kind in [4, 5] {
        let mut sections = R1csParts::product().sections();
        sections.push((kind, 3_u32.to_le_bytes().to_vec()));
        refuse_r1cs(&build::file(b"r1cs", 1, &sections), &["custom gates", "3"]);
        sections[3].1.truncate(2);
        refuse_r1cs(&build::file(b"r1cs", 1, &sections), &["truncated"]);
    }
}

#[test]
fn errors_name_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("some.r1cs");
    let check = |what: &str| {
        for text in [
            R1cs::read(&path).map(|_| ()).unwrap_err().to_string(),
            Witness::read(&path).map(|_| ()).unwrap_err().to_string(),
        ] {
            assert!(text.starts_with(&path.display().to_string()) && text.contains(what), "{text}");
        }
    };
    check("cannot be read");
    std::fs::write(&path, []).unwrap();
    check("empty (0 bytes)");
    std::fs::write(&path, [7]).unwrap();
    check("magic");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    check("cannot be read");
    assert!(R1cs::read(fixture("multiplier.wtns")).is_err());
    assert!(Witness::read(fixture("multiplier.r1cs")).is_err());
}

#[test]
fn a_huge_file_of_another_kind_costs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sparse");
    std::fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    let refused = |path: &Path| R1cs::read(path).is_err() && Witness::read(path).is_err();
    assert!(refused(&path));
}
