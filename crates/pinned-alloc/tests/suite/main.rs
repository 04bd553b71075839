//! The registry against allocators that fail, panic and lie.
//!
//! [`kit`] is the hostile allocator with its ledger; every test ends by letting the ledger judge.
#![cfg(not(loom))]

mod answers;
mod errors;
mod faults;
mod kit;
mod lifecycle;
mod panics;
mod sizes;
mod threads;
