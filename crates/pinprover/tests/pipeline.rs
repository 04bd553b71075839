//! Many proofs at a time, as users meet them: `bench pipeline` and `prove --batch`, on the CPU.

#[path = "cli/support.rs"]
#[allow(dead_code)]
mod support;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{json, Value};

use support::{command, fixture, run, setup, verify, Folder, Proved, Run};

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// What must hold of the figures of a variant, whatever was measured.
fn check_figures(figures: &Value, circuits: usize, most_sets: usize) {
    assert_eq!(figures["circuits"], circuits, "{figures}");
    assert_eq!((&figures["failed_jobs"], &figures["failure"]), (&0.into(), &Value::Null), "{figures}");
    assert_eq!((&figures["prover"], &figures["device"]), (&"cpu".into(), &Value::Null), "{figures}");
    let wall = number(&figures["wall_seconds"]);
    let rate = number(&figures["circuits_per_second"]);
    assert!((rate * wall - circuits as f64).abs() < 1e-6, "{figures}");
    // One proof at a time on the CPU: they cannot take longer than it all did.
    let proofs = number(&figures["prove_seconds_per_circuit"]) * circuits as f64;
    assert!(proofs > 0.0 && proofs <= wall, "{figures}");
    let sets = figures["live_sets_peak"].as_u64().unwrap() as usize;
    assert!((1..=most_sets).contains(&sets), "{figures}");
    assert!(number(&figures["throughput_times_alone"]) > 0.0, "{figures}");
    let resident = &figures["resident"];
    assert!(number(&resident["peak"]) >= number(&resident["before"]), "{figures}");
    if let Some(pool) = figures["pool"].as_object() {
        // Four blocks a circuit, all of them mapped in the warm-up.
        assert_eq!((&pool["hits"], &pool["hit_rate"]), (&(4 * circuits).into(), &1.0.into()), "{figures}");
        for none in ["misses", "maps", "trims", "growths", "fallbacks", "refusals", "waits"] {
            assert_eq!(pool[none], 0, "{none}: {figures}");
        }
        let waste = number(&pool["waste_share"]);
        assert!((0.0..0.15).contains(&waste), "{figures}");
        assert!(number(&resident["budget_used_peak"]) >= number(&figures["live_bytes_peak"]), "{figures}");
    }
}

/// The circuits of which a trace has a span in a lane.
fn circuits_in(trace: &Value, lane: &str) -> BTreeSet<(u64, u64)> {
    let spans = trace["traceEvents"].as_array().unwrap().iter();
    let spans = spans.filter(|event| event["ph"] == "X" && event["cat"] == lane);
    spans
        .map(|event| {
            assert!(number(&event["dur"]) >= 0.0 && number(&event["ts"]) >= 0.0, "{event}");
            (event["args"]["job"].as_u64().unwrap(), event["args"]["circuit"].as_u64().unwrap())
        })
        .collect()
}

#[test]
fn ready_made_circuits_of_mixed_sizes_in_three_kinds_of_memory() {
    let folder = Folder::new();
    let (trace, result) = (folder.path("trace.json"), folder.path("result.json"));
    let mut command = command(["bench", "pipeline", "--backend=cpu", "--sizes=2^12,2^10,3000", "--jobs=4"]);
    command.args(["--circuits=3", "--workers=2", "--ready=1", "--ready-made", "--baselines", "--json"]);
    command.arg("--trace").arg(&trace).arg("--json-file").arg(&result);
    let run = Run::from(command.output().unwrap()).expect(0);
    let object = run.json();
    let file: Value = serde_json::from_slice(&fs::read(&result).unwrap()).unwrap();
    assert_eq!(object, file);
    assert_eq!((&object["command"], &object["ok"]), (&"bench pipeline".into(), &true.into()));
    assert_eq!(object["sizes"], json!([4096, 1024, 3000]));
    assert_eq!((&object["jobs"], &object["circuits_per_job"]), (&4.into(), &3.into()));
    let variants = object["variants"].as_array().unwrap();
    let named: Vec<_> = variants.iter().map(|figures| (&figures["variant"], &figures["memory"])).collect();
    let expected = [("zero-copy", "pages"), ("pageable", "heap"), ("staging", "pages")];
    assert_eq!(
        named,
        expected
            .map(|(variant, memory)| (variant.into(), memory.into()))
            .iter()
            .map(|(v, m): &(Value, Value)| (v, m))
            .collect::<Vec<_>>()
    );
    for figures in variants {
        check_figures(figures, 12, 3);
        let alone: Vec<_> =
            figures["alone"].as_array().unwrap().iter().map(|one| &one["constraints"]).collect();
        assert_eq!(alone, [4096, 1024, 3000], "{figures}");
        assert_eq!(figures["pool"].is_null(), figures["variant"] == "pageable");
    }
    // The trace is of the first kind: all circuits of all jobs, and of nobody else.
    let trace: Value = serde_json::from_slice(&fs::read(&trace).unwrap()).unwrap();
    assert_eq!(trace["otherData"]["spans_not_kept"], 0);
    let all: BTreeSet<_> = (1..=4).flat_map(|job| (0..3).map(move |circuit| (job, circuit))).collect();
    for lane in ["synthesis", "proof", "check"] {
        assert_eq!(circuits_in(&trace, lane), all, "{lane}");
    }
}

