use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use agent_core::{AgentTool as _, SystemEnvironment};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

/// A server on loopback with a number of requests, whose answers a function makes from the path. It ends with the test.
struct Server {
    port: u16,
    hits: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(answer: impl Fn(&str, u16) -> Vec<u8> + Send + Sync + 'static) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let hits = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&hits);
    let task = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = vec![0; 4096];
            let read = stream.read(&mut head).await.unwrap_or(0);
            let head = String::from_utf8_lossy(&head[..read]).into_owned();
            let path = head.split(' ').nth(1).unwrap_or("/").to_owned();
            counted.fetch_add(1, Ordering::SeqCst);
            let _ = stream.write_all(&answer(&path, port)).await;
        }
    });
    Server { port, hits, task }
}

fn page_of(kind: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}").into_bytes()
}

fn status(line: &str, header: &str) -> Vec<u8> {
    format!("HTTP/1.1 {line}\r\n{header}content-length: 0\r\nconnection: close\r\n\r\n").into_bytes()
}

fn loopback() -> IpAddr {
    IpAddr::from([127, 0, 0, 1])
}

/// A tool for servers at 127.0.0.1 only, for which every name has the addresses that `lookup` returns.
fn tool(
    server: &Server,
    reach: Reach,
    redirects: Redirects,
    lookup: impl Fn(&str) -> Vec<IpAddr> + Send + Sync + 'static,
) -> WebFetchTool {
    let lookup: Lookup = Arc::new(move |name| {
        let found = lookup(&name);
        Box::pin(async move { Ok(found) })
    });
    let limits = Limits { reach, ports: vec![80, 443, server.port], redirects };
    WebFetchTool::with_lookup(limits, lookup).unwrap()
}

fn local(server: &Server) -> WebFetchTool {
    tool(server, Reach::PublicAnd(vec![loopback()]), Redirects::SameSite, |_| vec![loopback()])
}

async fn fetch(tool: &WebFetchTool, arguments: Value) -> Result<ToolResult, ToolError> {
    tool.execute(arguments, ToolContext::detached("web_fetch", Arc::new(SystemEnvironment))).await
}

async fn get(tool: &WebFetchTool, url: &str) -> Result<String, String> {
    fetch(tool, json!({"url": url})).await.map(|result| result.to_text()).map_err(|error| error.to_string())
}

/// Issue 16, item 2. All spellings of addresses that are not public.
#[tokio::test]
async fn no_spelling_of_a_private_address_is_connected_to() {
    let server = serve(|_, _| page_of("text/plain", "secret")).await;
    let tool = tool(&server, Reach::Public, Redirects::All, |name| vec![name.parse().unwrap_or(loopback())]);
    let port = server.port;
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "017700000001",
        "127.0.0.1.",
        "0",
        "0.0.0.0",
        "127.255.255.254",
        "\u{ff11}\u{ff12}\u{ff17}.0.0.1",
        "127\u{3002}0\u{3002}0\u{3002}1",
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "100.64.0.1",
        "100.100.100.200",
        "169.254.169.254",
        "0xa9fea9fe",
        "2852039166",
        "168.63.129.16",
        "192.0.0.192",
        "192.0.2.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "192.88.99.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::169.254.169.254]",
        "[64:ff9b:1::7f00:1]",
        "[2002:7f00:1::]",
        "[2001::1]",
        "[2001:0:7f00:1::]",
        "[2001:db8::1]",
        "[3fff::1]",
        "[fc00::1]",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "[fec0::1]",
        "[ff02::1]",
        "[100::1]",
        "[2600::5efe:7f00:1]",
        "[2600::200:5efe:7f00:1]",
        "localhost",
        "name.example",
        "LOCALHOST.",
    ] {
        let error = get(&tool, &format!("http://{host}:{port}/")).await.unwrap_err();
        assert!(error.contains("not on the public internet"), "{host}: {error}");
    }
    assert_eq!(server.hits.load(Ordering::SeqCst), 0, "a connection was made");
    for address in
        ["93.184.215.14", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2001:4860:4860::8888"]
    {
        assert!(Reach::Public.permits(address.parse().unwrap()), "{address}");
    }
}

