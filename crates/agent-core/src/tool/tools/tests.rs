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

fn list(tools: &[(&'static str, &'static str)]) -> (Tools, Arc<AtomicUsize>) {
    let times = Arc::new(AtomicUsize::new(0));
    let tool = |(name, description): &(&'static str, &'static str)| {
        Arc::new(Asked { name, description, times: Arc::clone(&times) }) as Arc<dyn AgentTool>
    };
    (tools.iter().map(tool).collect(), times)
}

#[test]
fn a_tool_describes_itself_once_for_all_who_share_it() {
    let (tools, times) = list(&[("read", "first"), ("write", "second")]);
    assert_eq!(times.load(SeqCst), 0, "not before it is needed");
    let other = tools.clone();
    let names =
        |tools: &Tools| tools.definitions().definitions().iter().map(|d| d.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&tools), ["read", "write"]);
    assert_eq!(names(&other), names(&tools));
    assert_eq!(times.load(SeqCst), 2);
}

#[test]
fn of_two_tools_with_one_name_the_later_wins() {
    let (tools, _) = list(&[("read", "old"), ("alone", "x"), ("read", "new")]);
    let told: Vec<_> = tools.definitions().definitions().iter().map(|d| d.description.clone()).collect();
    assert_eq!(told, ["x", "new"]);
    assert_eq!(tools.find("read").map(|t| t.description().to_owned()).as_deref(), Some("new"));
    assert_eq!(tools.schema("read").and_then(|s| s.get("title")), Some(&json!("new")));
    assert!(tools.find("nothing").is_none() && tools.schema("nothing").is_none());
    assert_eq!(tools.sequential().iter().map(ToolName::as_str).collect::<Vec<_>>(), ["alone"]);
}

#[test]
fn adding_a_tool_leaves_the_list_as_it_was() {
    let (tools, _) = list(&[("read", "x")]);
    let (more, _) = list(&[("write", "y")]);
    let both = tools.with(Arc::clone(&more.tools()[0]));
    assert_eq!((tools.len(), both.len()), (1, 2));
    assert!(!both.is_empty() && Tools::default().is_empty());
    assert_eq!(format!("{both:?}"), r#"["read", "write"]"#);
    let (two, _) = list(&[("a", "x"), ("b", "y")]);
    let four = both.with_all(two);
    assert_eq!((both.len(), format!("{four:?}").as_str()), (2, r#"["read", "write", "a", "b"]"#));
}

#[test]
fn two_tools_with_one_name_are_detected() {
    for (names, duplicate) in [
        (&["a", "b", "c"][..], None),
        (&[], None),
        (&["a", "b", "a"], Some("a")),
        (&["a", "b", "b", "a"], Some("b")),
    ] {
        let tools: Vec<_> = names.iter().map(|name| (*name, "x")).collect();
        assert_eq!(list(&tools).0.duplicate_name(), duplicate, "{names:?}");
    }
}
