//! The tool as its users meet it: the built binary, its exit codes, its streams and its files.

mod bench;
mod circom;
mod demo;
mod outputs;
mod support;
mod usage;
