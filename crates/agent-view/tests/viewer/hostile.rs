//! Sessions whose texts try to become markup, scripts and requests.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent_core::testing::{ManualEnvironment, ScriptedReply, ScriptedTool};
use agent_core::{BasicAgent, ToolArguments};
use agent_session::Session;
use agent_view::Page;
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::scene::{Version, answers, in_memory, model, record};

/// The members whose texts are names that the format defines, so that no other text can stand there.
const DEFINED: &[&str] = &[
    "$text",
    "api",
    "continuation_kind",
    "how",
    "kind",
    "reason",
    "role",
    "scope",
    "state",
    "status",
    "stopReason",
    "cause",
    "tag",
    "thinking_level",
    "triggered_by",
    "type",
    "unit",
    "what",
    "limit",
    "citing",
    "definition",
    "currency",
    "money",
];

/// A server on loopback that counts the connections to it.
struct Listener {
    port: u16,
    connections: Arc<AtomicUsize>,
}

impl Listener {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&connections);
        tokio::spawn(async move {
            while listener.accept().await.is_ok() {
                counter.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { port, connections }
    }
}

/// Text that runs, loads or closes something wherever it is not escaped.
fn payload(port: u16) -> String {
    format!(
        "\u{0}</script></style></title><script>window.pwned=1</script><!--<script><img src=x onerror=\"window.pwned=2\">\
         <svg/onload=window.pwned=3><iframe src=javascript:window.pwned=4></iframe><base href=http://127.0.0.1:{port}/>\
         <link rel=stylesheet href=http://127.0.0.1:{port}/a.css><meta http-equiv=refresh content=\"0;url=http://127.0.0.1:{port}/b\">\
         <img src=http://127.0.0.1:{port}/c.png>'\"`;window.pwned=5;//[x](javascript:window.pwned=6) ![y](http://127.0.0.1:{port}/d.png) \
         ${{window.pwned=7}} {{{{constructor.constructor('window.pwned=8')()}}}} url(http://127.0.0.1:{port}/e) \u{202e}\u{2028}\u{2029}\u{fffd}\u{feff}]]>"
    )
}

/// Changes every text below the member `name` and returns whether there is one.
fn change(value: &mut Value, name: &str, under: bool, to: &dyn Fn(&str) -> String) -> bool {
    match value {
        Value::String(text) if under => {
            *text = to(text);
            true
        }
        Value::Array(list) => {
            list.iter_mut().filter_map(|item| change(item, name, under, to).then_some(())).count() > 0
        }
        Value::Object(members) => members
            .iter_mut()
            .fold(false, |found, (key, member)| change(member, name, key == name, to) || found),
        _ => false,
    }
}

fn names(value: &Value, out: &mut BTreeSet<String>) {
    match value {
        Value::Array(list) => list.iter().for_each(|item| names(item, out)),
        Value::Object(members) => members.iter().for_each(|(name, member)| {
            out.insert(name.clone());
            names(member, out);
        }),
        _ => {}
    }
}

/// Adds members with hostile names to what tools and programs can fill as they like.
fn add_members(value: &mut Value, payload: &str) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(|item| add_members(item, payload)),
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                if let (true, Value::Object(free)) =
                    (["arguments", "details", "metadata"].contains(&name.as_str()), &mut *member)
                {
                    free.insert(payload.to_owned(), json!({payload: [payload, 1, null]}));
                    free.insert("__proto__".into(), json!({"polluted": payload}));
                    free.insert("constructor".into(), json!(payload));
                }
                add_members(member, payload);
            }
        }
        _ => {}
    }
}

