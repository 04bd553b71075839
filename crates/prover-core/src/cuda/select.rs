//! Which devices, as people name them.

use std::fmt;
use std::str::FromStr;

use super::driver::Device;

/// A device by its number or by its UUID.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DeviceSelector {
    /// As the driver numbers those it shows to this process, from 0; `CUDA_VISIBLE_DEVICES` decides the order.
    Ordinal(u32),
    /// `GPU-` and 36 characters, as `nvidia-smi -L` prints it.
    Uuid(String),
}

/// What names no device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} names no device: expected a number, or a UUID like GPU-8a56a4bc-…, as nvidia-smi -L prints it"
)]
pub struct BadSelector(String);

impl FromStr for DeviceSelector {
    type Err = BadSelector;

    fn from_str(text: &str) -> Result<Self, BadSelector> {
        if text.len() > 4 && text.starts_with("GPU-") {
            return Ok(Self::Uuid(text.to_owned()));
        }
        text.parse().map(Self::Ordinal).map_err(|_| BadSelector(text.to_owned()))
    }
}

impl fmt::Display for DeviceSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ordinal(ordinal) => write!(f, "{ordinal}"),
            Self::Uuid(uuid) => f.write_str(uuid),
        }
    }
}

/// No such device, or one named twice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// No such device.
    #[error("no CUDA device {wanted}: there are {known}")]
    Unknown {
        /// What was asked for.
        wanted: DeviceSelector,
        /// Those there are, with numbers, names and UUIDs.
        known: String,
    },
    /// Named twice, perhaps by its number and by its UUID.
    #[error("CUDA device {0} is named twice")]
    Twice(DeviceSelector),
}

/// The devices that are meant: those named, in that order, or all if none is. A UUID may be cut short as long as it is
/// the only one that begins so.
///
/// # Errors
/// See [`SelectError`].
pub fn select(wanted: &[DeviceSelector], known: &[Device]) -> Result<Vec<Device>, SelectError> {
    if wanted.is_empty() {
        return Ok(known.to_vec());
    }
    let mut chosen: Vec<Device> = Vec::new();
    for wanted in wanted {
        let mut found = known.iter().filter(|device| match wanted {
            DeviceSelector::Ordinal(ordinal) => device.ordinal == *ordinal as usize,
            DeviceSelector::Uuid(uuid) => device.uuid.starts_with(uuid.as_str()),
        });
        let device = match (found.next(), found.next()) {
            (Some(device), None) => device.clone(),
            _ => {
                let known = known.iter().map(|d| format!("{} ({}, {})", d.ordinal, d.name, d.uuid));
                let known = known.collect::<Vec<_>>().join(", ");
                return Err(SelectError::Unknown { wanted: wanted.clone(), known });
            }
        };
        if chosen.iter().any(|other| other.ordinal == device.ordinal) {
            return Err(SelectError::Twice(wanted.clone()));
        }
        chosen.push(device);
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(ordinal: usize, uuid: &str) -> Device {
        Device {
            ordinal,
            name: "simulated".to_owned(),
            compute_capability: (9, 0),
            memory: 1 << 30,
            pci_bus_id: format!("0000:{ordinal:02x}:00.0"),
            uuid: uuid.to_owned(),
        }
    }

    fn parse(text: &str) -> DeviceSelector {
        text.parse().unwrap()
    }

    #[test]
    fn selectors_are_numbers_or_uuids() {
        assert_eq!(parse("3"), DeviceSelector::Ordinal(3));
        assert_eq!(parse("GPU-8a56"), DeviceSelector::Uuid("GPU-8a56".to_owned()));
        for bad in ["", "-1", "GPU-", "gpu0", "4294967296", "0x1", " 1"] {
            let error = bad.parse::<DeviceSelector>().unwrap_err().to_string();
            assert!(error.contains(&format!("{bad:?}")), "{error}");
        }
    }

    #[test]
    fn devices_are_chosen_by_number_uuid_or_all() {
        let known = [device(0, "GPU-aa11"), device(1, "GPU-aa22"), device(2, "GPU-bb33")];
        let ordinals = |wanted: &[&str]| -> Result<Vec<usize>, SelectError> {
            let wanted: Vec<_> = wanted.iter().map(|text| parse(text)).collect();
            Ok(select(&wanted, &known)?.iter().map(|device| device.ordinal).collect())
        };
        assert_eq!(ordinals(&[]), Ok(vec![0, 1, 2]));
        assert_eq!(ordinals(&["2", "GPU-aa11"]), Ok(vec![2, 0]));
        assert_eq!(ordinals(&["GPU-b"]), Ok(vec![2]), "the only one that begins so");
        assert_eq!(ordinals(&["1", "GPU-aa22"]), Err(SelectError::Twice(parse("GPU-aa22"))));
        for none in ["7", "GPU-aa", "GPU-cc"] {
            let error = ordinals(&[none]).unwrap_err().to_string();
            assert!(error.contains(none) && error.contains("0 (simulated, GPU-aa11)"), "{error}");
        }
    }
}
