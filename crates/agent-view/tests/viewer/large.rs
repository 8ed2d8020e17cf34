//! Sessions of many loops, and large ones.

use std::sync::Arc;
use std::time::Instant;

use agent_core::testing::{ManualEnvironment, ScriptedReply};
use agent_core::{AgentEvent, AgentMessage, BasicAgent, LoopId, MessageRef, Usage};
use agent_session::{RecordedEvent, Session};
use agent_view::Page;

use crate::browser::Browser;
use crate::scene::{answers, in_memory, long, model};

/// Returns a session of this many loops: one that was recorded, and copies with other prompts.
async fn of_loops(count: usize) -> Session {
    let clock = ManualEnvironment::skipping(1_795_165_200_000);
    let agent = BasicAgent::new(model("m"))
        .with_environment(Arc::new(clock.clone()))
        .with_session_id("many-1")
        .with_provider(answers(
            &clock,
            vec![(40, ScriptedReply::text("Yes.").using(Usage::new(10, 2, 100, 5)))],
        ));
    let recorder = in_memory(&agent);
    agent.chat("Prompt number 0").await.unwrap();
    let mut session = recorder.session(agent.session_id()).unwrap();
    let first = session.loops[0].clone();
    for n in 1..count {
        let mut record = first.clone();
        record.loop_id = LoopId::from(format!("many-1.mock.m.{}", n + 1));
        for turn in &mut record.turns {
            turn.turn_id.loop_id = record.loop_id.clone();
        }
        let prompt = MessageRef::new(AgentMessage::user(format!("Prompt number {n}")));
        for event in &mut record.events {
            if let RecordedEvent::Known(event) = &mut event.event
                && let AgentEvent::MessageEnd { message, .. } = &mut **event
                && message.role() == "user"
            {
                *message = prompt.clone();
            }
        }
        record.messages[0] = prompt;
        session.loops.push(record);
    }
    session
}

#[tokio::test]
async fn ten_thousand_loops_can_be_searched_and_navigated_with_few_elements() {
    let Some(browser) = Browser::start().await else { return };
    let session = of_loops(10_000).await;
    assert_eq!(session.loops.len(), 10_000);
    browser.open(&Page::new(&session).render(), "").await;
    let ready = browser.js("Number(document.documentElement.dataset.ready)").await;
    println!("{} loops: usable {ready} ms after the navigation began", session.loops.len());
    let rows = browser.count("#tree .node").await;
    assert!((1..100).contains(&rows), "{rows} rows are in the document");
    // The last loop, by the keyboard in the tree.
    browser.js("document.getElementById('tree').focus()").await;
    browser.press(&format!("{}{}", thirtyfour::Key::End.value(), thirtyfour::Key::Enter.value())).await;
    browser.until("document.querySelector('#main .title').innerText === 'Prompt number 9999'").await;
    browser.press("/Prompt number 7777").await;
    browser
        .until("document.querySelector('#results .state[data-done]') && document.querySelector('#results a')")
        .await;
    browser.press(&thirtyfour::Key::Enter.value().to_string()).await;
    browser.until("document.querySelector('#main .title').innerText === 'Prompt number 7777'").await;
    browser
        .until("document.querySelector('[aria-selected=true] .name').innerText === 'Prompt number 7777'")
        .await;
    browser.press("jjj").await;
    browser.until("location.hash !== ''").await;
    let elements =
        browser.js("document.getElementById('app').querySelectorAll('*').length").await.as_u64().unwrap();
    assert!(elements < 20_000, "{elements} elements");
    browser.quit().await;
}

/// The session has 50 MB. The times are printed: `cargo test -p looptree-view --test viewer large -- --nocapture`.
#[tokio::test]
async fn fifty_megabytes_open_without_building_what_is_not_shown() {
    let Some(browser) = Browser::start().await else { return };
    let session = long(250, 200_000).await;
    let file = browser.folder().join("page.html");
    let begun = Instant::now();
    let page = Page::new(&session);
    page.write(std::fs::File::create(&file).unwrap()).unwrap();
    let written = begun.elapsed();
    let bytes = std::fs::metadata(&file).unwrap().len();
    assert!(bytes > 50_000_000, "{bytes} bytes");
    let begun = Instant::now();
    browser.open_file(&file, "").await;
    let loaded = begun.elapsed();
    let ready = browser.js("Number(document.documentElement.dataset.ready)").await;
    let complete = browser
        .js("Math.round(performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd)")
        .await;
    // The last loop is opened and its last turn is built.
    let opened = browser
        .driver
        .execute_async(
            "const done = arguments[0]; const begun = performance.now(); document.getElementById('tree').focus(); \
             const i = JSON.parse(document.getElementById('index').textContent); \
             location.hash = '#loop/' + encodeURIComponent(i.loops[i.loops.length - 1].id) + '/2'; \
             const wait = () => document.querySelector('.turn.current .body') ? done(Math.round(performance.now() - begun)) : setTimeout(wait, 5); wait();",
            Vec::new(),
        )
        .await
        .unwrap()
        .json()
        .clone();
    browser.press("/needle-249 of").await;
    browser
        .until("document.querySelector('#results .state[data-done]') && document.querySelector('#results a')")
        .await;
    let found = browser.text("#results .state").await;
    let elements =
        browser.js("document.getElementById('app').querySelectorAll('*').length").await.as_u64().unwrap();
    assert!(elements < 20_000, "{elements} elements");
    println!(
        "{} MB: written in {written:.1?}; usable {ready} ms after the navigation began, completely read after {complete} ms \
         ({loaded:.1?} by the clock of the test); the last loop opened in {opened} ms; search: {found}",
        bytes / 1_000_000,
    );
    browser.quit().await;
}