/// Puts the payload into every text of a session that its format permits. Returns the names that must keep their values, too.
fn poisoned(session: &Session, port: u16) -> (Session, BTreeSet<String>) {
    let payload = payload(port);
    let append = |text: &str| format!("{text}{payload}");
    let mut value = serde_json::to_value(session).unwrap();
    add_members(&mut value, &payload);
    let (mut all, mut kept) = (BTreeSet::new(), BTreeSet::new());
    names(&value, &mut all);
    for name in all {
        let to: Box<dyn Fn(&str) -> String> = match name.as_str() {
            "url" => Box::new(|text: &str| match text.len() % 2 {
                0 => "javascript:window.pwned=9//".to_owned(),
                _ => format!("data:text/html,<script>window.pwned=10</script>{port}"),
            }),
            "source" => Box::new(|_| "JaVaScRiPt:window.pwned=11".to_owned()),
            "mimeType" | "mime_type" => Box::new(|_| "image/svg+xml\" onload=\"window.pwned=12".to_owned()),
            _ => Box::new(append),
        };
        let mut changed = value.clone();
        if !change(&mut changed, &name, false, &*to) {
            continue;
        }
        match serde_json::from_value::<Session>(changed.clone()) {
            Ok(_) => value = changed,
            Err(_) => {
                kept.insert(name);
            }
        }
    }
    (serde_json::from_value(value).unwrap(), kept)
}

/// Opens everything that the page can show.
async fn look_at_everything(browser: &Browser) {
    let loops = browser
        .js("JSON.parse(document.getElementById('index').textContent).loops.length")
        .await
        .as_u64()
        .unwrap();
    for at in 0..loops.min(40) {
        browser.js(&format!("(() => {{ const i = JSON.parse(document.getElementById('index').textContent); const l = i.loops[{at}]; const side = i.sessions[l.s].part === 'main' ? '' : '@' + l.s + '/'; location.hash = '#loop/' + side + encodeURIComponent(l.id); }})()")).await;
        browser.until(&format!("document.getElementById('s-{at}')")).await;
        browser.js("window.dispatchEvent(new Event('beforeprint'))").await;
        browser.press("e").await;
        browser.js("document.querySelectorAll('[data-more]').forEach((b) => b.click())").await;
        browser.press("j").await;
    }
    browser.press("ao?").await;
    browser.js("document.getElementById('keys').close()").await;
    browser.press("/").await;
    browser.press("pwned").await;
    browser.until("document.querySelector('#results .state[data-done]')").await;
    browser.js("document.querySelectorAll('#tree .node').forEach((n) => n.dispatchEvent(new MouseEvent('mouseover', { bubbles: true })))").await;
}

/// Checks that nothing of the session ran, became markup, or loaded something. Ends the browser.
async fn nothing_happened(browser: Browser, listener: &Listener, scripts: u64) {
    // What would load something has had time for it.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(browser.js("typeof window.pwned").await, "undefined");
    assert_eq!(browser.js("({}).polluted === undefined").await, true);
    let running = "[...document.scripts].filter((s) => s.type !== 'application/json').length";
    assert_eq!(browser.js(running).await, 1, "the page has one script that runs");
    assert_eq!(browser.count("script").await, scripts, "and the data of the index and of each loop");
    for selector in [
        "iframe",
        "object",
        "embed",
        "base",
        "form",
        "link",
        "meta[http-equiv=refresh i]",
        "style:not(head style)",
        "video",
        "audio",
        "foreignObject",
    ] {
        assert_eq!(browser.count(selector).await, 0, "{selector}");
    }
    let handlers = "[...document.querySelectorAll('*')].flatMap((el) => el.getAttributeNames()).filter((name) => name.startsWith('on') || name === 'srcdoc' || name === 'action')";
    assert_eq!(browser.js(handlers).await, json!([]));
    let links = "[...document.querySelectorAll('a[href]')].filter((a) => !(a.getAttribute('href').startsWith('#') || ['http:', 'https:'].includes(a.protocol))).length";
    assert_eq!(browser.js(links).await, 0, "a link leads into the page or to the web");
    let pictures = "[...document.images].filter((i) => !/^data:image\\/(png|jpeg|gif|webp|avif|bmp);base64,/.test(i.src)).length";
    assert_eq!(browser.js(pictures).await, 0);
    assert_eq!(
        browser.console().await,
        Vec::<String>::new(),
        "the content security policy had nothing to refuse"
    );
    assert_eq!(browser.windows().await.len(), 1);
    assert_eq!(listener.connections.load(Ordering::SeqCst), 0);
    // A request that is meant, so that the listener and the log are known to see requests.
    let _ = browser.driver.goto(format!("http://127.0.0.1:{}/control", listener.port)).await;
    let log = browser.quit().await;
    assert!(listener.connections.load(Ordering::SeqCst) > 0);
    assert!(log.contains(&format!("http://127.0.0.1:{}/control", listener.port)), "the log has the request");
    for path in ["/a.css", "/b", "/c.png", "/d.png", "/e"] {
        assert!(
            !log.contains(&format!("127.0.0.1:{}{path}", listener.port)),
            "the browser tried to load {path}"
        );
    }
    assert!(!log.contains("example.org"), "the browser looked up a host of the session");
}

