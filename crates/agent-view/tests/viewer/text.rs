//! The document as text, without a browser.

use agent_core::{CostConfig, Timestamp};
use agent_session::Session;
use agent_view::Page;

use crate::scene::{Version, record};

#[tokio::test]
async fn a_page_written_in_pieces_is_the_page_that_is_rendered_and_the_same_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let recorded = record(folder.path(), Version::First).await;
    let page = Page::new(&recorded.session).with_children(&recorded.children);
    let mut written = Vec::new();
    page.write(&mut written).unwrap();
    assert_eq!(String::from_utf8(written).unwrap(), page.render());
    assert_eq!(page.render(), page.render());
    assert!(page.render().starts_with(agent_view::PAGE_START));
}

#[test]
fn the_error_of_a_writer_is_returned() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let session = Session::new("s-1".into(), "agent".into(), Timestamp(1));
    let error = Page::new(&session).write(Full).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
}

#[tokio::test]
async fn prices_of_the_caller_replace_those_of_the_session() {
    let folder = tempfile::tempdir().unwrap();
    let recorded = record(folder.path(), Version::Second).await;
    let index = |html: String| -> serde_json::Value {
        let json = html.split("id=\"index\">").nth(1).unwrap().split("</script>").next().unwrap().to_owned();
        serde_json::from_str(&json).unwrap()
    };
    let recorded_prices = index(Page::new(&recorded.session).render());
    let usage = recorded.session.loops[0].turns.iter().map(|turn| turn.usage);
    let prices = CostConfig::per_million(1_000_000, 0, 0, 0);
    let expected: u64 = usage.map(|usage| usage.cost(&prices).total).sum();
    let own_prices = index(Page::new(&recorded.session).with_prices("claude-sonnet-5-5", prices).render());
    assert_eq!(own_prices["loops"][0]["c"], expected);
    assert_ne!(recorded_prices["loops"][0]["c"], own_prices["loops"][0]["c"]);
}

/// Only the two sources of text that the page escapes can differ between the pages of two sessions.
#[tokio::test]
async fn the_policy_is_that_of_the_page_and_does_not_depend_on_the_session() {
    let folder = tempfile::tempdir().unwrap();
    let recorded = record(folder.path(), Version::First).await;
    let empty = Session::new("s-1".into(), "agent".into(), Timestamp(1));
    let policy = |session: &Session| {
        let html = Page::new(session).render();
        html.split("content-security-policy\" content=\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(policy(&empty), policy(&recorded.session));
    assert!(policy(&empty).starts_with("default-src 'none'; script-src 'sha256-"));
}