#[test]
fn synthesised_circuits_and_the_table() {
    let arguments = ["bench", "pipeline", "--backend=cpu", "--sizes=1000,300", "--jobs=3", "--circuits=2"];
    let object = run(arguments.iter().chain(&["--json", "--workers=2", "--ready=2"])).expect(0).json();
    assert_eq!((&object["ready_made"], &object["synthesis_seconds"]), (&false.into(), &Value::Null));
    assert_eq!(object["variants"].as_array().unwrap().len(), 1);
    check_figures(&object["variants"][0], 6, 4);

    let table = run(arguments.iter().chain(&["--no-pool", "--circuit=squarings"])).expect(0).stdout;
    for part in [
        "squarings, 1000 and 300 constraints; 3 jobs of 2 circuits, each synthesised",
        "pageable",
        "failed jobs",
        "circuits a second",
        "pool maps after warm-up",
        "resident, peak",
    ] {
        assert!(table.contains(part), "{part}: {table}");
    }
    let failed = table.lines().find(|line| line.starts_with("failed jobs")).unwrap();
    assert_eq!(failed.split_whitespace().last(), Some("0"));
}

#[test]
fn an_artificial_synthesis_takes_its_time() {
    let arguments =
        ["bench", "pipeline", "--backend=cpu", "--sizes=100", "--jobs=2", "--circuits=2", "--json"];
    let paced = ["--ready-made", "--synthesis-seconds=0.2", "--workers=1", "--baselines"];
    let object = run(arguments.iter().chain(&paced)).expect(0).json();
    assert_eq!(object["synthesis_seconds"], 0.2);
    for figures in object["variants"].as_array().unwrap() {
        assert!(number(&figures["wall_seconds"]) >= 0.8, "{figures}");
        let synthesis = number(&figures["synthesis_seconds_per_circuit"]);
        // What staging adds is the copy; its synthesis was before.
        assert_eq!(synthesis >= 0.2, figures["variant"] != "staging", "{figures}");
    }
}

/// Field case 34: seven sets would be in use, and there is memory for three of a MiB each.
#[test]
fn the_budget_says_how_many_circuits_are_in_memory() {
    let arguments =
        ["bench", "pipeline", "--backend=cpu", "--sizes=2^13", "--workers=6", "--ready-made", "--json"];
    let tight = ["--jobs=2", "--circuits=5", "--memory=3MiB", "--on-exhausted=fail"];
    let object = run(arguments.iter().chain(&tight)).expect(0).json();
    let figures = &object["variants"][0];
    check_figures(figures, 10, 3);
    assert_eq!(figures["live_bytes_peak"], 3 << 20, "{figures}");
    assert!(number(&figures["waited_memory_seconds"]) > 0.0, "{figures}");
    assert_eq!(figures["resident"]["budget_used_peak"], 3 << 20, "{figures}");
    // Not even one.
    let none = ["--memory=1MiB", "--on-exhausted=fail", "--sizes=2^15"];
    let none = run(["bench", "pipeline", "--backend=cpu"].iter().chain(&none));
    none.expect_error(5, &["1048576", "--memory-budget"]);
}

