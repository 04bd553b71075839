//! The parts of the `pinprover` tool: file formats, built-in circuits, commands.

pub mod circom;
pub mod circuits;
pub mod keys;
