//! One scene, played again and again, in which the n-th call goes wrong, for every n and in every way.

use pinned_alloc::{AllocError, Block, Registry};

use crate::kit::{check, fill, four, Call, How, Lab, REFUSED};

/// Two groups, grown, sealed, dropped in two orders, one of them after the registration. Returns the errors
/// it met. What fails is skipped, as a caller does who falls back to ordinary memory.
fn scene(registry: &Registry, lab: &std::sync::Arc<Lab>) -> Vec<AllocError> {
    let registration = lab.register(registry).expect("an empty registry");
    let mut errors = Vec::new();
    let mut keep = |answer: Result<(), AllocError>| errors.extend(answer.err());

    let mut groups: Vec<Vec<Block>> = Vec::new();
    for seed in [1, 2] {
        match registry.allocate(four()) {
            Ok(blocks) => groups.push(blocks.into()),
            Err(e) => {
                keep(Err(e));
                continue;
            }
        }
        for block in groups.last_mut().expect("just pushed") {
            let size = block.size();
            fill(block, seed);
            keep(block.grow(size + 1));
            check(block, size, seed);
            fill(block, seed);
            keep(block.grow(size * 3));
            keep(block.seal());
            check(block, size, seed);
        }
    }
    groups.pop();
    drop(registration);
    for group in &mut groups {
        while !group.is_empty() {
            drop(group.remove(0));
        }
    }
    errors
}

#[test]
fn every_call_fails_once_in_every_way() {
    let registry = Registry::new();
    let lab = Lab::new("faultless");
    assert_eq!(scene(&registry, &lab), []);
    let calls = lab.calls();
    lab.finish(0);
    for call in [Call::Allocate, Call::Grow, Call::Seal, Call::Free, Call::Release] {
        assert!(calls.contains(&call), "the scene has no {call:?}");
    }

    for how in [How::Fail, How::Panic] {
        for (n, call) in calls.iter().enumerate() {
            let lab = Lab::new("faulty");
            lab.fault_at(n + 1, how);
            let errors = scene(&registry, &lab);
            let silent = matches!(call, Call::Free | Call::Release);
            match (&errors[..], silent) {
                ([], true) => {}
                ([e], false) if how == How::Fail => assert_eq!(*e, REFUSED),
                ([AllocError::BrokenAllocator { .. }], false) => {}
                _ => panic!("{how:?} in {call:?}, call {}: {errors:?}", n + 1),
            }
            lab.finish(usize::from(*call == Call::Free && how != How::Fail));
            assert_eq!(registry.current_name(), None);
        }
    }
}
