//! Programs that show Looptree at work; see `examples/examples`.
