//! Lists the tools of a server, and lists them again before a call if they may have changed.

use std::collections::BTreeSet;
use std::pin::Pin;

use agent_core::{CancellationToken, Effects};
use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams};
use serde_json::Value;

use super::{METHOD_NOT_FOUND, McpClient, McpToolList};
use crate::mcp::definitions::{Changed, Wanted};
use crate::mcp::error::McpError;
use crate::mcp::limits::{McpLimit, json_bytes};
use crate::mcp::tool::McpToolInfo;
use crate::mcp::{MAX_LIST_BYTES, MAX_TOOL_BYTES, MAX_TOOL_PAGES, MAX_TOOLS};

impl McpClient {
    /// Lists the tools of the server, following all pages. If a page after the first one fails, or a page refers to an earlier
    /// one, the tools of the pages before it are used, and [`McpToolList::skipped`] states why the rest is missing.
    ///
    /// # Errors
    /// Returns an error if the request fails, and [`McpError::TooLarge`] if the server has more than [`MAX_TOOLS`]
    /// tools, more than [`MAX_TOOL_PAGES`] pages, or pages of more than [`MAX_LIST_BYTES`] in all.
    pub async fn list_tools(&self) -> Result<McpToolList, McpError> {
        let changes = self.changes();
        let list = self.list_pages().await?;
        self.inner.definitions.listed(&list.tools, changes);
        Ok(list)
    }

    async fn list_pages(&self) -> Result<McpToolList, McpError> {
        let too_large = |limit| self.too_large("tools/list", limit);
        let mut list = McpToolList::default();
        let mut cursor: Option<String> = None;
        let mut seen = BTreeSet::new();
        let mut names = BTreeSet::new();
        let mut bytes = 0_usize;
        for _ in 0..MAX_TOOL_PAGES {
            let page = match self.list_page(cursor.take()).await {
                // A server without tools need not know the method.
                Err(McpError::JsonRpc { code: METHOD_NOT_FOUND, .. }) if !self.declares_tools() => {
                    return Ok(list);
                }
                Err(error) if !list.tools.is_empty() => {
                    let why = error.to_string();
                    return Ok(list.cut(why.lines().next().unwrap_or_default()));
                }
                page => page?,
            };
            bytes = bytes.saturating_add(json_bytes(&page));
            if bytes > MAX_LIST_BYTES {
                return Err(too_large(McpLimit::ListBytes));
            }
            let tools = match page.get("tools") {
                Some(Value::Array(tools)) => tools.as_slice(),
                _ if !list.tools.is_empty() => return Ok(list.cut("a page has no list `tools`")),
                _ => return Err(self.broken("tools/list", "the result has no list `tools`")),
            };
            if list.tools.len() + list.skipped.len() + tools.len() > MAX_TOOLS {
                return Err(too_large(McpLimit::ListTools));
            }
            for entry in tools {
                match McpToolInfo::read(entry) {
                    Ok(tool) if json_bytes(entry) > MAX_TOOL_BYTES => {
                        list.skipped
                            .push(format!("`{}`, which is longer than {MAX_TOOL_BYTES} bytes", tool.name));
                    }
                    Ok(tool) if !names.insert(tool.name.clone()) => {
                        list.skipped.push(format!("`{}`, which is listed twice", tool.name));
                    }
                    Ok(tool) => list.tools.push(tool),
                    Err(why) => list.skipped.push(why),
                }
            }
            match page.get("nextCursor").and_then(Value::as_str) {
                // Some servers end their list with an empty cursor.
                None | Some("") => return Ok(list),
                Some(next) if seen.insert(next.to_owned()) => cursor = Some(next.to_owned()),
                Some(_) => return Ok(list.cut("the server named a page twice")),
            }
        }
        Err(too_large(McpLimit::ListPages))
    }

    async fn list_page(&self, cursor: Option<String>) -> Result<Value, McpError> {
        let param = PaginatedRequestParams::default().with_cursor(cursor);
        let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(param));
        let never = CancellationToken::new();
        let effects = Effects::ReadOnly;
        let result = self.request("tools/list", &request, effects, None, &never, &mut |_| ()).await?;
        self.value_of("tools/list", &result)
    }

    fn declares_tools(&self) -> bool {
        self.current().and_then(|c| c.info()).is_some_and(|info| info.capabilities.tools.is_some())
    }

    /// Returns the number of changes of its tools that the server has reported.
    fn changes(&self) -> u64 {
        *self.inner.handler.changes.borrow()
    }

    /// Lists the tools for [`admit`](Self::admit). Boxed, because the list is itself a request.
    fn list_again(&self) -> Pin<Box<dyn Future<Output = Result<(), McpError>> + Send + '_>> {
        Box::pin(async { self.list_tools().await.map(drop) })
    }

    /// Lists the tools again if they may have changed, and checks that the definition of this one may be called.
    pub(super) async fn admit(&self, wanted: Wanted<'_>, cancel: &CancellationToken) -> Result<(), McpError> {
        let definitions = &self.inner.definitions;
        if !definitions.is_current(self.changes()) {
            let list = async {
                let _listing = self.inner.listing.lock().await;
                if definitions.is_current(self.changes()) {
                    return Ok(());
                }
                self.list_again().await
            };
            let server = self.inner.spec.name.clone();
            tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    return Err(McpError::Cancelled { server, doing: "tools/list".to_owned() });
                }
                listed = list => listed?,
            }
        }
        definitions.admit(wanted).map_err(|Changed(change)| McpError::ToolChanged {
            server: self.inner.spec.name.clone(),
            tool: wanted.info.name.clone(),
            change,
        })
    }
}
