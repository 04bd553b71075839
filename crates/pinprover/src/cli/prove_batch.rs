//! `prove --batch`: many proofs of circom circuits, as a file lists them.
//!
//! Every line is a job of its own, so that one that fails leaves the others alone. Lines of one circuit and key stand together,
//! so that each key is read once. A proof is written as soon as it is there: whatever happens then, it is there to be kept.

use std::collections::HashMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use bellperson::groth16::{
    self, prepare_verifying_key, verify_proof, Parameters, PreparedVerifyingKey, VerifyingKey,
};
use blstrs::{Bls12, Scalar};
use prover_core::engine::{EngineConfig, JobError, JobHandle, JobRequest};
use prover_core::Proven;
use serde::{Deserialize, Serialize};

use super::{Context, Outcome};
use crate::circom::{json, CircomCircuit, R1cs, Witness};
use crate::circuits::Shape;
use crate::error::Error;
use crate::keys::{read_params, read_proof, write_proof};
use crate::output::Outputs;
use crate::proving::Session;
use crate::running::{job_error, submit_error, Interrupted, Running, POLL};
use crate::signals::Interruption;
use crate::ui::{self, Progress};

/// A file of lines to prove.
pub(super) struct Batch<'a> {
    pub(super) file: &'a Path,
    /// Keep the proofs that are there.
    pub(super) resume: bool,
    pub(super) trust_params: bool,
}

/// A line of the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    r1cs: PathBuf,
    wtns: PathBuf,
    params: PathBuf,
    proof: PathBuf,
    public: PathBuf,
}

impl Entry {
    fn in_folder(self, folder: &Path) -> Self {
        let Self { r1cs, wtns, params, proof, public } = self;
        let [r1cs, wtns, params, proof, public] =
            [r1cs, wtns, params, proof, public].map(|path| folder.join(path));
        Self { r1cs, wtns, params, proof, public }
    }

