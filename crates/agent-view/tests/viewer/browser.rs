//! A browser for one test: ChromeDriver on a free port, and Chromium with an empty profile.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use thirtyfour::prelude::*;
use thirtyfour::{LoggingPrefsLogLevel, WindowHandle};

/// Far more than anything here takes.
const HANG: Duration = Duration::from_secs(90);

/// The arguments with which Chromium runs without a screen and asks nothing of the network by itself.
const ARGUMENTS: &[&str] = &[
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-features=OptimizationHints,MediaRouter,Translate",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--window-size=1360,900",
];

pub(crate) struct Browser {
    pub(crate) driver: WebDriver,
    folder: tempfile::TempDir,
    server: Child,
    port: u16,
}

impl Browser {
    /// Starts a browser; `None` if this machine has none.
    pub(crate) async fn start() -> Option<Self> {
        let (Some(driver), Some(chromium)) =
            (find("chromedriver"), find("chromium").or_else(|| find("google-chrome")))
        else {
            eprintln!("skipped: chromium and chromedriver are not installed (cargo xtask browser)");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("chromedriver.log");
        let output = std::fs::File::create(&log).unwrap();
        let mut server = Command::new(driver);
        server.arg("--port=0").stdin(Stdio::null()).stdout(output).stderr(Stdio::null());
        let server = server.spawn().unwrap();
        let port = port_of(&log).await;
        let mut wanted = DesiredCapabilities::chrome();
        wanted.set_binary(chromium.to_str().unwrap()).unwrap();
        for argument in ARGUMENTS {
            wanted.add_arg(argument).unwrap();
        }
        wanted.add_arg(&format!("--user-data-dir={}", folder.path().join("profile").display())).unwrap();
        wanted.add_arg(&format!("--log-net-log={}", folder.path().join("net.json").display())).unwrap();
        wanted.set_browser_log_level(LoggingPrefsLogLevel::All).unwrap();
        let driver = WebDriver::new(format!("http://127.0.0.1:{port}"), wanted).await.unwrap();
        driver.set_page_load_timeout(HANG).await.unwrap();
        driver.set_script_timeout(HANG).await.unwrap();
        Some(Self { driver, folder, server, port })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Opens a page from a file, with this behind the `#`, and waits until its script has run.
    pub(crate) async fn open(&self, html: &str, hash: &str) {
        let file = self.folder().join("page.html");
        std::fs::write(&file, html).unwrap();
        self.open_file(&file, hash).await;
    }

    pub(crate) async fn open_file(&self, file: &Path, hash: &str) {
        // A change of the part behind the `#` alone loads nothing.
        self.driver.goto("about:blank").await.unwrap();
        self.driver.goto(format!("file://{}{hash}", file.display())).await.unwrap();
        self.until("document.documentElement.dataset.ready").await;
    }

    /// Runs a script that returns something.
    pub(crate) async fn js(&self, script: &str) -> Value {
        let result = self.driver.execute(format!("return ({script});"), Vec::new()).await;
        result.unwrap_or_else(|error| panic!("{script}: {error}")).json().clone()
    }

    pub(crate) async fn text(&self, selector: &str) -> String {
        let script = format!(
            "[...document.querySelectorAll({selector:?})].map((el) => el.innerText).join('\\n').toWellFormed()"
        );
        self.js(&script).await.as_str().unwrap_or_default().to_owned()
    }

    pub(crate) async fn count(&self, selector: &str) -> u64 {
        self.js(&format!("document.querySelectorAll({selector:?}).length")).await.as_u64().unwrap()
    }

    /// Waits until an expression is true.
    pub(crate) async fn until(&self, condition: &str) {
        let end = Instant::now() + HANG;
        while !self.js(&format!("Boolean({condition})")).await.as_bool().unwrap() {
            if Instant::now() > end {
                panic!("this never becomes true: {condition}\nconsole: {:?}", self.console().await);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Presses keys on the page, as a user does.
    pub(crate) async fn press(&self, keys: &str) {
        self.driver.action_chain().send_keys(keys).perform().await.unwrap();
    }

    pub(crate) async fn click(&self, selector: &str) {
        self.driver.find(By::Css(selector)).await.unwrap().click().await.unwrap();
    }

    /// Changes the part of the address behind the `#`, as a click on a link does.
    pub(crate) async fn visit(&self, hash: &str) {
        self.js(&format!("(location.hash = {hash:?})")).await;
    }

    /// The messages of the console: errors of scripts, and what the content security policy refused.
    pub(crate) async fn console(&self) -> Vec<String> {
        self.driver.browser_log().await.unwrap().into_iter().map(|entry| entry.message).collect()
    }

    pub(crate) async fn windows(&self) -> Vec<WindowHandle> {
        self.driver.windows().await.unwrap()
    }

    /// Ends the browser and returns its log of network events.
    pub(crate) async fn quit(mut self) -> String {
        self.driver.clone().quit().await.unwrap();
        let _ = self.server.kill();
        let _ = self.server.wait();
        std::fs::read_to_string(self.folder.path().join("net.json")).unwrap_or_default()
    }
}

/// Ends the browser of a test that has failed.
impl Drop for Browser {
    fn drop(&mut self) {
        // Fails after `quit`. Without it, the driver would wait for an answer of the server that ends here.
        if self.driver.clone().leak().is_ok()
            && let Ok(mut stream) = std::net::TcpStream::connect(("127.0.0.1", self.port))
        {
            let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
            let session = self.driver.session_id().to_string();
            let _ =
                write!(stream, "DELETE /session/{session} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", self.port);
            let _ = stream.read(&mut [0; 64]);
        }
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Waits until ChromeDriver has written its port.
async fn port_of(log: &Path) -> u16 {
    let end = Instant::now() + HANG;
    loop {
        let text = std::fs::read_to_string(log).unwrap();
        let port = text.split("started successfully on port ").nth(1).and_then(|rest| rest.split('.').next());
        if let Some(port) = port.and_then(|port| port.parse().ok()) {
            return port;
        }
        assert!(Instant::now() < end, "chromedriver does not start: {text}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
