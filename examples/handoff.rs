//! Two forms of several agents: a front desk delegates a task to a specialist, and later hands the conversation over to another.
//!
//! `cargo run -p looptree-examples --example handoff` answers from a script. `-- --model anthropic/claude-sonnet-5-5` asks a
//! model; `docs/examples.md` lists the names and keys of all providers. A larger one is the example `specialists`.
#![expect(clippy::print_stdout, reason = "a program that talks to the user")]

use looptree::prelude::*;
use looptree::testing::{ScriptedProvider, ScriptedReply};
use looptree::tools::SubAgentTool;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize, JsonSchema)]
struct Parcel {
    number: u32,
}

#[derive(Deserialize, JsonSchema)]
struct HandOver {
    /// What the user wants from billing.
    reason: String,
}

fn script() -> ScriptedProvider {
    ScriptedProvider::new([
        // The desk delegates, the specialist works, the desk answers.
        ScriptedReply::call("call_1", "shipping", json!({"task": "Find parcel 4."})),
        ScriptedReply::call("call_2", "track", json!({"number": 4})),
        ScriptedReply::text("Parcel 4 is in Lyon."),
        ScriptedReply::text("Your parcel is in Lyon."),
        // The desk hands over, and billing continues the conversation.
        ScriptedReply::call("call_3", "hand_over", json!({"reason": "invoice 17"})),
        ScriptedReply::text("Billing here. I see that you waited for parcel 4. What about invoice 17?"),
    ])
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut agent = looptree_examples::agent(script())?;
    let track = tool_fn("track", "Finds a parcel.", |args: Parcel, _| async move {
        Ok(format!("Parcel {} left the depot in Lyon.", args.number))
    });
    // The specialist has its own prompt and tools, and knows the task only. Its model could be a smaller one.
    let shipping = SubAgentTool::new("shipping", ModelConfig::clone(&agent.config().model))
        .with_description("Finds parcels. Give it the number.")
        .with_system_prompt("You are shipping. Answer in one sentence.")
        .with_tool(track);
    // The result of this call ends the run, so that the program can change the role.
    let hand_over = tool_fn("hand_over", "Lets billing continue.", |args: HandOver, _| async move {
        Ok::<_, ToolError>(ToolResult::text(format!("Billing continues: {}", args.reason)).terminating())
    });
    agent.set_system_prompt(
        "You are the front desk. Delegate parcels to shipping, and hand over to billing if asked.",
    );
    agent.set_tools(vec![std::sync::Arc::new(shipping), std::sync::Arc::new(hand_over)]);

    for prompt in ["Where is parcel 4?", "I want to talk to billing about invoice 17."] {
        println!("user: {prompt}");
        let mut events = agent.prompt(prompt)?;
        let mut is_handed_over = false;
        while let Some(event) = events.recv().await {
            match &event {
                AgentEvent::AgentStart(start) if start.spawned_by.is_some() => {
                    println!("  [a specialist starts]")
                }
                AgentEvent::ToolExecutionStart { tool_name, args, .. } => println!("  [{tool_name} {args}]"),
                AgentEvent::ToolExecutionEnd(end) => is_handed_over |= end.tool_name.as_str() == "hand_over",
                _ => {}
            }
        }
        let mut end = events.end().await;
        if is_handed_over {
            agent.set_system_prompt("You are billing. Continue the conversation.");
            agent.set_tools(vec![]);
            end = agent.continue_run()?.end().await;
        }
        println!("{}", end.into_reply()?.text());
    }
    Ok(())
}