/// Issue 16, item 2. A name server that answers differently each time.
#[tokio::test]
async fn a_name_that_leads_elsewhere_between_two_requests_is_refused() {
    let server = serve(|path, _| match path {
        "/robots.txt" => status("404 Not Found", ""),
        _ => page_of("text/plain", "secret"),
    })
    .await;
    let times = AtomicUsize::new(0);
    let other = IpAddr::from([127, 0, 0, 2]);
    let rebinding = tool(&server, Reach::PublicAnd(vec![loopback()]), Redirects::All, move |_| {
        if times.fetch_add(1, Ordering::SeqCst) == 0 { vec![loopback()] } else { vec![other] }
    });
    let url = format!("http://name.example:{}/", server.port);
    let error = get(&rebinding, &url).await.unwrap_err();
    assert_eq!(
        error,
        "name.example has the address 127.0.0.2, which is not on the public internet; it cannot be fetched"
    );
    // Only `robots.txt` was fetched, from the first address.
    assert_eq!(server.hits.load(Ordering::SeqCst), 1);
    // A name with a permitted and another address is refused as a whole.
    let mixed =
        tool(&server, Reach::PublicAnd(vec![loopback()]), Redirects::All, move |_| vec![loopback(), other]);
    assert!(get(&mixed, &url).await.unwrap_err().contains("127.0.0.2"));
}

/// Issue 16, item 2.
#[tokio::test]
async fn redirects_to_addresses_that_are_not_permitted_are_refused() {
    let server = serve(|path, port| match path {
        "/robots.txt" => status("404 Not Found", ""),
        "/meta" => status("302 Found", "location: http://169.254.169.254/latest/meta-data/\r\n"),
        "/decimal" => status("307 Temporary Redirect", "location: http://2852039166/\r\n"),
        "/other" => status("301 Moved Permanently", &format!("location: http://127.0.0.2:{port}/\r\n")),
        "/six" => status("308 Permanent Redirect", "location: http://[::ffff:a9fe:a9fe]/\r\n"),
        "/file" => status("302 Found", "location: file:///etc/passwd\r\n"),
        "/ftp" => status("302 Found", "location: ftp://127.0.0.1/\r\n"),
        "/port" => status("302 Found", "location: http://127.0.0.1:22/\r\n"),
        "/user" => status("302 Found", &format!("location: http://a:b@127.0.0.1:{port}/\r\n")),
        "/name" => status("302 Found", &format!("location: http://inner.example:{port}/\r\n")),
        "/away" => status("302 Found", &format!("location: http://elsewhere.example:{port}/x\r\n")),
        "/near" => status("302 Found", "location: page\r\n"),
        "/loop" => status("302 Found", "location: /loop\r\n"),
        _ => page_of("text/plain", "the page"),
    })
    .await;
    let lookup =
        |name: &str| vec![if name == "inner.example" { IpAddr::from([10, 0, 0, 1]) } else { loopback() }];
    let reach = || Reach::PublicAnd(vec![loopback()]);
    let all = tool(&server, reach(), Redirects::All, lookup);
    let base = format!("http://name.example:{}", server.port);
    for (path, expect) in [
        ("/meta", "169.254.169.254 has the address 169.254.169.254, which is not"),
        ("/decimal", "has the address 169.254.169.254"),
        ("/other", "has the address 127.0.0.2"),
        ("/six", "which is not on the public internet"),
        ("/file", "use http or https"),
        ("/ftp", "use http or https"),
        ("/port", "the port 22 is not permitted"),
        ("/user", "it has a user name or a password"),
        ("/name", "inner.example has the address 10.0.0.1"),
        ("/loop", "redirects more than 5 times"),
    ] {
        let error = get(&all, &format!("{base}{path}")).await.unwrap_err();
        assert!(error.contains(expect), "{path}: {error}");
    }
    assert!(get(&all, &format!("{base}/near")).await.unwrap().contains("the page"));
    assert!(get(&all, &format!("{base}/away")).await.unwrap().contains("the page"));
    // By default another site is named and not connected to.
    let near = tool(&server, reach(), Redirects::SameSite, lookup);
    let told = get(&near, &format!("{base}/away")).await.unwrap();
    assert!(
        told.starts_with(&format!("The page is at another site: http://elsewhere.example:{}/x", server.port)),
        "{told}"
    );
    assert!(get(&near, &format!("{base}/near")).await.unwrap().contains("the page"));
    assert!(get(&near, &format!("{base}/meta")).await.unwrap_err().contains("169.254.169.254"));
}

#[tokio::test]
async fn addresses_that_are_not_pages_are_refused() {
    let server = serve(|_, _| page_of("text/plain", "x")).await;
    let tool = local(&server);
    let long = format!("http://a.example/{}", "x".repeat(MAX_URL_BYTES));
    for (url, expect) in [
        ("file:///etc/passwd", "use http or https"),
        ("gopher://127.0.0.1/", "use http or https"),
        ("/etc/passwd", "is not an address"),
        ("http://user@127.0.0.1/", "user name"),
        ("http://127.0.0.1:22/", "the port 22 is not permitted"),
        (&long, "it is too long"),
    ] {
        let error = get(&tool, url).await.unwrap_err();
        assert!(error.contains(expect), "{error}");
    }
    let resolved = Tool::resolved_arguments(&tool, &json!({"url": "HTTP://A.example:80/x/../y#z"}));
    assert_eq!(resolved.unwrap()["url"], "http://a.example/y");
}

