//! Our prover against upstream's, in one process, in turns; and how fast vectors get to a device.
//!
//! | module | subject |
//! |---|---|
//! | [`h2d`] | uploads, by where the vectors live |
//! | [`listen`] | upstream's phase times, from its own log lines |
//! | [`keycache`] | keys kept between runs: making one takes longer than proving |
//! | `median` | the middle of some times |
//! | [`pipeline`], `pipeline_figures`, `pipeline_sample` | many proofs at a time: the runs, what came out, memory meanwhile |
//! | [`race`] | the proofs in turns, their times, and the check that both are the same proof |
//! | [`peer`] | supraseal-c2, in a process beside this one |
//! | [`peak`] | the peak memory of one proof, in a process of its own |

pub mod h2d;
pub mod keycache;
pub mod listen;
pub(crate) mod median;
pub mod peak;
pub mod peer;
pub mod pipeline;
mod pipeline_figures;
mod pipeline_sample;
pub mod race;
