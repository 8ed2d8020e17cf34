//! Renders a session as one self-contained HTML page.
//!
//! [`Page`] takes a [`Session`](agent_session::Session) and writes a document that needs no network and no other file. It shows
//! the tree of loops, a timeline, the messages with their tool calls, and what each turn cost. `docs/viewer.md` in the
//! repository describes the page and what it promises about hostile content.
//!
//! ```
//! use agent_core::testing::ScriptedProvider;
//! use agent_core::{BasicAgent, ModelConfig};
//! use agent_session::{JsonStore, SessionRecorder};
//! use agent_view::Page;
//!
//! # let dir = tempfile::tempdir()?;
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let mut agent = BasicAgent::new(ModelConfig::default()).with_provider(ScriptedProvider::texts(["Hello."]));
//! let store = JsonStore::open(dir.path())?;
//! let recorder = SessionRecorder::attach(&mut agent, store.clone());
//! agent.chat("Hi").await?;
//! recorder.close().await?;
//!
//! let session = store.load_session(&agent.session_id())?;
//! let html = Page::new(&session).with_title("My session").render();
//! assert!(html.contains("<title>My session</title>") && html.contains("Hello."));
//! assert!(Page::new(&session).render().contains("<title>Hi</title>"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Nothing of a session becomes markup, a script or an address that the browser loads: the data is JSON in elements that the
//! browser does not run, and a content security policy permits only the page's own script and style, by their hashes.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod blocks;
mod compare;
mod costs;
mod escape;
mod index;
mod items;
mod loops;
mod page;
mod policy;
mod tree;

#[doc(inline)]
pub use page::{PAGE_START, Page};