#[test]
fn a_pipeline_that_cannot_be_is_refused() {
    let refused = |more: &[&str], code: i32, part: &str| {
        let run = run(["bench", "pipeline", "--sizes=100"].iter().chain(more));
        assert_eq!((run.code, run.stdout.as_str()), (code, ""), "{run:?}");
        assert!(run.stderr.contains(part), "{part}: {run:?}");
    };
    refused(&["--synthesis-seconds=1"], 2, "--ready-made");
    for seconds in ["-1", "NaN", "inf", "1e9", "x"] {
        let option = format!("--synthesis-seconds={seconds}");
        refused(&["--ready-made", &option], 2, "--synthesis-seconds");
    }
    refused(&["--baselines", "--no-pool"], 2, "--no-pool");
    refused(&["--jobs=0"], 2, "--jobs");
    refused(&["--sizes=2"], 2, "--sizes");
    refused(&["--trace=/no/such/folder/t"], 1, "/no/such/folder");
    let mut command = command(["bench", "pipeline", "--backend=gpu", "--baselines"]);
    Run::from(command.env("CUDA_VISIBLE_DEVICES", "").output().unwrap()).expect_error(4, &["no"]);
}

/// Waits for a line of the log that has `part`; the rest of it is read by a thread, so that the process never waits for us.
fn wait_for(child: &mut Child, part: &str) -> std::thread::JoinHandle<String> {
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains(part)), "{part}");
    std::thread::spawn(move || lines.collect::<Vec<_>>().join("\n"))
}

fn signal(child: &Child, signal: libc::c_int) {
    // SAFETY: the process is our own child, and not yet waited for, so its id is not another's.
    assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, signal) }, 0);
}