#[tokio::test]
async fn a_page_is_shown_as_text_and_continued_by_its_offset() {
    let body = "<html><head><title> A &amp; B </title><style>p{}</style></head><body><script>alert('<p>no</p>')</script>\
                <h1>Head</h1><p>One <b>two</b>\n three <a href='/x?y=1'>link</a>.</p><ul><li>a<li>b</ul>\
                <pre>  code\n  more</pre><img alt='a cat' src=x><table><tr><td>1<td>2</table><!-- no --></body></html>";
    let server = serve(move |path, _| match path {
        "/robots.txt" => status("404 Not Found", ""),
        "/long" => page_of("text/plain; charset=utf-8", &"äöü ".repeat(20_000)),
        "/zip" => page_of("application/zip", "PK"),
        "/none" => status("404 Not Found", ""),
        "/latin" => b"HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=ISO-8859-1\r\nconnection: close\r\n\r\n\xe4".to_vec(),
        "/gzip" => status("200 OK", "content-encoding: gzip\r\n"),
        _ => page_of("text/html", body),
    })
    .await;
    let tool = local(&server);
    let base = format!("http://127.0.0.1:{}", server.port);
    let text = get(&tool, &base).await.unwrap();
    let (note, rest) = text.split_once("\n\n").unwrap();
    assert!(
        note.starts_with(&format!("[{base}/: bytes 0 to "))
            && note.ends_with("this is the end]\nTitle: A & B"),
        "{note}"
    );
    assert_eq!(
        rest,
        format!(
            "# Head\n\nOne two three [link]({base}/x?y=1).\n\n- a\n- b\n\n```\n  code\n  more\n```\n\n[image: a cat]\n| 1 | 2"
        )
    );
    let first = fetch(&tool, json!({"url": format!("{base}/long")})).await.unwrap();
    let end = first.details["end"].as_u64().unwrap();
    assert!(
        first.to_text().contains(&format!("continue with offset {end}]")) && end <= MAX_TEXT_BYTES as u64
    );
    let hits = server.hits.load(Ordering::SeqCst);
    let next = fetch(&tool, json!({"url": format!("{base}/long"), "offset": end})).await.unwrap();
    assert_eq!(next.details["start"], json!(end));
    assert_eq!(server.hits.load(Ordering::SeqCst), hits, "the page is not fetched again");
    let error = fetch(&tool, json!({"url": format!("{base}/long"), "offset": 9_999_999})).await.unwrap_err();
    assert_eq!(error.to_string(), "the text ends at byte 140000; use a smaller offset");
    assert!(get(&tool, &format!("{base}/latin")).await.unwrap().ends_with("\n\nä"));
    for (path, expect) in [
        ("/zip", "of the type application/zip"),
        ("/none", "answered with status 404"),
        ("/gzip", "compressed"),
    ] {
        assert!(get(&tool, &format!("{base}{path}")).await.unwrap_err().contains(expect), "{path}");
    }
}

#[tokio::test]
async fn a_server_that_sends_without_end_is_read_up_to_the_limit() {
    let server = serve(|path, _| match path {
        "/robots.txt" => status("404 Not Found", ""),
        _ => {
            let mut answer =
                b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n".to_vec();
            answer.resize(answer.len() + MAX_BYTES * 2, b'x');
            answer
        }
    })
    .await;
    let result =
        fetch(&local(&server), json!({"url": format!("http://127.0.0.1:{}/", server.port)})).await.unwrap();
    assert_eq!(result.details["bytes"], json!(MAX_BYTES));
}

/// Pages whose elements are nested, repeated or never closed take time in proportion to their size.
#[tokio::test]
async fn hostile_pages_neither_end_the_process_nor_take_long() {
    let base = Url::parse("http://a.example/").unwrap();
    let size = 256 * 1024;
    for part in [
        "<div>",
        "<b a>",
        "<a href=/>x",
        "<table><tr><td>",
        "<ul><li>",
        "<svg>",
        "<p><b>",
        "</div>",
        "<!--",
        "&amp;",
        "<a ",
        "<pre>",
        "\n",
        "<h1><a href=x>",
    ] {
        let html = part.repeat(size / part.len());
        let convert = tokio::task::spawn_blocking({
            let base = base.clone();
            move || html::to_text(&html, &base)
        });
        let (_, text) = tokio::time::timeout(Duration::from_secs(60), convert).await.unwrap().unwrap();
        assert!(text.len() <= size * 4, "{part}: {}", text.len());
    }
    let (_, text) =
        html::to_text("<svg><svg></svg>no</svg>yes<a href='javascript:x'>js</a><a href=#x>here</a>", &base);
    assert_eq!(text, "yesjshere");
}

