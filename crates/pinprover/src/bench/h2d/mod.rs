//! How fast vectors get from host memory to a device, by where they live, with the host idle and busy.
//!
//! | module | subject |
//! |---|---|
//! | `host` | random bytes, and threads that copy memory as synthesis does |
//! | `paths` | the four ways, and what memory for them costs |
//! | `shipped` | vectors as bellperson synthesises them into the pool |
//! | `report` | the figures, and the table of them |
//! | `plot` | the figures as SVG |
//!
//! Rates are medians by the device's own clock (CUDA events), after a round that does not count, of random bytes.
//! GB are 10^9 bytes, GiB 2^30.

mod host;
mod paths;
mod plot;
mod report;
mod shipped;

use std::fmt::Display;
use std::sync::Arc;

use prover_core::cuda::{Context, CudaError, Driver, Event, Stream};
use prover_core::memory::limits::Limits;
use prover_core::memory::MemoryBudget;

use super::median::median;
use crate::circuits::BuiltIn;
use crate::error::Error;
use crate::ui::Progress;

pub use plot::svg;
pub use report::{CheckOut, DeviceObject, Rate, Report, Shipped};

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The number of the device.
    pub device: usize,
    /// Sizes of a vector, in bytes.
    pub sizes: Vec<u64>,
    /// Vectors in a set that is checked out.
    pub vectors: usize,
    /// Numbers of threads that copy memory meanwhile.
    pub copying: Vec<usize>,
    /// Rounds that count.
    pub rounds: usize,
    /// The circuit to synthesise.
    pub circuit: BuiltIn,
    /// The most host memory for all of it, in bytes. `None`: what the machine allows.
    pub memory: Option<u64>,
}

impl Plan {
    /// Steps of a progress bar.
    pub fn steps(&self) -> u64 {
        let paths = self.sizes.len() * (1 + self.copying.len());
        (paths + 1 + self.copying.len()) as u64
    }

    /// Measures. One step of `progress` for each number of threads and size, and for each memory that is made.
    ///
    /// # Errors
    /// [`Error::NoDevice`] without a device, [`Error::Memory`] if there is too little, and what the driver says.
    pub fn run(&self, progress: &Progress) -> Result<Report, Error> {
        let context = Context::retain(self.device).map_err(failed)?;
        let (major, minor) = Driver::get().and_then(Driver::version).map_err(failed)?;
        let total = self.memory.unwrap_or_else(|| Limits::detect().total());
        let mut report = Report::new(context.device(), (major, minor), self.rounds);
        for &bytes in &self.sizes {
            let budget = MemoryBudget::new(total);
            paths::measure(self, bytes, &context, &budget, progress, &mut report)?;
        }
        shipped::measure(self, total, &context, progress, &mut report)?;
        report.finish();
        Ok(report)
    }
}

fn failed(error: CudaError) -> Error {
    if error.is_absence() {
        Error::NoDevice(error.to_string())
    } else {
        Error::Input(error.to_string())
    }
}

fn refused(error: impl Display) -> Error {
    Error::Memory(error.to_string())
}

/// Queues work on a stream and says how long the device saw it take.
struct Clock {
    stream: Stream,
    start: Event,
    end: Event,
}

impl Clock {
    fn new(context: &Arc<Context>) -> Result<Self, Error> {
        Ok(Self {
            stream: Stream::new(context).map_err(failed)?,
            start: Event::timed(context).map_err(failed)?,
            end: Event::timed(context).map_err(failed)?,
        })
    }

    /// The median seconds of `rounds` rounds of `work`, after one that does not count. `work` queues copies on the
    /// stream; all of them have ended when it is called again, and when this returns, be it with an error.
    fn median(
        &self,
        rounds: usize,
        mut work: impl FnMut(&Stream) -> Result<(), CudaError>,
    ) -> Result<f64, Error> {
        let mut times = Vec::with_capacity(rounds);
        for round in 0..=rounds {
            let queued = self
                .start
                .record(&self.stream)
                .and_then(|()| work(&self.stream))
                .and_then(|()| self.end.record(&self.stream));
            // Whatever was queued is over before anybody may touch the memory again.
            let over = self.stream.synchronize();
            let time = queued.and(over).and_then(|()| self.end.since(&self.start)).map_err(failed)?;
            if round > 0 {
                times.push(time.as_secs_f64());
            }
        }
        Ok(median(times))
    }
}

const GIB: f64 = (1u64 << 30) as f64;