#[tokio::test]
async fn hostile_content_in_every_field_runs_nothing_and_loads_nothing() {
    let Some(browser) = Browser::start().await else { return };
    let listener = Listener::start().await;
    let recorded = record(browser.folder(), Version::First).await;
    let (session, kept) = poisoned(&recorded.session, listener.port);
    let defined: BTreeSet<String> = DEFINED.iter().map(|name| (*name).to_owned()).collect();
    let unexpected: Vec<_> = kept.difference(&defined).collect();
    assert!(unexpected.is_empty(), "these members could not be poisoned: {unexpected:?}");
    let html = Page::new(&session).with_title(payload(listener.port)).render();
    browser.open(&html, "").await;
    look_at_everything(&browser).await;
    let scripts = session.loops.len() as u64 + 2;
    nothing_happened(browser, &listener, scripts).await;
}

#[tokio::test]
async fn hostile_content_does_nothing_in_a_comparison() {
    let Some(browser) = Browser::start().await else { return };
    let listener = Listener::start().await;
    let recorded = record(browser.folder(), Version::First).await;
    let (session, _) = poisoned(&recorded.session, listener.port);
    browser.open(&Page::compare(&recorded.session, &session).render(), "").await;
    look_at_everything(&browser).await;
    let scripts = 2 * session.loops.len() as u64 + 2;
    nothing_happened(browser, &listener, scripts).await;
}

#[tokio::test]
async fn broken_unicode_and_arguments_that_are_no_json_are_shown() {
    let Some(browser) = Browser::start().await else { return };
    let clock = ManualEnvironment::skipping(1_795_165_200_000);
    let broken =
        ["{\"a\": \"\\ud800 lonely\"}", "{\"a\": </script>", "\"\\udfff\"", "[[[[1]]]]", "{\"a\": 1e999}"];
    let calls = broken.iter().enumerate().fold(ScriptedReply::new(), |reply, (at, text)| {
        reply.and_call(&format!("c{at}\u{0}"), "tool", ToolArguments::from_text(*text))
    });
    let text = String::from_utf8_lossy(b"broken \xf0\x9f\x92 utf-8 \xed\xa0\x80 end").into_owned();
    let agent = BasicAgent::new(model("m"))
        .with_environment(Arc::new(clock.clone()))
        .with_provider(answers(&clock, vec![(5, calls), (5, ScriptedReply::text(text))]))
        .with_tool(ScriptedTool::saying("tool", "\u{0}\u{1b}[31mred\u{1b}[0m \u{fffe}\u{10ffff}"));
    let recorder = in_memory(&agent);
    agent.chat("\u{feff}\u{202e}go").await.unwrap();
    let session = recorder.session(agent.session_id()).unwrap();
    browser.open(&Page::new(&session).render(), &format!("#loop/{}", session.loops[0].loop_id)).await;
    browser.until("document.querySelectorAll('.call').length === 5").await;
    browser.until("document.querySelectorAll('.turn header').length === 2").await;
    let shown = browser.text("#main").await;
    assert!(shown.contains("not JSON") && shown.contains("lonely") && shown.contains("utf-8"), "{shown}");
    assert_eq!(browser.console().await, Vec::<String>::new());
    browser.quit().await;
}