fn paced(seconds: u32, folder: &Folder) -> Child {
    let mut command = command(["--json", "bench", "pipeline", "--backend=cpu", "--sizes=100", "--workers=2"]);
    command.args(["--ready-made", &format!("--synthesis-seconds={seconds}"), "--circuits=50"]);
    command.arg("--trace").arg(folder.path("trace.json")).env("RUST_LOG", "info");
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// 100 circuits of a second by two workers take 50 seconds.
#[test]
fn the_first_interruption_ends_the_jobs() {
    let folder = Folder::new();
    let mut child = paced(1, &folder);
    let log = wait_for(&mut child, "zero-copy: 100 circuits");
    let start = Instant::now();
    signal(&child, libc::SIGINT);
    let Output { status, stdout, .. } = child.wait_with_output().unwrap();
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    let log = log.join().unwrap();
    assert_eq!(status.code(), Some(130), "{log}");
    assert!(log.contains("error: interrupted: zero-copy, "), "{log}");
    let object: Value = serde_json::from_slice(&stdout).unwrap();
    assert_eq!((&object["ok"], &object["error"]["kind"]), (&false.into(), &"interrupted".into()));
    assert_eq!(folder.names(), [""; 0]);
}

/// A stage of ten minutes: the first signal is told after seconds, the second ends the process at once.
#[test]
fn a_stage_that_goes_on_does_not_hold_the_process() {
    let folder = Folder::new();
    for signals in [1, 2] {
        let mut child = paced(600, &folder);
        let log = wait_for(&mut child, "zero-copy: 100 circuits");
        let start = Instant::now();
        for _ in 0..signals {
            signal(&child, libc::SIGINT);
            std::thread::sleep(Duration::from_millis(300));
        }
        let status = child.wait_with_output().unwrap().status;
        let (took, log) = (start.elapsed(), log.join().unwrap());
        assert_eq!(status.code(), Some(130), "{log}");
        assert!(took < Duration::from_secs(30), "{took:?}");
        assert_eq!(log.contains("error: interrupted"), signals == 1, "{log}");
        if signals == 2 {
            assert!(took < Duration::from_secs(4), "the second signal waits for nothing: {took:?}");
        }
        assert_eq!(folder.names(), [""; 0]);
    }
}

/// Keys of fixtures, and a file of lines beside them.
struct Batch {
    folder: Folder,
    lines: Vec<String>,
}

impl Batch {
    fn new(circuits: &[&str]) -> Self {
        let folder = Folder::new();
        for name in circuits {
            for kind in ["r1cs", "wtns"] {
                let file = format!("{name}.{kind}");
                fs::copy(fixture(&file), folder.path(&file)).unwrap();
            }
            let path = |kind: &str| folder.path(&format!("{name}.{kind}"));
            setup(&path("r1cs"), &path("params"), &path("vk")).expect(0);
        }
        Self { folder, lines: Vec::new() }
    }

    /// A line; paths are relative to the file.
    fn add(&mut self, r1cs: &str, wtns: &str, params: &str, out: &str) {
        let entry = json!({
            "r1cs": format!("{r1cs}.r1cs"),
            "wtns": format!("{wtns}.wtns"),
            "params": format!("{params}.params"),
            "proof": format!("{out}.proof"),
            "public": format!("{out}.json"),
        });
        self.lines.push(entry.to_string());
    }

    fn arguments(&self, more: &[&str]) -> Vec<String> {
        let file = self.folder.file("batch.jsonl", self.lines.join("\n"));
        let file = format!("--batch={}", file.display());
        ["prove", "--backend=cpu", &file].iter().chain(more).map(|text| (*text).to_owned()).collect()
    }

    fn run(&self, more: &[&str]) -> Run {
        run(self.arguments(more))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path(name)
    }

    fn verify(&self, circuit: &str, out: &str) {
        let path = |name: &str, kind: &str| self.folder.path(&format!("{name}.{kind}"));
        verify(&path(circuit, "vk"), &path(out, "proof"), &path(out, "json")).expect(0);
    }
}

#[test]
fn a_batch_of_several_circuits_where_some_lines_fail() {
    let mut batch = Batch::new(&["multiplier", "bits", "rounds"]);
    batch.add("multiplier", "multiplier", "multiplier", "1");
    batch.add("bits", "bits", "bits", "2");
    batch.lines.push("{\"r1cs\": \"multiplier.r1cs\", \"proof\": 5}".to_owned());
    batch.lines.push(String::new());
    // The witness of another circuit, the key of another one, a file that is not there.
    batch.add("multiplier", "rounds", "multiplier", "5");
    batch.add("rounds", "rounds", "multiplier", "6");
    batch.add("multiplier", "nothing", "multiplier", "7");
    // What line 1 writes, what line 2 reads.
    batch.add("multiplier", "multiplier", "multiplier", "1");
    batch.lines.push(batch.lines[0].replace("1.json", "bits.wtns").replace("1.proof", "9.proof"));
    batch.lines.push(batch.lines[0].replace("1.json", "no/10.json").replace("1.proof", "10.proof"));
    batch.add("rounds", "rounds", "rounds", "11");
    batch.add("multiplier", "multiplier", "multiplier", "12");
    let kept: Vec<_> =
        ["bits.wtns", "multiplier.params"].map(|name| fs::read(batch.path(name)).unwrap()).into();

    let run = batch.run(&["--json"]).expect(1);
    let object = run.json();
    assert_eq!((&object["command"], &object["ok"]), (&"prove --batch".into(), &false.into()));
    let counts = ["lines", "proved", "kept", "failed"].map(|name| object[name].as_u64().unwrap());
    assert_eq!(counts, [11, 4, 0, 7], "{object}");
    let reasons = [
        (3, "not an entry"),
        (5, "rounds.wtns"),
        (6, "multiplier.params"),
        (7, "nothing.wtns"),
        (8, "is the output of line 1"),
        (9, "is the input of line 2: wtns"),
        (10, "no"),
    ];
    for line in object["results"].as_array().unwrap() {
        let at = line["line"].as_u64().unwrap();
        match reasons.iter().find(|(bad, _)| *bad == at) {
            None => {
                assert_eq!(line["status"], "proved", "{line}");
                assert!(number(&line["seconds"]) > 0.0);
            }
            Some((_, reason)) => {
                assert_eq!(line["status"], "failed", "{line}");
                assert!(line["message"].as_str().unwrap().contains(reason), "{reason}: {line}");
                // Told at once, too.
                assert!(run.stderr.contains(&format!("warning: line {at}: ")), "{run:?}");
            }
        }
    }
    for (circuit, out) in [("multiplier", "1"), ("bits", "2"), ("rounds", "11"), ("multiplier", "12")] {
        batch.verify(circuit, out);
    }
    let names = batch.folder.names();
    for out in ["5", "6", "7", "9", "10"] {
        assert!(!names.iter().any(|name| name.starts_with(&format!("{out}."))), "{names:?}");
    }
    assert!(!names.iter().any(|name| name.starts_with('.')), "{names:?}");
    let after: Vec<_> =
        ["bits.wtns", "multiplier.params"].map(|name| fs::read(batch.path(name)).unwrap()).into();
    assert!(kept == after);
    // Two proofs of one witness are not the same.
    assert_ne!(fs::read(batch.path("1.proof")).unwrap(), fs::read(batch.path("12.proof")).unwrap());

    // The same as text; a good file ends with 0, and so does an empty one.
    let text = batch.run(&[]).expect(1).stdout;
    assert!(text.starts_with("11 lines: 4 proved, 0 kept, 7 failed; "), "{text}");
    assert!(text.contains("\nline 7: failed: "), "{text}");
    batch.lines.truncate(2);
    let quiet = batch.run(&[]).expect(0);
    assert!(quiet.stderr.is_empty() && quiet.stdout.starts_with("2 lines: 2 proved"), "{quiet:?}");
    batch.lines.clear();
    batch.run(&[]).expect(0);
}

#[test]
fn a_batch_with_the_key_of_a_similar_circuit_fails_as_a_proof_does() {
    let mut batch = Batch::new(&["multiplier"]);
    // One coefficient of B is 2 where it was 1: the same counts.
    let mut bytes = fs::read(fixture("multiplier.r1cs")).unwrap();
    let one: Vec<u8> = std::iter::once(1).chain([0; 31]).collect();
    let at = bytes.windows(32).position(|window| window == one).unwrap();
    bytes[at] = 2;
    let similar = batch.folder.file("similar.r1cs", bytes);
    setup(&similar, &batch.path("similar.params"), &batch.path("similar.vk")).expect(0);
    batch.add("multiplier", "multiplier", "similar", "1");
    batch.add("similar", "multiplier", "similar", "2");
    batch.add("multiplier", "multiplier", "multiplier", "3");
    let object = batch.run(&["--json"]).expect(6).json();
    let status: Vec<_> = object["results"].as_array().unwrap().iter().map(|line| &line["status"]).collect();
    assert_eq!(status, ["failed", "failed", "proved"], "{object}");
    let codes = [0, 1].map(|at| object["results"][at]["exit_code"].as_u64().unwrap());
    assert_eq!(codes, [6, 1], "{object}");
    assert!(!batch.path("1.proof").exists() && !batch.path("2.proof").exists());
    batch.verify("multiplier", "3");
}

#[test]
fn the_options_of_one_proof_are_not_those_of_many() {
    let made = Proved::multiplier();
    let batch = format!("--batch={}", made.r1cs().display());
    for more in ["--seed=1", "--r1cs=a", "--proof=a"] {
        let run = run(["prove", &batch, more]);
        assert_eq!(run.code, 2, "{run:?}");
    }
    assert_eq!(run(["prove", "--resume"]).code, 2);
    run(["prove", "--batch=/no/such/file"]).expect_error(1, &["/no/such/file"]);
}

/// So many lines that they take seconds.
fn many() -> (Batch, usize) {
    const LINES: usize = 300;
    let mut batch = Batch::new(&["rounds"]);
    for line in 1..=LINES {
        batch.add("rounds", "rounds", "rounds", &format!("out{line}"));
    }
    (batch, LINES)
}

/// The proofs that are there, each whole.
fn proofs(folder: &Path) -> BTreeSet<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names: BTreeSet<_> =
        names.filter(|name| name.starts_with("out") && name.ends_with(".proof")).collect();
    for name in &names {
        assert_eq!(fs::metadata(folder.join(name)).unwrap().len(), 192, "{name} is half-written");
    }
    names
}

