//! Writes the vendor's own tools.

use agent_core::model::{
    CodeExecution, ComputerEnvironment, ComputerUse, FileSearch, ImageGeneration, Mcp, McpApproval,
    SearchContext, ServerTool, WebSearch,
};
use agent_core::{ModelConfig, ModelRequest, Secret, ToolCallers, ToolSearchForm};
use serde_json::{Value, json};

use crate::json;
use crate::openai_responses::local_tools::{LocalForm, is_preview};
use crate::server_tools::{Definition, location, runs_code};

/// Writes the definitions, separated by commas, and the one of the code that calls tools of the program.
pub(super) fn write(out: &mut Vec<u8>, request: &ModelRequest) {
    let start = out.len();
    // The agent's own search is written in the vendor's form, which a list has once.
    let has_search = request.tools.search() == ToolSearchForm::FromResults;
    let is_second = |tool: &&ServerTool| has_search && matches!(tool, ServerTool::ToolSearch(_));
    for tool in request.options.server_tools.iter().filter(|tool| !is_second(tool)) {
        if out.len() > start {
            out.push(b',');
        }
        json::write(out, &definition(tool, request));
    }
    if request.tools.are_called_by_code() && runs_code(request) {
        if out.len() > start {
            out.push(b',');
        }
        json::write(out, &Definition::of("programmatic_tool_calling").build());
    }
}

/// Returns who may call a function, or `None` if only the model may.
pub(super) fn callers(callers: ToolCallers) -> Option<&'static [&'static str]> {
    match callers {
        ToolCallers::Code => Some(&["programmatic"]),
        ToolCallers::ModelAndCode => Some(&["direct", "programmatic"]),
        _ => None,
    }
}

/// Returns the results that the reply contains only if the request includes them.
pub(super) fn results(request: &ModelRequest) -> &'static [&'static str] {
    const CODE: &str = "code_interpreter_call.outputs";
    const FILES: &str = "file_search_call.results";
    let tools = &request.options.server_tools;
    let code = tools.iter().any(|tool| matches!(tool, ServerTool::CodeExecution(_)));
    let files = tools.iter().any(|tool| matches!(tool, ServerTool::FileSearch(_)));
    match (code, files) {
        (false, false) => &[],
        (true, false) => &[CODE],
        (false, true) => &[FILES],
        (true, true) => &[CODE, FILES],
    }
}

fn definition(tool: &ServerTool, request: &ModelRequest) -> Value {
    if let ServerTool::ComputerUse(options) = tool {
        return computer(options, &request.model);
    }
    if let Some(form) = LocalForm::of_tool(tool) {
        return local(form, request);
    }
    match tool {
        ServerTool::WebSearch(search) => web_search(search),
        ServerTool::CodeExecution(code) => code_interpreter(code),
        ServerTool::FileSearch(search) => file_search(search),
        ServerTool::ImageGeneration(image) => image_generation(image),
        ServerTool::Mcp(mcp) => server(mcp),
        ServerTool::ToolSearch(_) => tool_search(),
        ServerTool::Vendor(definition) => definition.clone(),
        _ => Value::Null,
    }
}

/// Returns the definition of a tool that the agent executes.
fn local(form: LocalForm, request: &ModelRequest) -> Value {
    let mut definitions = request.tools.definitions().iter();
    let definition = definitions.find(|definition| definition.name == form.tool_name());
    let callers = definition.and_then(|definition| callers(definition.callers));
    let place = (form == LocalForm::Shell).then(|| json!({"type": "local"}));
    Definition::of(form.tool_type(&request.model))
        .with("environment", place)
        .with("allowed_callers", callers.filter(|_| runs_code(request)).map(|callers| json!(callers)))
        .build()
}

/// Returns the definition of a computer. Only the older tool contains what the model controls.
fn computer(computer: &ComputerUse, model: &ModelConfig) -> Value {
    let definition = Definition::of(LocalForm::Computer.tool_type(model));
    if !is_preview(model) {
        return definition.build();
    }
    let environment = match computer.environment {
        Some(ComputerEnvironment::Linux) => "linux",
        Some(ComputerEnvironment::Mac) => "mac",
        Some(ComputerEnvironment::Windows) => "windows",
        _ => "browser",
    };
    definition
        .with("display_width", Some(computer.width))
        .with("display_height", Some(computer.height))
        .with("environment", Some(environment))
        .build()
}

fn web_search(search: &WebSearch) -> Value {
    let domains = &search.allowed_domains;
    let filters = (!domains.is_empty()).then(|| json!({"allowed_domains": domains}));
    let place = search.user_location.as_ref();
    let place = place.map(|place| location(place).with("type", Some("approximate")).build());
    Definition::of("web_search")
        .with("filters", filters)
        .with("search_context_size", search.context.map(size))
        .with("user_location", place)
        .build()
}

/// Returns the vendor's name of a part of the results.
fn size(context: SearchContext) -> &'static str {
    match context {
        SearchContext::Low => "low",
        SearchContext::High => "high",
        _ => "medium",
    }
}

fn code_interpreter(code: &CodeExecution) -> Value {
    let new = || Definition::of("auto").with_list("file_ids", &code.file_ids).build();
    let container = code.container.as_deref().map_or_else(new, Value::from);
    Definition::of("code_interpreter").with("container", Some(container)).build()
}

fn file_search(search: &FileSearch) -> Value {
    Definition::of("file_search")
        .with("vector_store_ids", Some(search.stores.clone()))
        .with("max_num_results", search.max_results)
        .build()
}

fn image_generation(image: &ImageGeneration) -> Value {
    Definition::of("image_generation")
        .with("model", image.model.clone())
        .with("size", image.size.clone())
        .with("quality", image.quality.clone())
        .with("background", image.background.clone())
        .with("output_format", image.output_format.clone())
        .build()
}

fn server(mcp: &Mcp) -> Value {
    let approval = if mcp.approval == McpApproval::Always { "always" } else { "never" };
    Definition::of("mcp")
        .with("server_label", Some(&*mcp.label))
        .with("server_url", Some(&*mcp.url))
        .with("authorization", mcp.authorization.as_ref().map(Secret::expose))
        .with_list("allowed_tools", &mcp.allowed_tools)
        .with("require_approval", Some(approval))
        .build()
}

/// Returns the definition of the search of tools.
pub(super) fn tool_search() -> Value {
    Definition::of("tool_search").build()
}
