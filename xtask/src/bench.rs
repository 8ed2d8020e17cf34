//! `cargo xtask bench`: checks that cost grows with the size of new input only, in allocations and instructions.
//!
//! A delta of a long message must cost what one of a short message costs, and a turn of a long run what one of a short run
//! does. Counts do not depend on the machine's load; nothing here is a time.

mod context;
mod sessions;
mod sim;
mod travel;
mod ws;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, bail};
use serde::Deserialize;

use crate::cargo;
use crate::workspace::Workspace;

/// A delta of the longest message may cost this many times what one of the shortest costs.
const DELTA_GROWTH: f64 = 1.1;
/// A turn of the longest run may cost this many times what one of the shortest costs.
const TURN_GROWTH: f64 = 1.2;

/// Instructions that a byte of a request may cost, of messages which were sent before. To encode one again costs more.
const BYTE_COST: f64 = 0.5;

/// What one run used.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Use {
    allocations: f64,
    bytes: f64,
    #[serde(skip)]
    request_bytes: f64,
    #[serde(skip)]
    instructions: Option<f64>,
}

/// A growth that is compared with its bound.
struct Row {
    what: &'static str,
    short: f64,
    long: f64,
    bound: f64,
}

pub(crate) fn run(workspace: &Workspace, rest: &[String]) -> anyhow::Result<bool> {
    match rest.first().map(String::as_str) {
        None => {}
        Some("context") if rest.len() == 1 => return context::context(2_000),
        Some("session") if rest.len() == 1 => return sessions::session(&workspace.root),
        Some("store") if rest.len() == 1 => return sessions::store(&workspace.root),
        Some("memory") if rest.len() == 1 => return sessions::memory(&workspace.root),
        Some("travel") if rest.len() == 1 => return travel::travel(&workspace.root),
        Some("sim") if rest.len() <= 2 => return sim::sim(workspace, rest.get(1).map(String::as_str)),
        Some("ws") if rest.len() == 1 => return ws::ws(),
        Some("durable") if rest.len() == 1 => return crate::durable::bench(workspace),
        Some(_) => bail!(
            "bench takes nothing, `context`, `session`, `store`, `memory`, `sim [NUMBER]`, `travel`, `ws` or `durable`"
        ),
    }
    let built = cargo::run(
        &workspace.root,
        &["build", "--release", "--package", "looptree-examples", "--bin", "looptree_bench"],
        &[],
    )?;
    if !built {
        return Ok(false);
    }
    let program = target(&workspace.root)?.join("release").join("looptree_bench");
    let server = Server::start(&program)?;
    let valgrind =
        Command::new("valgrind").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let counts = valgrind.is_ok_and(|s| s.success());
    if !counts {
        println!("instructions are not counted: valgrind is not installed");
    }
    let measure = |model: &str| server.measure(&program, model, counts);

    let (d0, d1, d2) = (measure("text-1")?, measure("text-1000")?, measure("text-100000")?);
    let (t0, t1, t2) = (measure("tools-1")?, measure("tools-100")?, measure("tools-1000")?);
    let mut good = true;
    let mut rows = vec![
        row("allocations a delta", DELTA_GROWTH, |u| u.allocations, [(d0, 1.0), (d1, 1e3), (d2, 1e5)]),
        row("bytes allocated a delta", DELTA_GROWTH, |u| u.bytes, [(d0, 1.0), (d1, 1e3), (d2, 1e5)]),
        row("allocations a turn", TURN_GROWTH, |u| u.allocations, [(t0, 1.0), (t1, 1e2), (t2, 1e3)]),
    ];
    if counts {
        let instructions = |u: Use| u.instructions.unwrap_or_default();
        rows.push(row("instructions a delta", DELTA_GROWTH, instructions, [(d0, 1.0), (d1, 1e3), (d2, 1e5)]));
        // What a request costs for each of its bytes is set aside: it is copied into the body and given to the socket.
        let counted = server.cost_of_a_byte(&program)?;
        println!(
            "a byte of a request costs {counted:.3} instructions, at most {BYTE_COST}; they are set aside below"
        );
        good &= counted <= BYTE_COST;
        let aside = move |u: Use| instructions(u) - counted * u.request_bytes;
        rows.push(row(
            "instructions a turn, without requests",
            TURN_GROWTH,
            aside,
            [(t0, 1.0), (t1, 1e2), (t2, 1e3)],
        ));
    }
    println!("\n{:44} {:>12} {:>12} {:>8} {:>8}", "", "short", "long", "growth", "bound");
    for Row { what, short, long, bound } in rows {
        let growth = long / short;
        let within = growth <= bound;
        good &= within;
        let mark = if within { "" } else { "  too much" };
        println!("{what:44} {short:12.1} {long:12.1} {growth:8.3} {bound:8.1}{mark}");
    }
    println!(
        "\nshort and long: 1,000 and 100,000 deltas in one message; 100 and 1,000 turns with a result of 2 KiB each"
    );
    Ok(good)
}

