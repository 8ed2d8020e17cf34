//! Laws that hold for every run, whatever the model, the tools, the hooks and the caller do.

mod agents;
mod choices;
mod machine;
mod world;