fn until_some_are_proved(batch: &Batch, child: &mut Child) {
    let until = Instant::now() + Duration::from_secs(120);
    while proofs(batch.folder.root()).len() < 10 {
        assert!(Instant::now() < until && child.try_wait().unwrap().is_none(), "no proofs in two minutes");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Field case 35.
#[test]
fn proofs_that_were_finished_before_a_kill_are_kept() {
    let (batch, lines) = many();
    let mut command = command(batch.arguments(&[]));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until_some_are_proved(&batch, &mut child);
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().code(), None, "killed before its end");
    let finished = proofs(batch.folder.root());
    assert!(finished.len() >= 10 && finished.len() < lines, "{}", finished.len());
    let out = |proof: &str| proof.strip_suffix(".proof").unwrap().to_owned();
    // The last one may have been killed between its two files.
    let whole: Vec<_> =
        finished.iter().filter(|proof| batch.path(&format!("{}.json", out(proof))).exists()).collect();
    assert!(whole.len() + 1 >= finished.len());
    let content = |name: &str| fs::read(batch.path(name)).unwrap();
    let before: Vec<_> = whole.iter().map(|proof| content(proof)).collect();
    // One that is there and does not verify is made anew.
    let damaged = &whole[3];
    let mut other = content(whole[4]);
    other.rotate_left(1);
    fs::write(batch.path(damaged), &other).unwrap();

    let object = batch.run(&["--resume", "--json"]).expect(0).json();
    assert_eq!(object["kept"], whole.len() - 1, "{object}");
    assert_eq!(object["proved"], lines - (whole.len() - 1));
    assert_eq!(proofs(batch.folder.root()).len(), lines);
    for (at, proof) in whole.iter().enumerate() {
        let same = content(proof) == before[at];
        assert_eq!(same, at != 3, "{proof}");
    }
    for name in [out(whole[0]), out(damaged), "out1".to_owned(), format!("out{lines}")] {
        batch.verify("rounds", &name);
    }
    // Nothing is left to do; without --resume all is done again.
    let object = batch.run(&["--resume", "--json"]).expect(0).json();
    assert_eq!((&object["kept"], &object["proved"]), (&lines.into(), &0.into()));
}

/// What verifies may still be the proof of something else.
#[test]
fn a_proof_of_another_witness_is_not_kept() {
    let mut batch = Batch::new(&["multiplier"]);
    batch.add("multiplier", "multiplier", "multiplier", "out");
    batch.run(&[]).expect(0);
    assert_eq!(batch.run(&["--resume", "--json"]).expect(0).json()["kept"], 1);
    let before = fs::read(batch.path("out.json")).unwrap();
    // 3 x 5 = 15: the file ends with 1, the product and the factors, 32 bytes each.
    let mut witness = fs::read(batch.path("multiplier.wtns")).unwrap();
    let values = witness.len() - 4 * 32;
    for (at, value) in [(1, 15), (2, 3), (3, 5)] {
        let place = values + 32 * at;
        witness[place..place + 32].fill(0);
        witness[place] = value;
    }
    fs::write(batch.path("multiplier.wtns"), witness).unwrap();
    let object = batch.run(&["--resume", "--json"]).expect(0).json();
    assert_eq!((&object["kept"], &object["proved"]), (&0.into(), &1.into()));
    batch.verify("multiplier", "out");
    assert_ne!(fs::read(batch.path("out.json")).unwrap(), before);
}

#[test]
fn a_link_to_nothing_is_no_output() {
    let mut batch = Batch::new(&["multiplier"]);
    batch.add("multiplier", "multiplier", "multiplier", "link");
    batch.add("multiplier", "multiplier", "multiplier", "out");
    std::os::unix::fs::symlink(batch.path("out.proof"), batch.path("link.proof")).unwrap();
    let run = batch.run(&["--json"]).expect(2);
    assert!(run.stderr.contains("line 1: ") && run.stderr.contains("link"), "{run:?}");
    batch.verify("multiplier", "out");
}

#[test]
fn an_interrupted_batch_keeps_what_it_has_and_says_how_to_go_on() {
    let (batch, lines) = many();
    let mut command = command(batch.arguments(&["--json"]));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until_some_are_proved(&batch, &mut child);
    signal(&child, libc::SIGINT);
    let output = child.wait_with_output().unwrap();
    let run = Run::from(output).expect(130);
    assert!(run.stderr.contains("error: interrupted: ") && run.stderr.contains("--resume"), "{run:?}");
    assert_eq!(run.json()["error"]["exit_code"], 130);
    let names = batch.folder.names();
    assert!(!names.iter().any(|name| name.starts_with('.')), "{names:?}");
    let finished = proofs(batch.folder.root()).len();
    assert!(run.stderr.contains(&format!("{finished} of {lines} lines are done")), "{finished}: {run:?}");
    let object = batch.run(&["--resume", "--json"]).expect(0).json();
    assert_eq!((&object["kept"], &object["proved"]), (&finished.into(), &(lines - finished).into()));
}
