//! Sizes in bytes as people write them, parsed strictly.

use std::fmt;

/// What [`parse_size`] takes, for messages and help texts.
pub const SIZE_FORMAT: &str =
    "a number and a unit (B, KiB, MiB, GiB, TiB, or the decimal KB, MB, GB, TB), for instance 12.5GiB, 64 GiB, \
     512MiB, or bytes as a whole number";

/// Largest to smallest. The decimal units come after the binary ones so that [`format_size`] can take the
/// first four.
const UNITS: [(&str, u64); 10] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("kB", 1_000),
    ("B", 1),
];

/// Digits after the point that are read. `2^40 * 10^18` still fits the 128-bit arithmetic below.
const MAX_FRACTION_DIGITS: usize = 18;

/// Why a text is not a size. Its text names the value and what is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SizeError {
    /// It does not follow the format at all.
    Malformed {
        /// The text, as given (cut to 64 characters).
        value: String,
    },
    /// The number is fine, the unit is not one of those accepted.
    UnknownUnit {
        /// The text, as given (cut to 64 characters).
        value: String,
        /// The unit found in it.
        unit: String,
    },
    /// More than `2^64 - 1` bytes.
    TooLarge {
        /// The text, as given (cut to 64 characters).
        value: String,
    },
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { value } => write!(f, "{value:?} is not a size: expected {SIZE_FORMAT}"),
            Self::UnknownUnit { value, unit } => {
                write!(f, "{value:?} has an unknown unit {unit:?}: expected {SIZE_FORMAT}")
            }
            Self::TooLarge { value } => {
                write!(f, "{value:?} is more than {} bytes, the largest size", u64::MAX)
            }
        }
    }
}

impl std::error::Error for SizeError {}

/// Parses a size into bytes: `12.5GiB`, `64 GiB`, `512MiB`, `1024`.
///
/// Units are case-sensitive (`Gb` would be gigabits to some). A fraction needs a unit above bytes and is
/// rounded down to whole bytes. Signs, exponents, digit separators and white space around the whole are
/// errors.
///
/// # Errors
/// [`SizeError`], which quotes `text` and says what is accepted.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let value = || text.chars().take(64).collect::<String>();
    let malformed = || SizeError::Malformed { value: value() };

    let number_end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(number_end);
    let unit = rest.trim_start_matches(' ');
    if unit.is_empty() && !rest.is_empty() {
        return Err(malformed());
    }
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (number, None),
    };
    let fraction_is_whole = fraction.is_none_or(|digits| !digits.is_empty() && !digits.contains('.'));
    if whole.is_empty() || !fraction_is_whole || fraction.is_some_and(|d| d.len() > MAX_FRACTION_DIGITS) {
        return Err(malformed());
    }
    let bytes_per_unit = match UNITS.iter().find(|(name, _)| *name == unit) {
        Some((_, bytes)) => *bytes,
        None if unit.is_empty() => 1,
        None if unit.chars().all(|c| c.is_ascii_alphabetic()) => {
            return Err(SizeError::UnknownUnit { value: value(), unit: unit.chars().take(16).collect() });
        }
        None => return Err(malformed()),
    };
    if bytes_per_unit == 1 && fraction.is_some() {
        return Err(malformed());
    }

    let too_large = || SizeError::TooLarge { value: value() };
    // `whole` holds only digits, so the one way this can fail is overflow.
    let whole: u64 = whole.parse().map_err(|_| too_large())?;
    let mut bytes = u128::from(whole) * u128::from(bytes_per_unit);
    if let Some(digits) = fraction {
        let numerator: u128 = digits.parse().map_err(|_| malformed())?;
        bytes += numerator * u128::from(bytes_per_unit) / 10u128.pow(digits.len() as u32);
    }
    u64::try_from(bytes).map_err(|_| too_large())
}