    fn inputs(&self) -> [(&'static str, &Path); 3] {
        [("r1cs", &self.r1cs), ("wtns", &self.wtns), ("params", &self.params)]
    }

    fn outputs(&self) -> [(&'static str, &Path); 2] {
        [("proof", &self.proof), ("public", &self.public)]
    }
}

/// A line on its way.
struct Line {
    /// In the file, from 1.
    number: usize,
    /// `None` if it is no entry.
    entry: Option<Entry>,
    state: State,
}

enum State {
    Waiting,
    Done(Status),
}

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
enum Status {
    Proved {
        /// From the circuit to the checked proof.
        seconds: f64,
    },
    /// It was there.
    Kept,
    Failed(Failure),
}

#[derive(Clone, Debug, Serialize)]
struct Failure {
    kind: &'static str,
    exit_code: u8,
    message: String,
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        Self { kind: error.kind(), exit_code: error.exit_code(), message: error.to_string() }
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct BatchResult {
    command: &'static str,
    ok: bool,
    #[serde(serialize_with = "crate::ui::path")]
    file: PathBuf,
    lines: usize,
    proved: usize,
    kept: usize,
    failed: usize,
    seconds: f64,
    results: Vec<LineResult>,
}

#[derive(Serialize)]
struct LineResult {
    line: usize,
    proof: Option<String>,
    #[serde(flatten)]
    status: Status,
}

/// A line that is being proved.
struct Open {
    line: usize,
    job: JobHandle,
    outputs: Outputs,
    public: Vec<Scalar>,
}

impl Batch<'_> {
    pub(super) fn run(&self, context: &Context<'_>) -> Result<Outcome, Error> {
        let start = Instant::now();
        let mut lines = self.read(context)?;
        self.refuse_collisions(&mut lines, context)?;
        if self.resume {
            keep(&mut lines);
        }
        if lines.iter().any(|line| matches!(line.state, State::Waiting)) {
            self.prove(&mut lines, context)?;
        }
        let result = BatchResult::new(self.file, lines, start.elapsed().as_secs_f64());
        let failure = result.results.iter().find_map(|line| match &line.status {
            Status::Failed(failure) => Some(failure.exit_code),
            _ => None,
        });
        context.ui.result(&result, || result.text())?;
        Ok(failure.map_or(Outcome::Done, Outcome::Failed))
    }

    /// The lines; blank ones are left out. One that is no entry has failed.
    fn read(&self, context: &Context<'_>) -> Result<Vec<Line>, Error> {
        let content = std::fs::read(self.file).map_err(Error::io("read", self.file))?;
        let folder = match self.file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let lines = content.split(|byte| *byte == b'\n').enumerate();
        let lines = lines.filter(|(_, text)| !text.trim_ascii().is_empty());
        let line = |(at, text): (usize, &[u8])| {
            let mut line = Line { number: at + 1, entry: None, state: State::Waiting };
            match serde_json::from_slice::<Entry>(text) {
                Ok(entry) => line.entry = Some(entry.in_folder(folder)),
                Err(cause) => line.fail(&Error::Input(format!("not an entry: {cause}")), context),
            }
            line
        };
        Ok(lines.map(line).collect())
    }

    /// Fails the lines whose outputs are files that another line reads or writes.
    fn refuse_collisions(&self, lines: &mut [Line], context: &Context<'_>) -> Result<(), Error> {
        let mut inputs: HashMap<PathBuf, String> = HashMap::from([(identity(self.file), "--batch".into())]);
        for line in lines.iter() {
            for (name, path) in line.entry.iter().flat_map(Entry::inputs) {
                inputs.entry(identity(path)).or_insert_with(|| format!("line {}: {name}", line.number));
            }
        }
        let mut outputs: HashMap<PathBuf, usize> = HashMap::new();
        for line in lines {
            let Some(entry) = &line.entry else { continue };
            let mut refused = None;
            for (name, path) in entry.outputs() {
                let target = identity(path);
                let refuse = |what: String| Error::Usage(format!("{name} {}: {what}", path.display()));
                if let Some(input) = inputs.get(&target) {
                    refused.get_or_insert(refuse(format!("is the input of {input}")));
                } else if let Some(other) = outputs.get(&target) {
                    refused.get_or_insert(refuse(format!("is the output of line {other}")));
                } else {
                    outputs.insert(target, line.number);
                }
            }
            if refused.is_none() {
                // Folders that are not there show now, and not after hours.
                refused = self.plan(entry, context).err();
            }
            if let Some(error) = refused {
                line.fail(&error, context);
            }
        }
        Ok(())
    }

    fn plan(&self, entry: &Entry, context: &Context<'_>) -> Result<Outputs, Error> {
        let inputs: Vec<_> = entry.inputs().into_iter().chain([("--batch", self.file)]).collect();
        context.plan(&inputs, &entry.outputs())
    }

    fn prove(&self, lines: &mut [Line], context: &Context<'_>) -> Result<(), Error> {
        let session = Session::open_checked(&context.options.memory())?;
        let interruption = Interruption::watch();
        let config = EngineConfig::default();
        let slots: usize = session.guard().devices().iter().map(|device| device.slots).sum();
        // Each holds a witness beside what the engine holds.
        let most = config.synthesis_workers + slots.max(1) + 1;
        let running = Running::start(&session, config, &interruption)?;
        let groups = groups(lines);
        let steps: usize = groups.iter().map(|group| 1 + group.len()).sum();
        let progress = context.ui.progress(steps as u64);
        let mut work = Work { batch: self, lines, context, running: &running, open: Vec::new(), most };
        let done = groups.into_iter().try_for_each(|group| work.group(&group, &interruption, &progress));
        let done = done.and_then(|()| work.settle_all());
        if let Err(Interrupted) = done {
            work.settle_over();
            drop(work);
            let done = lines.iter().filter(|line| matches!(line.state, State::Done(_))).count();
            let what =
                format!("{done} of {} lines are done; with --resume what was proved is kept", lines.len());
            drop(progress);
            return Err(running.stop(what, context.ui));
        }
        Ok(())
    }
}

impl Line {
    /// Says at once what failed: it may be hours until the end.
    fn fail(&mut self, error: &Error, context: &Context<'_>) {
        context.ui.warn(&format!("line {}: {error}", self.number));
        self.state = State::Done(Status::Failed(Failure::from(error)));
    }
}

/// The lines that wait, by circuit and key, in the order in which these come first.
fn groups(lines: &[Line]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut known: HashMap<(PathBuf, PathBuf), usize> = HashMap::new();
    for (at, line) in lines.iter().enumerate() {
        let (Some(entry), State::Waiting) = (&line.entry, &line.state) else { continue };
        let group = *known.entry((identity(&entry.r1cs), identity(&entry.params))).or_insert(groups.len());
        if group == groups.len() {
            groups.push(Vec::new());
        }
        groups[group].push(at);
    }
    groups
}

/// The one name of a file, as far as there is one, whether it is there or not.
fn identity(path: &Path) -> PathBuf {
    if let Ok(path) = path.canonicalize() {
        return path;
    }
    match (path.parent().and_then(|folder| folder.canonicalize().ok()), path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

/// Marks the lines whose proof is there, and verifies with the public inputs beside it, which are those of the line's witness.
fn keep(lines: &mut [Line]) {
    // With the number of public inputs.
    let mut keys: HashMap<PathBuf, Option<(PreparedVerifyingKey<Bls12>, usize)>> = HashMap::new();
    for line in lines {
        let (Some(entry), State::Waiting) = (&line.entry, &line.state) else { continue };
        if !entry.proof.exists() || !entry.public.exists() {
            continue;
        }
        // The key begins with what is needed; the rest may be huge.
        let read = || {
            let file = BufReader::new(File::open(&entry.params).ok()?);
            let vk = VerifyingKey::<Bls12>::read(file).ok()?;
            Some((prepare_verifying_key(&vk), vk.ic.len().checked_sub(1)?))
        };
        let Some((key, inputs)) = keys.entry(identity(&entry.params)).or_insert_with(read) else { continue };
        let valid = || {
            let proof = read_proof(&entry.proof).ok()?;
            let public = json::read_public(&entry.public, *inputs).ok()?;
            let witness = Witness::read(&entry.wtns).ok()?;
            let same = witness.values().get(1..=*inputs) == Some(&public[..]);
            Some(same && verify_proof(key, &proof, &public).ok()?)
        };
        if valid() == Some(true) {
            line.state = State::Done(Status::Kept);
        } else {
            tracing::warn!(
                line = line.number,
                "the proof that is there is not this line's, or does not verify: it is made anew"
            );
        }
    }
}

/// Lines being proved.
struct Work<'a, 'r> {
    batch: &'a Batch<'a>,
    lines: &'a mut [Line],
    context: &'a Context<'a>,
    running: &'a Running<'r>,
    open: Vec<Open>,
    most: usize,
}

impl Work<'_, '_> {
    /// Lines of one circuit and key.
    fn group(
        &mut self,
        group: &[usize],
        interruption: &Interruption,
        progress: &Progress,
    ) -> Result<(), Interrupted> {
        let Some(first) = group.first().and_then(|first| self.lines[*first].entry.clone()) else {
            return Ok(());
        };
        let what = format!("read {} and {}", first.r1cs.display(), first.params.display());
        let checked = !self.batch.trust_params;
        // A key may take minutes to read: proofs that are over meanwhile are written, and an interruption ends all at once.
        let read = || {
            interruption.paused(|| {
                std::thread::scope(|scope| {
                    let reading = scope.spawn(|| read_group(&first, checked));
                    while !reading.is_finished() {
                        self.settle_over();
                        std::thread::sleep(POLL);
                    }
                    reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
            })
        };
        match progress.step(&what, read).0 {
            Ok((circuit, params)) => {
                for &at in group {
                    let what = format!("line {}", self.lines[at].number);
                    progress.step(&what, || self.line(at, &circuit, &params)).0?;
                }
            }
            Err(error) => {
                for &at in group {
                    self.lines[at].fail(&error, self.context);
                }
            }
        }
        Ok(())
    }

    /// Submits one line, as soon as there is room, and writes what is over by then.
    fn line(
        &mut self,
        at: usize,
        circuit: &CircomCircuit,
        params: &Arc<Parameters<Bls12>>,
    ) -> Result<(), Interrupted> {
        loop {
            self.settle_over();
            if self.running.interrupted() {
                return Err(Interrupted);
            }
            if self.open.len() < self.most {
                break;
            }
            // Whichever is over first makes room.
            std::thread::sleep(POLL);
        }
        match self.submit(at, circuit, params) {
            Ok(open) => self.open.push(open),
            Err(error) => self.lines[at].fail(&error, self.context),
        }
        self.tell();
        Ok(())
    }

    fn submit(
        &self,
        at: usize,
        circuit: &CircomCircuit,
        params: &Arc<Parameters<Bls12>>,
    ) -> Result<Open, Error> {
        let line = &self.lines[at];
        let entry = line.entry.as_ref().expect("a line that waits has an entry");
        let outputs = self.batch.plan(entry, self.context)?;
        let refuse = |cause| Error::circuit(&entry.wtns, cause);
        let circuit = circuit.with_witness(Witness::read(&entry.wtns)?).map_err(refuse)?;
        circuit.check_satisfied().map_err(refuse)?;
        let public = circuit.public_inputs().expect("the circuit has a witness").to_vec();
        let shape = Shape::from(circuit.shape());
        let shape = groth16::Shape { constraints: shape.rows(), inputs: shape.inputs, aux: shape.aux };
        let request = JobRequest::new(params.clone(), [circuit]).expecting(shape);
        let request = request.label(format!("line {}", line.number));
        let job = self.running.engine().submit(request).map_err(submit_error)?;
        Ok(Open { line: at, job, outputs, public })
    }

    fn tell(&self) {
        let done = self.lines.iter().filter(|line| matches!(line.state, State::Done(_))).count();
        let all = self.lines.len();
        ui::detail(|| Some(format!("{done} lines done {}", ui::part(done as u64, all as u64))));
    }

    /// Writes what is over.
    fn settle_over(&mut self) {
        let (over, open) = std::mem::take(&mut self.open).into_iter().partition(|open| open.job.is_over());
        self.open = open;
        for open in over {
            // It does not wait.
            let _ = self.settle(open);
        }
    }

    /// Writes all, each as soon as it is over.
    fn settle_all(&mut self) -> Result<(), Interrupted> {
        loop {
            self.settle_over();
            self.tell();
            if self.open.is_empty() {
                return Ok(());
            }
            if self.running.interrupted() {
                return Err(Interrupted);
            }
            std::thread::sleep(POLL);
        }
    }

    /// Waits for a line and writes its proof.
    fn settle(&mut self, open: Open) -> Result<(), Interrupted> {
        let Open { line, job, outputs, public } = open;
        let result = self.running.wait(job, || {})?;
        match write(result, outputs, &public) {
            Ok(seconds) => self.lines[line].state = State::Done(Status::Proved { seconds }),
            Err(error) => self.lines[line].fail(&error, self.context),
        }
        Ok(())
    }
}

fn read_group(entry: &Entry, checked: bool) -> Result<(CircomCircuit, Arc<Parameters<Bls12>>), Error> {
    let circuit =
        CircomCircuit::new(R1cs::read(&entry.r1cs)?).map_err(|cause| Error::circuit(&entry.r1cs, cause))?;
    let params = read_params(&entry.params, checked)?;
    circuit.shape().check_params(&params).map_err(|cause| Error::circuit(&entry.params, cause))?;
    Ok((circuit, Arc::new(params)))
}

/// Writes a line's proof. Returns the seconds that the proof took.
fn write(
    result: Result<Vec<Proven>, JobError>,
    mut outputs: Outputs,
    public: &[Scalar],
) -> Result<f64, Error> {
    let proven = result.map_err(|error| job_error(error, super::prove::SELF_CHECK))?;
    let [Proven { proof, report, .. }] = proven.as_slice() else {
        return Err(Error::Input("the prover gave another number of proofs than one".into()));
    };
    outputs.write("proof", |file| write_proof(proof, file))?;
    outputs.write("public", |file| json::write_public(public, file))?;
    outputs.commit()?;
    Ok(report.phases.total().as_secs_f64())
}

impl BatchResult {
    fn new(file: &Path, lines: Vec<Line>, seconds: f64) -> Self {
        let results: Vec<_> = lines
            .into_iter()
            .filter_map(|Line { number, entry, state }| match state {
                State::Done(status) => {
                    let proof = entry.map(|entry| entry.proof.to_string_lossy().into_owned());
                    Some(LineResult { line: number, proof, status })
                }
                State::Waiting => None,
            })
            .collect();
        let count = |of: fn(&Status) -> bool| results.iter().filter(|line| of(&line.status)).count();
        let failed = count(|status| matches!(status, Status::Failed(_)));
        Self {
            command: "prove --batch",
            ok: failed == 0,
            file: file.to_owned(),
            lines: results.len(),
            proved: count(|status| matches!(status, Status::Proved { .. })),
            kept: count(|status| matches!(status, Status::Kept)),
            failed,
            seconds,
            results,
        }
    }

    fn text(&self) -> String {
        let Self { lines, proved, kept, failed, seconds, .. } = self;
        let mut text = format!(
            "{lines} lines: {proved} proved, {kept} kept, {failed} failed; {seconds:.3} s, {:.2} proofs a second",
            *proved as f64 / seconds
        );
        for line in &self.results {
            if let Status::Failed(Failure { message, .. }) = &line.status {
                text += &format!("\nline {}: failed: {message}", line.line);
            }
        }
        text
    }
}