#[test]
fn a_title_is_short_and_neither_it_nor_code_has_control_characters() {
    let base = Url::parse("http://a.example/").unwrap();
    let page = "<title>a\u{1b}[2J&#27;[31m\n b</title><pre>c\u{1b}[2J\n\td&#7;</pre>";
    let (title, text) = html::to_text(page, &base);
    assert_eq!((title.as_str(), text.as_str()), ("a[2J[31m b", "```\nc[2J\n\td\n```"));
    let (title, _) = html::to_text(&format!("<title>{}</title>", "\u{e9}".repeat(1_000_000)), &base);
    assert_eq!(title.len(), 500);
}

#[tokio::test]
async fn a_robots_file_is_respected_and_a_broken_server_permits_nothing() {
    let server = serve(|path, _| match path {
        "/robots.txt" => page_of("text/plain", "User-agent: *\nDisallow: /\n\nUser-agent: Looptree-Web-Fetch\nDisallow: /private\nAllow: /private/open$\n"),
        "/moved" => status("302 Found", "location: /private/x\r\n"),
        _ => page_of("text/plain", "open"),
    })
    .await;
    let tool = local(&server);
    let base = format!("http://127.0.0.1:{}", server.port);
    assert!(get(&tool, &format!("{base}/a")).await.is_ok());
    assert!(get(&tool, &format!("{base}/private/open")).await.is_ok());
    let before = server.hits.load(Ordering::SeqCst);
    let error = get(&tool, &format!("{base}/private/x")).await.unwrap_err();
    assert!(error.contains("robots.txt of the server does not permit"), "{error}");
    assert_eq!(server.hits.load(Ordering::SeqCst), before, "neither the page nor the rules are fetched");
    let error = get(&tool, &format!("{base}/moved")).await.unwrap_err();
    assert!(
        error.contains("robots.txt of the server does not permit") && error.contains("/private/x"),
        "{error}"
    );
    assert_eq!(server.hits.load(Ordering::SeqCst), before + 1, "the target of the redirect is not fetched");
    let broken = serve(|path, _| match path {
        "/robots.txt" => status("503 Service Unavailable", ""),
        _ => page_of("text/plain", "x"),
    })
    .await;
    let error = get(&local(&broken), &format!("http://127.0.0.1:{}/", broken.port)).await.unwrap_err();
    assert!(error.contains("robots.txt"), "{error}");
}

#[test]
fn the_longest_rule_of_the_own_group_decides() {
    for (text, path, permits) in [
        ("", "/", true),
        ("user-agent: *\ndisallow:", "/", true),
        ("user-agent: *\ndisallow: /", "/", false),
        ("user-agent: a\nuser-agent: *\ndisallow: /x", "/x/y", false),
        ("user-agent: a\ndisallow: /\nuser-agent: b\ndisallow: /", "/", true),
        ("User-Agent : *\nDisallow : /a # note\nAllow: /a/b", "/a/b/c", true),
        ("user-agent: *\ndisallow: /*.pdf$", "/x/y.pdf", false),
        ("user-agent: *\ndisallow: /*.pdf$", "/x/y.pdf?z", true),
        ("user-agent: *\ndisallow: /a*b*c", "/axxbyyc", false),
        ("user-agent: *\ndisallow: /a$", "/a", false),
        ("user-agent: *\ndisallow: /a$", "/ab", true),
        ("user-agent: *\nallow: /p\ndisallow: /p", "/p", true),
        ("\u{feff}user-agent: *\ndisallow: /", "/", false),
        ("user-agent: looptree-web-fetch\nallow: /\nuser-agent: *\ndisallow: /", "/", true),
        ("user-agent: *\rdisallow: /\r", "/", false),
        ("user-agent: *\ndisallow: /%61%2fb", "/a%2Fb", false),
        ("user-agent: *\ndisallow: /\u{e9}", "/%c3%a9/x", false),
        ("user-agent: *\ndisallow: /a%2fb", "/a/b", true),
    ] {
        assert_eq!(Robots::parse(text).permits(path), permits, "{text:?} {path}");
    }
    // A hostile file takes time in proportion to its size.
    let many = format!("user-agent: *\ndisallow: /{}\n", "*a".repeat(robots::MAX_ROBOTS_BYTES / 2));
    assert!(Robots::parse(&many).permits(&format!("/{}", "a".repeat(MAX_URL_BYTES))));
}
