//! The settings of an engine.

/// The settings of an engine. Start from the default and change fields.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EngineConfig {
    /// Threads that synthesise. Default: one a core. How many work at a time follows from the memory as well.
    pub synthesis_workers: usize,
    /// Finished syntheses that may wait for a device. `None`: as many as there are slots, so that a slot that comes free
    /// finds the next circuit.
    pub ready_max: Option<usize>,
    /// Circuits that may wait for their synthesis; whoever submits more waits.
    pub pending_max: usize,
    /// How many circuits of equal priority may pass one that waits for memory, before it has its turn first.
    pub overtakes_max: u32,
    /// Spans that the timeline keeps for [`Engine::trace`](super::Engine::trace). 0: none. Later ones are counted, not kept.
    pub trace_spans: usize,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            synthesis_workers: std::thread::available_parallelism().map_or(1, usize::from),
            ready_max: None,
            pending_max: 1024,
            overtakes_max: 16,
            trace_spans: 0,
        }
    }
}
