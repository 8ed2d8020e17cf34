//! Two sessions side by side.

use agent_view::Page;

use crate::browser::Browser;
use crate::scene::{Version, record};

#[tokio::test]
async fn two_sessions_are_aligned_by_turns_and_their_differences_are_marked() {
    let Some(browser) = Browser::start().await else { return };
    let (one, other) = (browser.folder().join("one"), browser.folder().join("other"));
    let (one, other) = (record(&one, Version::First).await, record(&other, Version::Second).await);
    browser.open(&Page::compare(&one.session, &other.session).render(), "").await;
    browser.until("document.querySelectorAll('.pair .turn header').length >= 4").await;
    let states = browser.text(".pair > header").await;
    assert!(states.contains("same") && states.contains("calls") && states.contains("only in A"), "{states}");
    let marked = browser.text(".pair.different .only").await;
    assert!(marked.contains("(value + 0.5).floor()") && marked.contains("value.round()"), "{marked}");
    assert!(!marked.contains("I reproduce the failure first."), "{marked}");
    let figures = browser.text("#main table").await;
    assert!(figures.contains("tokens in") && figures.contains("B − A"), "{figures}");
    // The trees of both sessions, and a link to a turn of the second one.
    let tree = browser.text("#tree .node.session").await;
    assert!(tree.contains("A ·") && tree.contains("B ·"), "{tree}");
    browser.click(".pair .sides .turn:nth-child(2) header a").await;
    browser
        .until("location.hash.startsWith('#loop/@1/') && document.querySelector('.turn.current .body')")
        .await;
    browser.press("o").await;
    browser.until("document.querySelector('#only-different')").await;
    let all = browser.count(".pair").await;
    browser.click("#only-different").await;
    browser.until("document.querySelectorAll('.pair.same').length === 0").await;
    let different = browser.count(".pair").await;
    assert!(0 < different && different < all, "{different} of {all}");
    browser.press("j").await;
    assert_eq!(browser.count(".pair.current").await, 1);
    assert_eq!(browser.console().await, Vec::<String>::new());
    browser.quit().await;
}

#[tokio::test]
async fn a_session_compared_with_itself_has_no_differences() {
    let folder = tempfile::tempdir().unwrap();
    let recorded = record(folder.path(), Version::First).await;
    let html = Page::compare(&recorded.session, &recorded.session).render();
    let pairs = html.split("\"pairs\":").nth(1).unwrap().split("</script>").next().unwrap();
    assert!(pairs.contains("\"d\":0") && !pairs.contains("\"d\":1") && !pairs.contains("null"), "{pairs}");
}
