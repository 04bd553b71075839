//! Every way in which a job can end without proofs: its own error, all others go on, everything goes back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::support::{are_of, eventually, job, key, Act, Bomb, Fault, Gate, Plan, Rig, Simulated, Squarings};
use crate::engine::{JobError, JobHandle, JobRequest};
use crate::prover::ProveError;

const COUNT: usize = 12;

fn with(act: Act) -> JobRequest {
    let circuits = [Squarings::new(1, COUNT), Squarings::new(2, COUNT).that(act), Squarings::new(3, COUNT)];
    JobRequest::new(key(COUNT), circuits).label("the bad one")
}

/// Jobs beside the one that fails.
fn others(rig: &Rig) -> Vec<JobHandle> {
    (0..6).map(|i| rig.submit(job(COUNT, [i, i + 50]).label("the bad one"))).collect()
}

fn all_verify(handles: Vec<JobHandle>) {
    for (i, handle) in handles.into_iter().enumerate() {
        are_of(&handle.wait().expect("proofs"), COUNT, [i as u64, i as u64 + 50]);
    }
}

fn fails(request: JobRequest, devices: &[Arc<Simulated>]) -> JobError {
    let rig = Plan::default().over(devices);
    let before = others(&rig);
    let bad = rig.submit(request);
    let after = others(&rig);
    let error = bad.wait().expect_err("it cannot be proved");
    all_verify(before);
    all_verify(after);
    assert_eq!(rig.engine().summary().jobs_failed, 1);
    rig.stop();
    error
}

#[test]
fn a_panic_in_a_synthesis() {
    for devices in [vec![], vec![Arc::new(Simulated::new(0))]] {
        let error = fails(with(Act::Panics), &devices);
        let JobError::Panicked { circuit: 1, stage: "synthesis", text, job } = &error else {
            panic!("{error}");
        };
        assert_eq!((text.as_str(), job.label.as_str()), ("the circuit of 2 panics", "the bad one"));
    }
}

/// A circuit is anybody's code, and so is its drop: no thread of the engine is lost to it.
#[test]
fn circuits_whose_drop_panics() {
    let bombs = |xs: std::ops::Range<u64>| {
        let circuit = |x| Squarings::new(x, COUNT).that(Act::Explodes(Bomb::default()));
        JobRequest::new(key(COUNT), xs.map(circuit).collect::<Vec<_>>())
    };
    let gate = Arc::new(Gate::default());
    let mut plan = Plan::default();
    plan.engine.synthesis_workers = 1;
    let rig = plan.over(&[]);
    let holder = rig.submit(with(Act::Waits(gate.clone())));
    gate.wait_for(1);
    // Dropped before their synthesis: by the deadline, by a cancel, and by the engine's end.
    let late = rig.submit(bombs(0..3).deadline(Instant::now() + Duration::from_millis(20)));
    let cancelled = rig.submit(bombs(0..3));
    cancelled.cancel();
    assert!(matches!(late.wait(), Err(JobError::DeadlinePassed { .. })));
    assert!(matches!(cancelled.wait(), Err(JobError::Cancelled { .. })));
    gate.open();
    holder.wait().expect("proofs");
    // Dropped in their synthesis: it panics, and the job fails.
    assert!(matches!(rig.submit(bombs(0..3)).wait(), Err(JobError::Panicked { stage: "synthesis", .. })));
    all_verify(others(&rig));
    let again = Arc::new(Gate::default());
    let holder = rig.submit(with(Act::Waits(again.clone())));
    again.wait_for(1);
    let open = rig.submit(bombs(0..3));
    rig.engine().cancel_all();
    again.open();
    for handle in [holder, open] {
        assert!(matches!(handle.wait(), Err(JobError::ShutDown { .. })));
    }
    rig.stop();
}

#[test]
fn an_error_of_a_circuit() {
    let error = fails(with(Act::Fails), &[]);
    assert!(matches!(error, JobError::Circuit { circuit: 1, .. }), "{error}");
}

