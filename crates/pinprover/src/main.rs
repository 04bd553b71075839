//! The `pinprover` command-line tool.

fn main() {}
