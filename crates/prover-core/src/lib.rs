//! Memory budget, pinned pool and prover over the bellperson fork.