#[test]
fn a_witness_that_does_not_satisfy() {
    let error = fails(with(Act::Lies), &[Arc::new(Simulated::new(0))]);
    let JobError::Circuit { circuit: 1, cause, .. } = &error else { panic!("{error}") };
    assert!(cause.is_self_check(), "{cause}");
}

#[test]
fn parameters_of_another_circuit() {
    let error = fails(JobRequest::new(key(COUNT + 1), [Squarings::new(2, COUNT)]), &[]);
    let JobError::Circuit { cause: ProveError::Mismatch(_), .. } = &error else { panic!("{error}") };
}

/// Runs jobs over a device whose `nth` proof has a fault. Gives what became of each.
fn under(fault: Fault, nth: usize, fallback: bool) -> Vec<Result<(), JobError>> {
    let device = Arc::new(Simulated::new(0));
    device.fail(nth, fault);
    let rig = Plan { fallback, ..Plan::default() }.over(&[device]);
    let handles: Vec<_> = (0..5).map(|x| rig.submit(job(COUNT, [x]))).collect();
    let check =
        |(x, handle): (usize, JobHandle)| handle.wait().map(|proofs| are_of(&proofs, COUNT, [x as u64]));
    let ends = handles.into_iter().enumerate().map(check).collect();
    rig.stop();
    ends
}

#[test]
fn a_device_without_room_fails_one_job_or_none() {
    for nth in [1, 3, 5] {
        let ends = under(Fault::Unable, nth, false);
        let errors: Vec<_> = ends.iter().filter_map(|end| end.as_ref().err()).collect();
        assert_eq!(errors.len(), 1);
        assert!(errors[0].to_string().contains("no room"), "{}", errors[0]);
        assert!(under(Fault::Unable, nth, true).iter().all(Result::is_ok), "the CPU stands in");
    }
}

/// Field case 40.
#[test]
fn a_lost_device_is_named_and_gets_no_more_work() {
    for nth in [1, 3, 5] {
        for fault in [Fault::LostBefore, Fault::LostWith] {
            let ends = under(fault, nth, false);
            for error in ends.iter().filter_map(|end| end.as_ref().err()) {
                let text = error.to_string();
                assert!(text.contains("simulated 0") && text.contains("fell off the bus"), "{text}");
            }
            // Two may be on the device at a time.
            let proved = ends.iter().filter(|end| end.is_ok()).count();
            assert!((nth.saturating_sub(2)..=nth).contains(&proved), "{nth}: {proved}");
            let ends = under(fault, nth, true);
            let lost = usize::from(fault == Fault::LostWith);
            assert_eq!(ends.iter().filter(|end| end.is_err()).count(), lost, "the CPU stands in");
        }
    }
}

#[test]
fn a_panic_of_a_devices_code() {
    for nth in [1, 4] {
        let ends = under(Fault::Panics, nth, false);
        let errors: Vec<_> = ends.iter().filter_map(|end| end.as_ref().err()).collect();
        let [JobError::Panicked { stage: "proof", .. }] = errors[..] else { panic!("{errors:?}") };
    }
}

/// Field case 1.
#[test]
fn a_wrong_answer_of_a_device_is_not_handed_out() {
    let ends = under(Fault::WrongAnswer, 2, false);
    let errors: Vec<_> = ends.iter().filter_map(|end| end.as_ref().err()).collect();
    let [JobError::Circuit { cause, .. }] = errors[..] else { panic!("{errors:?}") };
    assert!(cause.is_self_check(), "{cause}");
}

#[test]
fn a_deadline_that_passes() {
    let rig = Plan::default().over(&[Arc::new(Simulated::new(0))]);
    let gate = Arc::new(Gate::default());
    let deadline = Instant::now() + Duration::from_millis(60);
    let late = rig.submit(with(Act::Waits(gate.clone())).deadline(deadline));
    let good = others(&rig);
    let error = late.wait().expect_err("it is too late");
    assert!(Instant::now() >= deadline);
    assert!(matches!(error, JobError::DeadlinePassed { circuits: 3, .. }), "{error}");
    gate.open();
    all_verify(good);
    let past = rig.submit(job(COUNT, [1]).deadline(Instant::now()));
    assert!(matches!(past.wait(), Err(JobError::DeadlinePassed { done: 0, circuits: 1, .. })));
    let ample = rig.submit(job(COUNT, [1]).deadline(Instant::now() + Duration::from_secs(3600)));
    are_of(&ample.wait().expect("a proof"), COUNT, [1]);
    rig.stop();
}