/// The cost of one more unit, from a run of one to a short and to a long run.
fn row(
    what: &'static str,
    bound: f64,
    get: impl Fn(Use) -> f64,
    [base, short, long]: [(Use, f64); 3],
) -> Row {
    let unit = |(used, count): (Use, f64)| (get(used) - get(base.0)) / (count - base.1);
    Row { what, short: unit(short), long: unit(long), bound }
}

fn target(root: &Path) -> anyhow::Result<PathBuf> {
    let output = cargo::output(root, &["metadata", "--format-version", "1", "--no-deps"])?;
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("cargo metadata gave no JSON")?;
    let folder = metadata
        .get("target_directory")
        .and_then(|d| d.as_str())
        .context("cargo names no target directory")?;
    Ok(PathBuf::from(folder))
}

/// The model server; it is ended with this.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(program: &Path) -> anyhow::Result<Self> {
        let mut child = Command::new(program)
            .arg("serve")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let out = child.stdout.take().context("the server has no output")?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        Ok(Self { child, port: line.trim().parse().context("the server named no port")? })
    }

    fn base(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn measure(&self, program: &Path, model: &str, counts: bool) -> anyhow::Result<Use> {
        let _ = self.request_bytes()?;
        let output = Command::new(program).args(["run", &self.base(), model]).output()?;
        if !output.status.success() {
            bail!("the run of {model} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let mut used: Use = serde_json::from_slice(&output.stdout).context("the run printed no counts")?;
        used.request_bytes = self.request_bytes()?;
        if counts {
            used.instructions = Some(self.instructions(program, &["run", &self.base(), model])?);
        }
        println!(
            "{model}: {} allocations, {} bytes, {} bytes of requests",
            used.allocations, used.bytes, used.request_bytes
        );
        Ok(used)
    }

    fn instructions(&self, program: &Path, words: &[&str]) -> anyhow::Result<f64> {
        let output = Command::new("valgrind")
            // One instruction that copies byte by byte would count as one for each byte.
            .env("GLIBC_TUNABLES", "glibc.cpu.x86_rep_movsb_threshold=1000000000")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(program)
            .args(words)
            .stdout(Stdio::null())
            .output()?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let count =
            text.lines().find_map(|l| l.split("Collected : ").nth(1)).context("valgrind counted nothing")?;
        Ok(count.trim().parse()?)
    }

    /// What one more byte of a request costs whose messages were sent before: many requests less one, with a long history
    /// less a short one.
    fn cost_of_a_byte(&self, program: &Path) -> anyhow::Result<f64> {
        let ask = |units: &str, count: &str| -> anyhow::Result<(f64, f64)> {
            let _ = self.request_bytes()?;
            let instructions = self.instructions(program, &["ask", &self.base(), units, count])?;
            Ok((instructions, self.request_bytes()?))
        };
        let more = |units: &str| -> anyhow::Result<(f64, f64)> {
            let (one, many) = (ask(units, "1")?, ask(units, "41")?);
            Ok((many.0 - one.0, many.1 - one.1))
        };
        let (short, long) = (more("5")?, more("500")?);
        Ok((long.0 - short.0) / (long.1 - short.1))
    }

    /// Bytes of the requests since the last look.
    fn request_bytes(&self) -> anyhow::Result<f64> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.write_all(b"GET /stats HTTP/1.1\r\nhost: bench\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let body = answer.split("\r\n\r\n").nth(1).context("the server gave no figure")?;
        Ok(body.trim().parse()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