/// Writes bytes in the largest binary unit that keeps it at or above 1, with up to two digits after the point
/// (rounded down): `64 GiB`, `12.5 GiB`, `1023 B`. [`parse_size`] reads it back.
pub fn format_size(bytes: u64) -> String {
    let Some((name, unit)) = UNITS[..4].iter().find(|(_, unit)| bytes >= *unit) else {
        return format!("{bytes} B");
    };
    let hundredths = u128::from(bytes % unit) * 100 / u128::from(*unit);
    let whole = bytes / unit;
    match hundredths {
        0 => format!("{whole} {name}"),
        h if h % 10 == 0 => format!("{whole}.{} {name}", h / 10),
        h => format!("{whole}.{h:02} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_people_write() {
        for (text, bytes) in [
            ("0", 0),
            ("1024", 1024),
            ("1B", 1),
            ("1 B", 1),
            ("64 GiB", 64 << 30),
            ("64  GiB", 64 << 30),
            ("12.5GiB", (25 << 30) / 2),
            ("0.5KiB", 512),
            ("0.1GiB", 107_374_182),
            ("512MiB", 512 << 20),
            ("3TiB", 3 << 40),
            ("1KB", 1000),
            ("1kB", 1000),
            ("2.5MB", 2_500_000),
            ("7GB", 7_000_000_000),
            ("1TB", 1_000_000_000_000),
            ("18446744073709551615", u64::MAX),
            ("16777215.999999999999999999TiB", u64::MAX - 1),
        ] {
            let parsed = parse_size(text).unwrap();
            // The last case rounds a fraction down; all others are exact.
            assert!(
                parsed == bytes || (text.starts_with("16777215.") && parsed >= u64::MAX - 2),
                "{text}: {parsed}"
            );
        }
    }

    #[test]
    fn nonsense_is_an_error_that_quotes_it() {
        for text in [
            "",
            " ",
            "GiB",
            "-1",
            "+1",
            "-1GiB",
            "NaN",
            "inf",
            "1e9",
            "1_000",
            "1,5GiB",
            "1.GiB",
            ".5GiB",
            "1..5GiB",
            "1.5.5GiB",
            "1.5",
            "1.5B",
            "1.5 B",
            "1 ",
            " 1",
            "1GiB ",
            "1GiB junk",
            "1 G iB",
            "0x10",
            "1\tGiB",
            "1\nGiB",
            "1GiB\0",
            "٣GiB",
            "1.0000000000000000000GiB",
        ] {
            let error = parse_size(text).unwrap_err();
            assert!(
                matches!(error, SizeError::Malformed { .. } | SizeError::UnknownUnit { .. }),
                "{text:?}: {error:?}"
            );
            let shown = error.to_string();
            assert!(shown.contains(&format!("{text:?}")) && shown.contains("12.5GiB"), "{shown}");
        }
        for (text, unit) in
            [("1G", "G"), ("1gib", "gib"), ("1Gb", "Gb"), ("5 potatoes", "potatoes"), ("1PiB", "PiB")]
        {
            let error = parse_size(text).unwrap_err();
            assert_eq!(error, SizeError::UnknownUnit { value: text.into(), unit: unit.into() });
        }
        for text in ["18446744073709551616", "16777216TiB", "99999999999999999999999999GiB"] {
            assert!(matches!(parse_size(text), Err(SizeError::TooLarge { .. })), "{text}");
        }
        let long = "9".repeat(10_000) + "GiB";
        assert!(parse_size(&long).unwrap_err().to_string().len() < 200);
    }

    #[test]
    fn formatted_sizes() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (64 << 30, "64 GiB"),
            ((25 << 30) / 2, "12.5 GiB"),
            ((1 << 30) + (1 << 20) * 52, "1.05 GiB"),
            ((1 << 30) - 1, "1023.99 MiB"),
            (u64::MAX, "16777215.99 TiB"),
        ] {
            assert_eq!(format_size(bytes), text);
            let back = parse_size(text).unwrap();
            assert!(back <= bytes && bytes - back <= bytes / 50, "{text}: {back}");
        }
    }
}