#[test]
fn a_cancel_at_every_stage() {
    // Before its synthesis: another job holds the only worker.
    let gate = Arc::new(Gate::default());
    let mut plan = Plan::default();
    plan.engine.synthesis_workers = 1;
    let rig = plan.over(&[]);
    let holder = rig.submit(with(Act::Waits(gate.clone())));
    gate.wait_for(1);
    let pending = rig.submit(job(COUNT, [1, 2]));
    pending.cancel();
    assert!(matches!(pending.wait(), Err(JobError::Cancelled { done: 0, circuits: 2, .. })));
    // In its synthesis.
    holder.cancel();
    assert!(holder.is_over());
    let good = others(&rig);
    gate.open();
    assert!(matches!(holder.wait(), Err(JobError::Cancelled { .. })));
    all_verify(good);
    rig.stop();

    // Ready, and on the device.
    let gate = Arc::new(Gate::default());
    let rig = Plan::default().over(&[Arc::new(Simulated::new(0).slots(1).behind(&gate))]);
    let on_device = rig.submit(job(COUNT, [1]));
    gate.wait_for(1);
    let ready = rig.submit(job(COUNT, [2]));
    eventually("its synthesis ends", || ready.progress().synthesised == 1);
    let live = rig.engine().summary().live;
    ready.cancel();
    assert_eq!(rig.engine().summary().live, live - 1, "its memory went back");
    on_device.cancel();
    let good = others(&rig);
    gate.open();
    for handle in [ready, on_device] {
        assert!(matches!(handle.wait(), Err(JobError::Cancelled { .. })));
    }
    all_verify(good);

    // When it is over, it stays what it was.
    let done = rig.submit(job(COUNT, [4]));
    eventually("it is over", || done.is_over());
    done.cancel();
    are_of(&done.wait().expect("a proof"), COUNT, [4]);
    rig.stop();
}

#[test]
fn a_shutdown_loses_nothing() {
    let gate = Arc::new(Gate::default());
    let rig = Plan::default().over(&[Arc::new(Simulated::new(0).behind(&gate))]);
    let handles = others(&rig);
    gate.wait_for(1);
    assert!(!rig.engine().drain(Duration::from_millis(30)), "they are held up");
    assert!(rig.engine().submit(job(COUNT, [1])).is_err(), "no more jobs");
    rig.engine().cancel_all();
    gate.open();
    for handle in handles {
        assert!(matches!(handle.wait(), Err(JobError::ShutDown { .. })));
    }
    assert!(rig.engine().drain(Duration::from_secs(30)));
    rig.stop();

    let rig = Plan::default().over(&[]);
    let handles = others(&rig);
    assert!(rig.engine().drain(Duration::from_secs(60)), "they end");
    all_verify(handles);
    rig.stop();
}

#[test]
fn a_handle_can_be_waited_for_in_parts() {
    let gate = Arc::new(Gate::default());
    let rig = Plan::default().over(&[]);
    let handle = rig.submit(with(Act::Waits(gate.clone())));
    let handle = handle.wait_timeout(Duration::from_millis(20)).expect_err("not yet");
    let handle = handle.wait_timeout(Duration::ZERO).expect_err("not yet");
    gate.open();
    let proofs = handle.wait_timeout(Duration::MAX).expect("it ends").expect("proofs");
    are_of(&proofs, COUNT, [1, 2, 3]);
    // Nobody waits for this one.
    drop(rig.submit(job(COUNT, [9])));
    eventually("it is proved all the same", || rig.engine().summary().jobs_done == 2);
    rig.stop();
}
