//! Engines over simulated devices, which prove on the CPU and fail when they are told to.
//!
//! - `support`: circuits, keys, devices, and an engine with its memory;
//! - `order`: priorities, memory, what passes what;
//! - `failures`: every way in which a job can end without proofs, and what is left behind;
//! - `devices`: several devices, and the loss of some;
//! - `load`: many jobs.

mod devices;
mod failures;
mod load;
mod order;
mod support;
