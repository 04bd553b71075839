//! Memory budget, pinned pool and prover over the bellperson fork.
//!
//! Under `--cfg loom` only the budget is built, for the model in `tests/loom_budget.rs`.

#[cfg(not(loom))]
pub mod hints;
pub mod memory;
#[cfg(not(loom))]
pub mod size;
