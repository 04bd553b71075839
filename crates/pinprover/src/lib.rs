//! The parts of the `pinprover` tool: file formats, built-in circuits, commands.

pub mod circuits;
