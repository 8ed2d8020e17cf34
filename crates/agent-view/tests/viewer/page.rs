//! What a reader does with the page of one session.

use agent_view::Page;
use thirtyfour::Key;
use thirtyfour::common::print::PrintParameters;

use crate::browser::Browser;
use crate::scene::{Recorded, Version, record};

/// Records the session and opens its page; `None` without a browser.
async fn opened(hash: &str) -> Option<(Browser, Recorded)> {
    let browser = Browser::start().await?;
    let recorded = record(browser.folder(), Version::First).await;
    let html = Page::new(&recorded.session).with_children(&recorded.children).render();
    browser.open(&html, hash).await;
    Some((browser, recorded))
}

#[tokio::test]
async fn the_overview_shows_totals_tools_models_and_events() {
    let Some((browser, recorded)) = opened("").await else { return };
    let text = browser.text("#main").await;
    let usage = recorded.session.total_usage();
    assert!(usage.cache_read > 0);
    for expected in [
        "money-1",
        "Cost",
        "Cache hits",
        "claude-sonnet-5-5",
        "bash",
        "reviewer",
        "Cache break: the system prompt changed",
        "Compaction:",
        "Retry 1 of 3",
    ] {
        assert!(text.contains(expected), "{expected:?} is not in the overview:\n{text}");
    }
    assert!(browser.count("svg.time rect").await > 20);
    assert_eq!(browser.console().await, Vec::<String>::new());
    browser.quit().await;
}

#[tokio::test]
async fn the_tree_shows_forks_branches_the_judge_and_sub_agents_and_opens_them() {
    let Some((browser, recorded)) = opened("").await else { return };
    let text = browser.text("#tree .node").await;
    for expected in [
        "fork",
        "3 branches",
        "branch 2 was selected",
        "branch 1",
        "branch 3",
        "judge",
        "selected",
        "sub-agent",
    ] {
        assert!(text.contains(expected), "{expected:?} is not in the tree:\n{text}");
    }
    let nodes = browser.count("#tree [role=treeitem]").await;
    let child_loops: usize = recorded.children.iter().map(|session| session.loops.len()).sum();
    assert_eq!(nodes, (recorded.session.loops.len() + child_loops + 1) as u64, "and one row for the group");
    // With the mouse, and with the arrow keys and Enter.
    browser.click("#tree .node:nth-child(1)").await;
    browser.until("document.querySelector('#main .turn header')").await;
    assert!(browser.text("#main .title").await.starts_with("The test rounds_half_up"));
    browser.js("document.getElementById('tree').focus()").await;
    browser.press(&format!("{}{}", Key::Down.value(), Key::Enter.value())).await;
    browser.until("document.querySelector('#main .title').innerText.startsWith('Would banker')").await;
    assert_eq!(
        browser.js("document.querySelector('[aria-selected=true] .name').innerText").await,
        "Would banker's rounding be better?"
    );
    browser.quit().await;
}

#[tokio::test]
async fn a_conversation_shows_thinking_calls_diffs_plans_pictures_documents_and_citations() {
    let Some((browser, recorded)) = opened("").await else { return };
    browser.visit(&format!("#loop/{}", recorded.session.loops[0].loop_id)).await;
    browser.until("document.querySelector('.diff')").await;
    browser.press("a").await;
    browser.press("e").await;
    let text = browser.text("#main").await;
    for expected in [
        "I should run it before I read the code",
        "cargo test --package money rounds",
        "test rounds_half_up ... FAILED",
        "src/lib.rs",
        "+1 −1",
        "Reproduce the failure",
        "rounding.pdf",
        "The specification of the shop.",
        "Amounts are rounded half up.",
        "https://example.org/rounding",
        "Question to the user",
        "Publish version 1.4.1?",
        "Allowed",
        "529: the service is overloaded, try again",
        "The conversation had become longer than the limit of its context",
        "first difference",
    ] {
        assert!(text.contains(expected), "{expected:?} is not in the conversation:\n{text}");
    }
    // What would change the direction of a line in a call is escaped.
    assert!(text.contains("\\u{202e}done") && !text.contains('\u{202e}'));
    browser.js("document.querySelector('img.picture').scrollIntoView()").await;
    browser.until("document.querySelector('img.picture').naturalWidth === 112").await;
    assert_eq!(browser.text(".diff .add").await.trim(), "+    (value + 0.5).floor() as i64");
    assert_eq!(browser.text(".diff .del").await.trim(), "-    value as i64");
    browser.quit().await;
}

