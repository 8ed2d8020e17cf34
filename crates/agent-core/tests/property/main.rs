//! Laws that hold for every run, whatever the model, the tools, the hooks and the caller do.

#[cfg(test)]
mod agents;
#[cfg(test)]
mod choices;
#[cfg(test)]
mod machine;
#[cfg(test)]
mod world;
