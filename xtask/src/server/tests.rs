use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{Response, Server};

async fn ask(base: &str, path: &str, body: &str) -> String {
    let rest = base.strip_prefix("http://").unwrap();
    let (address, id) = rest.split_once('/').unwrap();
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request =
        format!("POST /{id}{path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    // The request may come in pieces too.
    for part in request.as_bytes().chunks(7) {
        stream.write_all(part).await.unwrap();
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn each_piece_is_a_chunk_of_its_own_under_any_path() {
    let server = Server::start().await.unwrap();
    let headers = [("content-type", "text/event-stream"), ("content-length", "999"), ("x-a", "b")];
    let base = server.prepare(Response {
        status: 429,
        headers: headers.map(|(n, v)| (n.to_owned(), v.to_owned())).into(),
        pieces: vec![b"ab".to_vec(), b"c\n".to_vec()],
        ..Response::default()
    });
    let answer = ask(&base, "/v1/messages", "{\"hello\": true}").await;
    assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
    assert!(answer.contains("\r\nx-a: b\r\n") && !answer.contains("999"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n2\r\nab\r\n2\r\nc\n\r\n0\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn two_responses_do_not_meet_and_an_unknown_path_is_not_found() {
    let server = Server::start().await.unwrap();
    let response = |text: &str| Response { status: 200, pieces: vec![text.into()], ..Response::default() };
    let one = server.prepare(response("one"));
    let two = server.prepare(response("two"));
    assert!(ask(&two, "/x", "").await.contains("two"));
    assert!(ask(&one, "/x", "").await.contains("one"));
    assert!(ask(&format!("{one}0000"), "/x", "").await.starts_with("HTTP/1.1 404 "));
    assert!(ask(&format!("{one}0000"), "", "").await.starts_with("HTTP/1.1 404 "));
}

#[tokio::test]
async fn responses_come_one_after_the_other_and_what_was_asked_is_kept() {
    let server = Server::start().await.unwrap();
    let response = |text: &str| Response { status: 200, pieces: vec![text.into()], ..Response::default() };
    let base = server.prepare_all(vec![response("one"), response("two")]);
    let other = server.prepare(response("other"));
    for (body, answer) in [("a", "one"), ("bé", "two"), ("c", "two")] {
        assert!(ask(&base, "/api/chat", body).await.contains(answer), "{body}");
    }
    let received = server.received(&base);
    let bodies: Vec<&[u8]> = received.iter().map(|r| r.body.as_slice()).collect();
    assert_eq!(bodies, [b"a".as_slice(), "bé".as_bytes(), b"c"]);
    assert!(received.iter().all(|r| r.path == "/api/chat"), "{received:?}");
    assert!(server.received(&other).is_empty());
}
