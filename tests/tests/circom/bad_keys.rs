//! Keys and proofs that must be refused, each with an error that says what and where.

use std::path::Path;

use pinprover::keys::{self, KeyError, PointError};

use super::multiplier;

const G1: usize = 96;
const G2: usize = 192;
/// Bytes of a verifying key up to the count of `ic`.
const VK_HEAD: usize = 3 * G1 + 3 * G2;

fn params() -> Vec<u8> {
    let mut bytes = Vec::new();
    keys::write_params(&multiplier().0, &mut bytes).unwrap();
    bytes
}

fn vk() -> Vec<u8> {
    let mut bytes = Vec::new();
    keys::write_vk(&multiplier().0.vk, &mut bytes).unwrap();
    bytes
}

fn proof() -> Vec<u8> {
    let mut bytes = Vec::new();
    keys::write_proof(&multiplier().1, &mut bytes).unwrap();
    bytes
}

/// Where each counted section's count stands, its name, the bytes of its points and their number.
fn counted() -> Vec<(usize, &'static str, usize, usize)> {
    let p = &multiplier().0;
    let lens = [
        ("vk.ic", G1, p.vk.ic.len()),
        ("h", G1, p.h.len()),
        ("l", G1, p.l.len()),
        ("a", G1, p.a.len()),
        ("b_g1", G1, p.b_g1.len()),
        ("b_g2", G2, p.b_g2.len()),
    ];
    let mut at = VK_HEAD;
    lens.map(|(name, size, len)| {
        let start = at;
        at += 4 + size * len;
        (start, name, size, len)
    })
    .to_vec()
}

#[track_caller]
fn refuse(bytes: &[u8], needles: &[&str]) -> KeyError {
    let mut last = None;
    for checked in [true, false] {
        let error = match keys::parse_params(bytes, checked) {
            Err(error) => error,
            Ok(_) => panic!("bad parameters were read (checked: {checked})"),
        };
        let text = error.to_string();
        for needle in needles {
            assert!(text.contains(needle), "{text:?} lacks {needle:?}");
        }
        last = Some(error);
    }
    last.unwrap()
}

#[test]
fn every_truncation() {
    let bytes = params();
    for len in 0..bytes.len() {
        let error = refuse(&bytes[..len], &[]);
        match len {
            0 => assert!(matches!(error, KeyError::Empty)),
            _ => {
                assert!(
                    matches!(error, KeyError::Truncated { .. } | KeyError::Count { .. }),
                    "{len}: {error}"
                )
            }
        }
    }
    let bytes = vk();
    for len in 0..bytes.len() {
        assert!(keys::parse_vk(&bytes[..len]).is_err());
    }
}

#[test]
fn cut_at_each_section_edge() {
    let bytes = params();
    let singles = ["vk.alpha_g1", "vk.beta_g1", "vk.beta_g2", "vk.gamma_g2", "vk.delta_g1", "vk.delta_g2"];
    let mut at = 0;
    for (name, size) in singles.into_iter().zip([G1, G1, G2, G2, G1, G2]) {
        refuse(&bytes[..at + 1], &[name]);
        refuse(&bytes[..at + size - 1], &[name, &format!("byte {at}")]);
        at += size;
    }
    for (at, name, size, len) in counted() {
        refuse(&bytes[..at], &[name, &format!("byte {at}")]);
        refuse(&bytes[..at + 3], &[name]);
        refuse(&bytes[..at + 4], &[name, &format!("count {len}")]);
        let end = at + 4 + size * len;
        refuse(&bytes[..end - 1], &[name]);
    }
}

#[test]
fn counts_that_no_bytes_stand_behind() {
    let good = params();
    for (at, name, size, len) in counted() {
        for count in [u32::MAX, u32::MAX / 96, 1 << 31, 1 << 20] {
            let mut bytes = good.clone();
            bytes[at..at + 4].copy_from_slice(&count.to_be_bytes());
            let needed = (u64::from(count) * size as u64).to_string();
            refuse(&bytes, &[name, &count.to_string(), &needed]);
        }
        // One less, one more, none: the rest is read at the wrong place.
        for count in [0, len as u32 - 1, len as u32 + 1] {
            let mut bytes = good.clone();
            bytes[at..at + 4].copy_from_slice(&count.to_be_bytes());
            refuse(&bytes, &[]);
        }
    }
}