#[tokio::test]
async fn a_deep_link_opens_its_turn_and_the_address_follows_the_keys() {
    let Some((browser, recorded)) = opened("").await else { return };
    let id = recorded.session.loops[0].loop_id.as_str().to_owned();
    let file = browser.folder().join("page.html");
    browser.open_file(&file, &format!("#loop/{id}/3")).await;
    browser.until("document.querySelector('.turn.current header')").await;
    assert!(browser.text(".turn.current header").await.starts_with("Turn 3"));
    browser.press("j").await;
    assert_eq!(browser.js("location.hash").await, format!("#loop/{id}/4"));
    browser.press("kk").await;
    assert_eq!(browser.js("location.hash").await, format!("#loop/{id}/2"));
    browser.press("n").await;
    browser.until("document.querySelector('#main .title').innerText.startsWith('Would banker')").await;
    browser.press("o").await;
    browser.until("document.querySelector('#overview[aria-current]')").await;
    // An address that does not exist shows the overview.
    browser.visit("#loop/no-such-loop/9").await;
    browser.until("document.querySelector('#overview[aria-current]')").await;
    assert_eq!(browser.console().await, Vec::<String>::new());
    browser.quit().await;
}

#[tokio::test]
async fn the_search_finds_content_of_every_kind_and_opens_it() {
    let Some((browser, _)) = opened("").await else { return };
    for (query, hit) in [
        ("FLOOR() as i64", "floor() as i64"),
        ("rounds_half_up stdout", "rounds_half_up stdout"),
        ("half up is the usual", "Half up is the usual"),
        ("service is overloaded", "service is overloaded"),
        ("the reviewer found", "The reviewer found"),
        ("a < b that is not there", ""),
    ] {
        browser.press("/").await;
        browser.js("(document.getElementById('query').value = '')").await;
        browser.press(query).await;
        let done = "document.querySelector('#results .state[data-done]')";
        browser.until(&format!("{done} && document.getElementById('query').value === {query:?}")).await;
        browser.until(&format!("[...document.querySelectorAll('#results mark')].every((m) => m.innerText.toLowerCase() === {:?})", query.to_lowercase())).await;
        let found = browser.text("#results").await;
        assert_eq!(hit.is_empty(), found.contains("Nothing found"), "{query}: {found}");
        if hit.is_empty() {
            continue;
        }
        browser.press(&Key::Enter.value().to_string()).await;
        browser
            .until(
                "document.getElementById('results').hidden && document.querySelector('.turn.current .body')",
            )
            .await;
        browser.press("e").await;
        let turn = browser.text(".turn.current").await;
        assert!(turn.contains(hit), "{query}: {turn}");
        browser.press("e").await;
    }
    browser.quit().await;
}

#[tokio::test]
async fn keys_open_the_help_and_change_the_theme_and_do_nothing_in_the_search_field() {
    let Some((browser, _)) = opened("").await else { return };
    browser.press("?").await;
    browser.until("document.getElementById('keys').open").await;
    assert!(browser.text("#keys").await.contains("next turn"));
    browser.press(&Key::Escape.value().to_string()).await;
    browser.until("!document.getElementById('keys').open").await;
    let background = "getComputedStyle(document.body).backgroundColor";
    let before = browser.js(background).await;
    browser.press("t").await;
    let after = browser.js(background).await;
    assert_ne!(before, after);
    browser.press("/tt?").await;
    assert_eq!(
        (browser.js("document.getElementById('query').value").await, browser.js(background).await),
        ("tt?".into(), after)
    );
    browser.quit().await;
}

