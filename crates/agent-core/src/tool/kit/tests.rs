use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use async_trait::async_trait;
use serde_json::{Value, json};

use super::Tools;
use crate::identity::ToolName;
use crate::tool::{AgentTool, ToolConcurrency, ToolContext, ToolError, ToolResult};

/// Counts how often its schema is asked for.
struct Asked {
    name: &'static str,
    description: &'static str,
    times: Arc<AtomicUsize>,
}

#[async_trait]
impl AgentTool for Asked {
    fn name(&self) -> &str {
        self.name
    }
    fn description(&self) -> &str {
        self.description
    }
    fn parameters_schema(&self) -> Value {
        self.times.fetch_add(1, SeqCst);
        json!({"type": "object", "title": self.description})
    }
    fn concurrency(&self) -> ToolConcurrency {
        if self.name == "alone" { ToolConcurrency::Sequential } else { ToolConcurrency::Parallel }
    }
    async fn execute(&self, _: Value, _: ToolContext) -> Result<ToolResult, ToolError> {
        Ok(ToolResult::text("done"))
    }
}

fn kit(tools: &[(&'static str, &'static str)]) -> (Tools, Arc<AtomicUsize>) {
    let times = Arc::new(AtomicUsize::new(0));
    let tool = |(name, description): &(&'static str, &'static str)| {
        Arc::new(Asked { name, description, times: Arc::clone(&times) }) as Arc<dyn AgentTool>
    };
    (tools.iter().map(tool).collect(), times)
}

#[test]
fn a_tool_describes_itself_once_for_all_who_share_it() {
    let (kit, times) = kit(&[("read", "first"), ("write", "second")]);
    assert_eq!(times.load(SeqCst), 0, "not before it is needed");
    let other = kit.clone();
    let names =
        |kit: &Tools| kit.definitions().definitions().iter().map(|d| d.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&kit), ["read", "write"]);
    assert_eq!(names(&other), names(&kit));
    assert_eq!(times.load(SeqCst), 2);
}

#[test]
fn of_two_tools_with_one_name_the_later_wins() {
    let (kit, _) = kit(&[("read", "old"), ("alone", "x"), ("read", "new")]);
    let told: Vec<_> = kit.definitions().definitions().iter().map(|d| d.description.clone()).collect();
    assert_eq!(told, ["x", "new"]);
    assert_eq!(kit.find("read").map(|t| t.description().to_owned()).as_deref(), Some("new"));
    assert_eq!(kit.schema("read").and_then(|s| s.get("title")), Some(&json!("new")));
    assert!(kit.find("nothing").is_none() && kit.schema("nothing").is_none());
    assert_eq!(kit.sequential().iter().map(ToolName::as_str).collect::<Vec<_>>(), ["alone"]);
}

#[test]
fn one_more_tool_leaves_the_kit_as_it_was() {
    let (kit, _) = kit(&[("read", "x")]);
    let (more, _) = self::kit(&[("write", "y")]);
    let both = kit.with(Arc::clone(&more.tools()[0]));
    assert_eq!((kit.len(), both.len()), (1, 2));
    assert!(!both.is_empty() && Tools::default().is_empty());
    assert_eq!(format!("{both:?}"), r#"["read", "write"]"#);
}
