//! The pictures of `docs/viewer.md`. `cargo xtask view-pictures` writes them.

use std::path::PathBuf;

use agent_view::Page;

use crate::browser::Browser;
use crate::scene::{Version, record};

#[tokio::test]
#[ignore = "writes the pictures in docs/images; run `cargo xtask view-pictures`"]
async fn write_the_pictures_of_the_documentation() {
    let Some(browser) = Browser::start().await else { return };
    browser.driver.set_window_rect(0, 0, 1180, 800).await.unwrap();
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/images");
    std::fs::create_dir_all(&folder).unwrap();
    let (one, other) = (browser.folder().join("one"), browser.folder().join("other"));
    let (one, other) = (record(&one, Version::First).await, record(&other, Version::Second).await);
    let page = Page::new(&one.session).with_children(&one.children).with_title("Fix the rounding of amounts");
    browser.open(&page.render(), "").await;
    browser.js("(document.documentElement.dataset.theme = 'light')").await;
    save(&browser, folder.join("viewer-overview.png")).await;
    browser.visit(&format!("#loop/{}/2", one.session.loops[0].loop_id)).await;
    browser.until("document.querySelector('.turn.current .diff')").await;
    save(&browser, folder.join("viewer-conversation.png")).await;
    browser.open(&Page::compare(&one.session, &other.session).render(), "#row/2").await;
    browser.js("(document.documentElement.dataset.theme = 'dark')").await;
    browser.until("document.querySelectorAll('.pair .only').length > 1").await;
    save(&browser, folder.join("viewer-compare.png")).await;
    browser.quit().await;
}

async fn save(browser: &Browser, file: PathBuf) {
    // Two frames, so that everything is drawn.
    let frames = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 150)));";
    browser.driver.execute_async(frames, Vec::new()).await.unwrap();
    browser.driver.screenshot(&file).await.unwrap();
}
