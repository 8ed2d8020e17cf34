//! A tool whose arguments are a Rust type, and an answer that is one.
//!
//! `cargo run -p looptree-examples --example typed_tool` answers from a script, whose first call has a wrong argument.
//! `-- --model anthropic/claude-sonnet-5-5` asks a model; `docs/examples.md` lists the names and keys of all providers.
#![expect(clippy::print_stdout, reason = "a program that talks to the user")]

use looptree::prelude::*;
use looptree::testing::{ScriptedProvider, ScriptedReply};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The arguments of the tool. The model receives their schema, with these comments.
#[derive(Deserialize, JsonSchema)]
struct Distance {
    /// The length in metres.
    metres: f64,
    /// The unit of the result.
    unit: Unit,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Unit {
    Feet,
    Miles,
}

/// What the tool returns: any type that serializes.
#[derive(Serialize)]
struct Converted {
    value: f64,
}

/// The answer of the model.
#[derive(Debug, Deserialize, JsonSchema)]
struct Answer {
    /// The height in feet, rounded.
    feet: u32,
    /// One sentence for a reader.
    sentence: String,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let script = ScriptedProvider::new([
        ScriptedReply::call("call_1", "convert", json!({"metres": 8848.9, "unit": "yards"})),
        ScriptedReply::call("call_2", "convert", json!({"metres": 8848.9, "unit": "feet"})),
        ScriptedReply::text(r#"{"feet": 29032, "sentence": "Mount Everest has 29,032 feet."}"#),
    ]);
    let convert = tool_fn("convert", "Converts a length.", |args: Distance, _| async move {
        let metres_per_unit = match args.unit {
            Unit::Feet => 0.3048,
            Unit::Miles => 1609.344,
        };
        Ok(Converted { value: args.metres / metres_per_unit })
    });
    let agent = looptree_examples::agent(script)?.with_tool(convert);
    let _subscription = agent.subscribe(|event| match event {
        AgentEvent::ToolExecutionStart { tool_name, args, .. } => println!("[{tool_name} {args}]"),
        AgentEvent::ToolExecutionEnd(end) => println!("[-> {}]", end.result.to_text()),
        _ => {}
    });

    let answer: Answer =
        agent.prompt_typed("How many feet has Mount Everest, which has 8848.9 metres?").await?;
    println!("{} feet: {}", answer.feet, answer.sentence);
    Ok(())
}
