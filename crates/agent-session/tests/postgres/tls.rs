//! TLS to the server.

use std::path::Path;
use std::process::Command;

use agent_session::{PostgresConfig, PostgresStore, SessionStore as _};

use super::scene::block_on;
use super::scene::postgres::server::{Data, Server};

fn openssl(dir: &Path, arguments: &[&str]) -> bool {
    let done = Command::new("openssl").args(arguments).current_dir(dir).output();
    done.is_ok_and(|done| done.status.success())
}

/// A server with a certificate for `localhost` and 127.0.0.1 of an authority of its own, and another authority.
fn server(dir: &Path) -> Option<Server> {
    super::address("tls")?;
    std::fs::write(dir.join("ext"), "subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
        .unwrap();
    let new = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"];
    let request = ["req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"];
    let is_made =
        openssl(dir, &[&new[..], &["-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.pem"]].concat())
            && openssl(
                dir,
                &[&new[..], &["-subj", "/CN=other", "-keyout", "o.key", "-out", "other.pem"]].concat(),
            )
            && openssl(dir, &[&request[..], &["-keyout", "server.key", "-out", "server.csr"]].concat())
            && openssl(
                dir,
                &[
                    "x509",
                    "-req",
                    "-in",
                    "server.csr",
                    "-CA",
                    "ca.pem",
                    "-CAkey",
                    "ca.key",
                    "-CAcreateserial",
                    "-days",
                    "2",
                    "-extfile",
                    "ext",
                    "-out",
                    "server.pem",
                ],
            );
    if !is_made {
        println!("skipped: the tests of TLS to Postgres; there is no openssl to make certificates");
        return None;
    }
    let directory = std::env::temp_dir().join(format!("looptree-tls-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    for file in ["server.key", "server.pem"] {
        std::fs::copy(dir.join(file), directory.join(file)).unwrap();
    }
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(directory.join("server.key"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let file = |name: &str| directory.join(name).display().to_string();
    let (key, certificate) =
        (format!("ssl_key_file={}", file("server.key")), format!("ssl_cert_file={}", file("server.pem")));
    Some(Server::start(&directory, Data::Removed, &["fsync=off", "ssl=on", &key, &certificate]).unwrap())
}

#[test]
fn a_url_that_demands_tls_gets_it_verified_or_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let Some(server) = server(dir.path()) else { return };
    let with = |options: &str| PostgresConfig::new(&format!("{}?{options}", server.url())).unwrap();
    let roots = |name: &str| format!("sslmode=verify-full&sslrootcert={}", dir.path().join(name).display());
    block_on(async {
        let store = PostgresStore::open_with(with(&roots("ca.pem"))).await.unwrap();
        assert!(store.list_session_ids().await.unwrap().is_empty());
        let address = super::scene::postgres::Address { url: server.url(), schema: "looptree".to_owned() };
        let encrypted = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
                         WHERE application_name = 'looptree' AND ssl";
        assert_ne!(address.sql(encrypted), [Some("0".to_owned())], "the connections are encrypted");
        // An authority that is not the server's, and those of the operating system.
        for options in [roots("other.pem"), "sslmode=require".to_owned()] {
            let refused = PostgresStore::open_with(with(&options)).await.unwrap_err().to_string();
            assert!(refused.contains("certificate") || refused.contains("TLS"), "{refused}");
        }
        let missing = PostgresStore::open_with(with(&roots("missing.pem"))).await.unwrap_err().to_string();
        assert!(missing.contains("missing.pem"), "{missing}");
        // A name that the certificate does not have.
        let other = server.url().replace("127.0.0.1", "127.0.0.2");
        let other = PostgresConfig::new(&format!("{other}?{}", roots("ca.pem"))).unwrap();
        assert!(PostgresStore::open_with(other).await.is_err());
    });
}

/// A server without TLS does not get the password of a URL that demands it.
#[test]
fn a_server_without_tls_is_refused_where_the_url_demands_it() {
    let Some(address) = super::address("plain") else { return };
    let url = format!("{}?sslmode=verify-full", address.url);
    let refused = block_on(PostgresStore::open(&url)).unwrap_err().to_string();
    assert!(refused.contains("TLS"), "{refused}");
}