/// The contrast of the colors of texts in both themes, by the formula of WCAG 2.
#[tokio::test]
async fn the_page_is_accessible_in_both_themes() {
    let Some((browser, _)) = opened("").await else { return };
    let script = r#"(() => {
        const channel = (c) => { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
        const luminance = (rgb) => 0.2126 * channel(rgb[0]) + 0.7152 * channel(rgb[1]) + 0.0722 * channel(rgb[2]);
        const probe = document.body.appendChild(document.createElement('i'));
        const color = (name) => { probe.style.color = `var(--${name})`; return getComputedStyle(probe).color.match(/[\d.]+/g).map(Number); };
        const contrast = (a, b) => { const [x, y] = [luminance(color(a)), luminance(color(b))]; return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05); };
        const pairs = [['text', 'bg'], ['text', 'panel'], ['dim', 'bg'], ['dim', 'panel'], ['dim', 'soft'], ['accent', 'panel'], ['accent', 'accent-soft'],
            ['good', 'good-soft'], ['bad', 'bad-soft'], ['warn', 'warn-soft'], ['text', 'warn-soft'], ['dim', 'accent-soft'], ['dim', 'warn-soft'], ['text', 'user']];
        const low = [];
        for (const theme of ['light', 'dark']) {
            document.documentElement.dataset.theme = theme;
            for (const [a, b] of pairs) if (contrast(a, b) < 4.5) low.push([theme, a, b, contrast(a, b).toFixed(2)].join(' '));
        }
        return low;
    })()"#;
    assert_eq!(browser.js(script).await, serde_json::json!([]));
    let unnamed = "[...document.querySelectorAll('button, input, a, [role=treeitem], [role=img], img')].filter((el) => !(el.innerText || el.getAttribute('aria-label') || el.getAttribute('alt') || el.title || '').trim()).length";
    assert_eq!(browser.js(unnamed).await, 0);
    assert_eq!(browser.js("[document.querySelectorAll('main').length, document.querySelectorAll('nav').length, document.querySelectorAll('h1').length]").await, serde_json::json!([1, 1, 1]));
    browser.quit().await;
}

#[tokio::test]
async fn the_page_prints_the_whole_conversation_without_the_controls() {
    let Some((browser, recorded)) = opened("").await else { return };
    browser.visit(&format!("#loop/{}", recorded.session.loops[0].loop_id)).await;
    browser.until("document.querySelector('.turn header')").await;
    let turns = browser.count(".turn").await;
    browser.press("a").await;
    browser.until(&format!("document.querySelectorAll('.turn').length > {turns}")).await;
    browser.js("window.dispatchEvent(new Event('beforeprint'))").await;
    assert_eq!(browser.count(".turn").await, browser.count(".turn > header").await, "every turn is built");
    let pdf = browser.driver.print_page(PrintParameters::default()).await.unwrap();
    assert!(pdf.starts_with(b"%PDF"));
    let pages = pdf.windows(12).filter(|bytes| bytes.starts_with(b"/Type /Page\n")).count();
    assert!(pages >= 3, "{pages} pages in {} bytes", pdf.len());
    browser.quit().await;
}

/// Chromium reports a link that it opens as a new window.
#[tokio::test]
async fn a_link_opens_by_a_click_only_and_in_a_window_that_cannot_reach_the_page() {
    let Some((browser, recorded)) = opened("").await else { return };
    browser.visit(&format!("#loop/{}", recorded.session.loops[0].loop_id)).await;
    browser.press("a").await;
    browser.until("document.querySelector('.cites a')").await;
    let links = browser.js("[...document.querySelectorAll('#main a:not([href^=\"#\"])')].map((a) => [a.protocol, a.rel, a.target])").await;
    let links = links.as_array().unwrap();
    assert!(!links.is_empty());
    for link in links {
        assert_eq!(*link, serde_json::json!(["https:", "noopener noreferrer nofollow", "_blank"]));
    }
    assert_eq!(browser.windows().await.len(), 1);
    browser.quit().await;
}
