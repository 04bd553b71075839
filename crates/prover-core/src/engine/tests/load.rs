//! Many jobs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bellperson::groth16::synthesize;
use rand_core::{OsRng, RngCore};

use super::support::{are_of, eventually, job, key, shape, Act, Fault, Plan, Simulated, Squarings};
use crate::engine::JobRequest;
use crate::memory::Priority;

/// Jobs of the soak; `ENGINE_SOAK_JOBS` raises it.
fn jobs() -> u64 {
    std::env::var("ENGINE_SOAK_JOBS").ok().map_or(300, |count| count.parse().expect("a number"))
}

/// Small jobs of mixed shapes, some of which fail, cancel or are late, over two devices one of which is lost on the way.
#[test]
fn a_soak_of_small_jobs_leaves_nothing_behind() {
    let devices = [Arc::new(Simulated::new(0)), Arc::new(Simulated::new(1))];
    devices[1].fail(usize::try_from(jobs()).unwrap() / 4, Fault::LostBefore);
    let mut plan = Plan::default();
    plan.engine.trace_spans = 1000;
    let rig = plan.over(&devices);
    let start = Instant::now();
    let (mut proved, mut ended) = (0_u64, 0_u64);
    let mut waiting = std::collections::VecDeque::new();
    for number in 0..jobs() {
        let count = [3, 9, 40][number as usize % 3];
        let (x, kind) = (u64::from(OsRng.next_u32()), number % 50);
        let request = match kind {
            7 => JobRequest::new(key(count), [Squarings::new(x, count).that(Act::Panics)]),
            17 => JobRequest::new(key(count), [Squarings::new(x, count).that(Act::Lies)]),
            27 => job(count, [x]).deadline(Instant::now()),
            _ => job(count, [x]).priority(Priority((number % 4) as u8)),
        };
        let handle = rig.submit(request);
        if kind == 37 {
            handle.cancel();
        }
        waiting.push_back((handle, count, x, matches!(kind, 7 | 17 | 27 | 37)));
        while waiting.len() > 64 || (number + 1 == jobs() && !waiting.is_empty()) {
            let (handle, count, x, bad) = waiting.pop_front().expect("not empty");
            match handle.wait() {
                Ok(proofs) => {
                    // Every tenth: the engine checked them all.
                    if proved % 10 == 0 {
                        are_of(&proofs, count, [x]);
                    }
                    proved += 1;
                }
                Err(error) => {
                    assert!(bad, "{error}");
                    ended += 1;
                }
            }
        }
    }
    let summary = rig.engine().summary();
    println!(
        "{} jobs in {:.2} s: {proved} proved, {ended} ended otherwise",
        jobs(),
        start.elapsed().as_secs_f64()
    );
    assert_eq!((summary.jobs_done, summary.jobs_failed), (proved, ended));
    assert_eq!(summary.jobs_submitted, jobs());
    rig.stop();
}

#[test]
fn one_witness_is_proved_many_times_from_copies() {
    let rig = Plan::default().over(&[Arc::new(Simulated::new(0))]);
    let template = Arc::new(synthesize(Squarings::new(6, 30), Some(shape(30))).expect("a witness"));
    let pace = Duration::from_millis(3);
    let start = Instant::now();
    let request = JobRequest::replicas(key(30), template.clone(), 12, pace);
    let proofs = rig.submit(request).wait().expect("proofs");
    assert!(start.elapsed() >= pace * 6, "two workers, each takes its time");
    are_of(&proofs, 30, [6; 12]);
    assert!(proofs.iter().all(|proven| proven.report.memory.abc.backend == "heap"));
    assert!(proofs.iter().any(|proven| proven.proof != proofs[0].proof), "each is blinded anew");
    drop(template);
    rig.stop();
}

/// Field case 38.
#[test]
fn progress_never_goes_back_and_sums_match() {
    let rig = Plan::default().over(&[Arc::new(Simulated::new(0).slow(Duration::from_millis(1)))]);
    let handle = rig.submit(job(10, 0..60));
    let (mut before, mut done_before) = (handle.progress(), 0);
    while !handle.is_over() {
        let (now, summary) = (handle.progress(), rig.engine().summary());
        assert!(now.proved >= before.proved && now.synthesised >= before.synthesised);
        assert!(now.proved <= now.synthesised && now.synthesised <= now.circuits);
        assert!(summary.circuits_proved >= done_before && summary.live <= 4, "{summary:?}");
        assert!(summary.devices.iter().all(|device| device.busy <= 2));
        (before, done_before) = (now, summary.circuits_proved);
        std::thread::sleep(Duration::from_millis(1));
    }
    are_of(&handle.wait().expect("proofs"), 10, 0..60);
    rig.stop();
}

