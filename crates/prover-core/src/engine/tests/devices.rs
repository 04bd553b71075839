//! Several devices, and the loss of some.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use super::support::{are_of, job, key, Fault, Plan, Simulated};

fn fleet(count: u32, delay: Duration) -> Vec<Arc<Simulated>> {
    (0..count).map(|ordinal| Arc::new(Simulated::new(ordinal).slow(delay))).collect()
}

fn proofs(devices: &[Arc<Simulated>]) -> Vec<usize> {
    devices.iter().map(|device| device.proofs.load(Ordering::SeqCst)).collect()
}

/// Field case 4.
#[test]
fn single_circuits_use_all_devices() {
    let devices = fleet(2, Duration::from_millis(10));
    let rig = Plan::default().over(&devices);
    let handles: Vec<_> = (0..20).map(|x| rig.submit(job(10, [x]))).collect();
    for (x, handle) in handles.into_iter().enumerate() {
        are_of(&handle.wait().expect("a proof"), 10, [x as u64]);
    }
    let made = proofs(&devices);
    assert!(made.iter().all(|made| *made >= 4) && made.iter().sum::<usize>() == 20, "{made:?}");
    let status = rig.engine().summary().devices;
    assert_eq!(status.iter().map(|device| device.proofs).sum::<u64>(), 20);
    rig.stop();
}

#[test]
fn work_goes_to_the_device_that_has_the_key() {
    let devices = fleet(3, Duration::ZERO);
    devices[2].load(&key(10));
    devices[1].load(&key(11));
    let rig = Plan::default().over(&devices);
    // One at a time: there is always a free slot where the key is.
    for x in 0..6 {
        rig.submit(job(10, [x])).wait().expect("a proof");
        rig.submit(job(11, [x])).wait().expect("a proof");
    }
    assert_eq!(proofs(&devices), [0, 6, 6]);
    rig.stop();
}

#[test]
fn the_rest_go_on_when_a_device_is_lost() {
    for fault in [Fault::LostBefore, Fault::LostWith] {
        let devices = fleet(3, Duration::from_millis(2));
        devices[1].fail(2, fault);
        let rig = Plan::default().over(&devices);
        let handles: Vec<_> = (0..30).map(|x| rig.submit(job(10, [x]))).collect();
        let mut failed = 0;
        for (x, handle) in handles.into_iter().enumerate() {
            match handle.wait() {
                Ok(proofs) => are_of(&proofs, 10, [x as u64]),
                Err(error) => {
                    assert!(error.to_string().contains("simulated 1"), "{error}");
                    failed += 1;
                }
            }
        }
        // Only an assignment that went with the device is lost.
        assert_eq!(failed, usize::from(fault == Fault::LostWith));
        let status = rig.engine().summary().devices;
        let lost: Vec<_> = status.iter().filter(|device| device.lost.is_some()).collect();
        assert_eq!((lost.len(), lost[0].ordinal), (1, 1));
        rig.stop();
    }
}

#[test]
fn a_device_without_room_passes_the_proof_on() {
    let devices = fleet(2, Duration::ZERO);
    devices[0].load(&key(10));
    devices[0].fail(1, Fault::Unable);
    let rig = Plan::default().over(&devices);
    are_of(&rig.submit(job(10, [7])).wait().expect("a proof"), 10, [7]);
    assert_eq!(proofs(&devices), [0, 1]);
    rig.stop();
}

#[test]
fn when_all_are_lost_jobs_fail_fast_with_their_names() {
    let devices = fleet(2, Duration::ZERO);
    for device in &devices {
        device.fail(1, Fault::LostBefore);
    }
    let rig = Plan::default().over(&devices);
    for _ in 0..3 {
        let error = rig.submit(job(10, [7])).wait().expect_err("no device").to_string();
        assert!(error.contains("simulated 0") && error.contains("simulated 1"), "{error}");
    }
    rig.stop();
}

#[test]
fn a_slot_is_used_while_the_other_one_works() {
    let devices = fleet(1, Duration::from_millis(5));
    let rig = Plan::default().over(&devices);
    rig.submit(job(10, 0..20)).wait().expect("proofs");
    assert_eq!(devices[0].most.load(Ordering::SeqCst), 2);
    rig.stop();
}
