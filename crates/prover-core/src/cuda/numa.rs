//! Which NUMA node a device is near to.

use std::fs;
use std::path::Path;

use super::driver::Device;

/// The node that all these devices are near to; `None` if the system does not say, or they are near to several.
pub fn numa_node(devices: &[Device]) -> Option<u32> {
    node_under(Path::new("/sys/bus/pci/devices"), devices)
}

fn node_under(folder: &Path, devices: &[Device]) -> Option<u32> {
    let node = |device: &Device| -> Option<u32> {
        // The driver writes the address in capitals, the system in small letters. A domain has four digits there.
        let address = device.pci_bus_id.to_ascii_lowercase();
        let text = fs::read_to_string(folder.join(address).join("numa_node")).ok()?;
        // -1: not known.
        text.trim().parse().ok()
    };
    let first = node(devices.first()?)?;
    devices.iter().all(|device| node(device) == Some(first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_is_known_only_if_all_agree() {
        let folder = tempfile::tempdir().unwrap();
        let device = |bus: &str, node: &str| {
            let place = folder.path().join(bus.to_ascii_lowercase());
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("numa_node"), node).unwrap();
            Device {
                ordinal: 0,
                name: "simulated".to_owned(),
                compute_capability: (9, 0),
                memory: 1,
                pci_bus_id: bus.to_owned(),
                uuid: String::new(),
            }
        };
        let (near, far) = (device("0000:3B:00.0", "1\n"), device("0000:AF:00.0", "0\n"));
        let (also, unknown) = (device("0000:3C:00.0", "1\n"), device("0000:01:00.0", "-1\n"));
        let node = |devices: &[&Device]| {
            node_under(folder.path(), &devices.iter().map(|device| (*device).clone()).collect::<Vec<_>>())
        };
        assert_eq!(node(&[&near]), Some(1));
        assert_eq!(node(&[&near, &also]), Some(1));
        assert_eq!(node(&[&near, &far]), None);
        assert_eq!(node(&[&unknown]), None);
        assert_eq!(node(&[]), None);
        fs::remove_dir_all(folder.path().join("0000:3b:00.0")).unwrap();
        assert_eq!(node(&[&near]), None);
    }
}