/// The value of a metric.
fn metric(text: &str, name: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with(&format!("{name} ")));
    let line = line.unwrap_or_else(|| panic!("no {name} in\n{text}"));
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
}

#[test]
fn metrics_tell_what_was_done_and_totals_only_grow() {
    let device = Arc::new(Simulated::new(3));
    device.fail(7, Fault::LostBefore);
    let rig = Plan { fallback: true, ..Plan::default() }.over(&[device]);
    let mut before = rig.engine().metrics();
    assert!(before.ends_with("# EOF\n"));
    for round in 0..4 {
        rig.submit(job(10, 0..3)).wait().expect("proofs");
        let now = rig.engine().metrics();
        assert_eq!(metric(&now, "pinprover_circuits_proved_total"), f64::from(3 * (round + 1)));
        assert_eq!(metric(&now, "pinprover_jobs_total{end=\"done\"}"), f64::from(round + 1));
        for line in before.lines().filter(|line| line.contains("_total")) {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            if let Ok(value) = value.parse::<f64>() {
                assert!(metric(&now, name) >= value, "{name}");
            }
        }
        before = now;
    }
    assert_eq!(metric(&before, "pinprover_device_healthy{device=\"3\"}"), 0.0);
    assert_eq!(metric(&before, "pinprover_phase_seconds_count{phase=\"verify\"}"), 12.0);
    assert!(metric(&before, "pinprover_budget_total_bytes") > 0.0);
    rig.stop();
}

/// Field case 36.
#[test]
fn everything_works_inside_and_outside_an_async_runtime() {
    let rig = Plan { budget: 1 << 20, ..Plan::default() }.over(&[]);
    let work = || {
        let handle = rig.submit(job(60, 0..4));
        let _ = (handle.progress(), rig.engine().summary(), rig.pool.trim_all());
        are_of(&handle.wait().expect("proofs"), 60, 0..4);
        rig.submit(job(90, [1])).cancel();
        let _ = rig.engine().try_submit(job(60, [1])).map(|handle| handle.wait_timeout(Duration::ZERO));
    };
    work();
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(async { work() });
    let many = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    many.block_on(async { work() });
    many.block_on(async {
        std::thread::scope(|scope| {
            scope.spawn(work);
        });
    });
    eventually("all are over", || rig.engine().summary().live == 0);
    rig.stop();
}

/// The engine beside a plain loop over the same circuits.
#[test]
#[ignore = "a measurement: cargo test --release -p prover-core --lib -- --ignored engine_overhead --nocapture"]
fn engine_overhead() {
    let (count, circuits) = (1 << 12, 12_u64);
    let mut plan = Plan::default();
    plan.engine.synthesis_workers = 1;
    let rig = plan.over(&[]);
    let params = key(count);
    let plain = || {
        for x in 0..circuits {
            let rng = &mut OsRng;
            let circuit = Squarings::new(x, count);
            let proof = bellperson::groth16::create_random_proof(circuit, &*params, rng).expect("a proof");
            let vk = bellperson::groth16::prepare_verifying_key(&params.vk);
            let inputs = [Squarings::new(x, count).output()];
            assert!(bellperson::groth16::verify_proof(&vk, &proof, &inputs).expect("inputs fit"));
        }
    };
    let time = |work: &dyn Fn()| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    };
    let engine = || {
        rig.submit(job(count, 0..circuits)).wait().expect("proofs");
    };
    engine();
    let (mut plains, mut engines) = (Vec::new(), Vec::new());
    for _ in 0..7 {
        plains.push(time(&plain));
        engines.push(time(&engine));
    }
    plains.sort_by(f64::total_cmp);
    engines.sort_by(f64::total_cmp);
    println!("plain {:.4} s, engine {:.4} s, ratio {:.4}", plains[3], engines[3], engines[3] / plains[3]);
    rig.stop();
}