#[test]
fn counts_that_contradict_each_other() {
    // A whole section less: b_g2 (the last) with one point less, and the file that much shorter.
    let mut bytes = params();
    let (at, _, size, len) = counted()[5];
    bytes.truncate(bytes.len() - size);
    bytes[at..at + 4].copy_from_slice(&(len as u32 - 1).to_be_bytes());
    refuse(&bytes, &["b_g2", "b_g1"]);
    // h without its last point.
    let mut bytes = params();
    let (at, _, size, len) = counted()[1];
    bytes.drain(at + 4..at + 4 + size);
    bytes[at..at + 4].copy_from_slice(&(len as u32 - 1).to_be_bytes());
    refuse(&bytes, &["h", "power of two"]);
    // No element of IC.
    let mut bytes = vk();
    bytes.truncate(VK_HEAD);
    bytes.extend([0; 4]);
    let text = keys::parse_vk(&bytes).map(|_| ()).unwrap_err().to_string();
    assert!(text.contains("vk.ic"), "{text}");
}

#[test]
fn bytes_after_the_end() {
    for junk in [&[0][..], b"trailing junk"] {
        let mut bytes = params();
        let end = bytes.len();
        bytes.extend(junk);
        refuse(&bytes, &[&format!("{} bytes follow", junk.len()), &format!("byte {end}")]);
        let mut bytes = vk();
        bytes.extend(junk);
        assert!(matches!(keys::parse_vk(&bytes), Err(KeyError::TrailingBytes { .. })));
    }
    // Parameters are no verifying key.
    assert!(matches!(keys::parse_vk(&params()), Err(KeyError::TrailingBytes { .. })));
}

#[test]
fn one_flipped_bit_in_any_point() {
    let good = params();
    let mut at = 0;
    let mut points: Vec<(usize, usize, String, usize)> = Vec::new();
    for (name, size) in ["alpha_g1", "beta_g1", "beta_g2", "gamma_g2", "delta_g1", "delta_g2"]
        .into_iter()
        .zip([G1, G1, G2, G2, G1, G2])
    {
        points.push((at, size, format!("vk.{name}"), 0));
        at += size;
    }
    for (at, name, size, len) in counted() {
        points.extend((0..len).map(|i| (at + 4 + i * size, size, name.to_string(), i)));
    }
    for (at, size, name, index) in points {
        for byte in [0, 1, size / 2, size - 1] {
            for bit in [0, 6, 7] {
                let mut bytes = good.clone();
                bytes[at + byte] ^= 1 << bit;
                let error = refuse(&bytes, &[&name, &format!("point {index}"), &format!("byte {at}")]);
                assert!(matches!(error, KeyError::Point { .. }));
            }
        }
    }
}

/// A point on the curve and outside the subgroup, uncompressed: the first small `x` that has one.
fn outside(g2: bool) -> Vec<u8> {
    (1..=255_u8)
        .find_map(|x| {
            if g2 {
                let mut bytes = [0; 96];
                (bytes[0], bytes[95]) = (0x80, x);
                let p =
                    Option::<blstrs::G2Affine>::from(blstrs::G2Affine::from_compressed_unchecked(&bytes))?;
                (!bool::from(p.is_torsion_free())).then(|| p.to_uncompressed().to_vec())
            } else {
                let mut bytes = [0; 48];
                (bytes[0], bytes[47]) = (0x80, x);
                let p =
                    Option::<blstrs::G1Affine>::from(blstrs::G1Affine::from_compressed_unchecked(&bytes))?;
                (!bool::from(p.is_torsion_free())).then(|| p.to_uncompressed().to_vec())
            }
        })
        .unwrap()
}

fn put(bytes: &[u8], at: usize, what: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at..at + what.len()].copy_from_slice(what);
    bytes
}

#[test]
fn points_outside_the_subgroup() {
    let good = params();
    // In the verifying key always.
    for (at, g2) in [(0, false), (G1, false), (2 * G1, true), (VK_HEAD - G2, true), (VK_HEAD + 4, false)] {
        let bytes = put(&good, at, &outside(g2));
        let error = refuse(&bytes, &["vk.", "subgroup"]);
        assert!(matches!(error, KeyError::Point { cause: PointError::NotInSubgroup, .. }));
    }
    // In the queries when asked to.
    for (at, name, size, len) in counted().into_iter().skip(1) {
        let index = len - 1;
        let bytes = put(&good, at + 4 + size * index, &outside(size == G2));
        let text = keys::parse_params(&bytes, true).map(|_| ()).unwrap_err().to_string();
        assert!(text.contains(&format!("{name}, point {index} ")) && text.contains("subgroup"), "{text}");
        assert!(keys::parse_params(&bytes, false).is_ok(), "{name}");
    }
}

#[test]
fn infinity_encodings_and_the_wrong_encoding() {
    let good = params();
    let mut infinity = vec![0; G1];
    infinity[0] = 0x40;
    for (at, ..) in counted().iter().take(5) {
        refuse(&put(&good, at + 4, &infinity), &["infinity"]);
    }
    refuse(&put(&good, 0, &infinity), &["vk.alpha_g1", "infinity"]);
    // Infinity with something behind it.
    infinity[50] = 1;
    refuse(&put(&good, 0, &infinity), &["vk.alpha_g1", "flag"]);
    // x = p.
    let mut large = good[..G1].to_vec();
    large[..48].copy_from_slice(&BASE_PRIME);
    refuse(&put(&good, 0, &large), &["vk.alpha_g1", "not below"]);
    // y = p.
    let mut large = good[..G1].to_vec();
    large[48..].copy_from_slice(&BASE_PRIME);
    refuse(&put(&good, 0, &large), &["vk.alpha_g1", "not below"]);
    // A compressed point.
    refuse(&put(&good, 0, &proof()[..48]), &["vk.alpha_g1", "flag"]);
}

/// The prime of the base field, big-endian.
const BASE_PRIME: [u8; 48] = {
    let mut out = [0; 48];
    let words: [u64; 6] = [
        0x1a01_11ea_397f_e69a,
        0x4b1b_a7b6_434b_acd7,
        0x6477_4b84_f385_12bf,
        0x6730_d2a0_f6b0_f624,
        0x1eab_fffe_b153_ffff,
        0xb9fe_ffff_ffff_aaab,
    ];
    let mut i = 0;
    while i < 48 {
        out[i] = (words[i / 8] >> (56 - 8 * (i % 8))) as u8;
        i += 1;
    }
    out
};

#[track_caller]
fn refuse_proof(bytes: &[u8], needles: &[&str]) {
    let text = keys::parse_proof(bytes).map(|_| ()).expect_err("a bad proof was read").to_string();
    for needle in needles {
        assert!(text.contains(needle), "{text:?} lacks {needle:?}");
    }
}

#[test]
fn proofs() {
    let good = proof();
    assert!(keys::parse_proof(&good).unwrap() == multiplier().1);
    refuse_proof(&[], &["empty"]);
    for len in [1, 48, 191, 193, 384] {
        let mut bytes = good.clone();
        bytes.resize(len, 0);
        refuse_proof(&bytes, &["192 bytes", &format!("found {len}")]);
    }
    for (at, size, name) in [(0, 48, "proof.a"), (48, 96, "proof.b"), (144, 48, "proof.c")] {
        let mut infinity = vec![0; size];
        infinity[0] = 0xc0;
        refuse_proof(&put(&good, at, &infinity), &[name, "infinity"]);
        refuse_proof(&put(&good, at, &[0; 1]), &[name, "flag"]);
        let mut large = BASE_PRIME;
        large[0] |= 0x80;
        refuse_proof(&put(&good, at, &large), &[name, "not below"]);
        // Half of all x have no point, and next to none of the others a point of the subgroup.
        let mut causes = [0, 0];
        for x in 1..=32 {
            let mut small = vec![0; size];
            (small[0], small[size - 1]) = (0x80, x);
            let text = keys::parse_proof(&put(&good, at, &small)).map(|_| ()).unwrap_err().to_string();
            assert!(text.contains(name), "{text}");
            causes[usize::from(text.contains("subgroup"))] += 1;
        }
        assert!(causes[0] > 4 && causes[1] > 4, "{name}: {causes:?}");
    }
}

#[test]
fn errors_name_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("some.params");
    let check = |what: &str| {
        for text in [
            keys::read_params(&path, true).map(|_| ()).unwrap_err().to_string(),
            keys::read_vk(&path).map(|_| ()).unwrap_err().to_string(),
            keys::read_proof(&path).map(|_| ()).unwrap_err().to_string(),
        ] {
            assert!(text.starts_with(&path.display().to_string()) && text.contains(what), "{text}");
        }
    };
    check("cannot be read");
    std::fs::write(&path, []).unwrap();
    check("empty (0 bytes)");
    std::fs::write(&path, [0; 7]).unwrap();
    check("7");
    let sparse = |path: &Path| std::fs::File::create(path).unwrap().set_len(1 << 40).unwrap();
    sparse(&path);
    check(" ");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    check(" ");
}
