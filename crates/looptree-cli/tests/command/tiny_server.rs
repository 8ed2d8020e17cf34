//! A small MCP server for tests: a shell script that logs its process, its directory and its calls.

use std::path::PathBuf;
use std::time::Duration;

use super::{HANG, Project};

/// The script. Its first argument selects how it behaves.
const SCRIPT: &str = r#"
echo $$ >> "$LOG/pids"
pwd >> "$LOG/folders"
case "$1" in
  dead) echo "the database is locked" >&2; exit 3 ;;
  silent) while read -r line; do :; done ;;
  stubborn) trap '' TERM INT HUP ;;
esac
reply() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"method":"initialize"'*)
      reply '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"tiny","version":"1"}}' ;;
    *'"method":"tools/list"'*)
      reply '{"tools":[{"name":"run","description":"Runs it.","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object","properties":{"task":{"type":"string"}}}}]}' ;;
    *'"method":"tools/call"'*)
      printf '%s\n' "$line" >> "$LOG/calls"
      case "$line" in
        *hang*) ;;
        *) reply '{"content":[{"type":"text","text":"tiny has done it"}]}' ;;
      esac ;;
  esac
done
[ "$1" = stubborn ] && while :; do sleep 1; done
"#;

/// A server that is configured and what it logged.
pub(crate) struct Tiny {
    log: PathBuf,
}

impl Tiny {
    /// Writes the script and an empty log into the home of a project.
    pub(crate) fn new(project: &Project, name: &str) -> Self {
        let log = project.home().join(name);
        std::fs::create_dir(&log).unwrap();
        std::fs::write(log.join("server.sh"), SCRIPT).unwrap();
        Self { log }
    }

    /// The entry of a file with settings.
    pub(crate) fn toml(&self, name: &str, behaviour: &str) -> String {
        let (script, log) = (self.log.join("server.sh"), &self.log);
        let (script, log) = (script.display(), log.display());
        format!(
            "[mcp_servers.{name}]\ncommand = \"sh\"\nargs = [\"{script}\", \"{behaviour}\"]\nenv = {{ LOG = \"{log}\" }}\n"
        )
    }

    /// The entry of a file of other agents.
    pub(crate) fn json(&self) -> serde_json::Value {
        let script = self.log.join("server.sh");
        serde_json::json!({"command": "sh", "args": [script], "env": {"LOG": self.log}, "autoApprove": ["run"]})
    }

    /// The path of the script.
    pub(crate) fn script(&self) -> String {
        self.log.join("server.sh").display().to_string()
    }

    /// The folder of the log, for the variable `LOG` of the script.
    pub(crate) fn log(&self) -> String {
        self.log.display().to_string()
    }

    fn lines(&self, file: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.log.join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The calls that arrived.
    pub(crate) fn calls(&self) -> usize {
        self.lines("calls").len()
    }

    /// The processes, in the order of their starts.
    pub(crate) fn pids(&self) -> Vec<i32> {
        self.lines("pids").into_iter().map(|pid| pid.parse().unwrap()).collect()
    }

    /// How often it was started.
    pub(crate) fn starts(&self) -> usize {
        self.lines("pids").len()
    }

    /// The directories in which it was started.
    pub(crate) fn folders(&self) -> Vec<String> {
        self.lines("folders")
    }

    /// Whether one of its processes runs.
    pub(crate) fn runs(&self) -> bool {
        self.pids().into_iter().filter_map(rustix::process::Pid::from_raw).any(|pid| {
            // A zombie waits for its new parent and does nothing.
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat", pid = pid.as_raw_nonzero()));
            let is_zombie = stat.is_ok_and(|stat| stat.contains(") Z "));
            !is_zombie && rustix::process::test_kill_process(pid).is_ok()
        })
    }

    /// Waits until it has been started this often.
    pub(crate) async fn started(&self, times: usize) {
        self.until(|this| this.starts() >= times, "it was not started").await;
    }

    /// Waits until this many calls have arrived.
    pub(crate) async fn called(&self, times: usize) {
        self.until(|this| this.calls() >= times, "it was not called").await;
    }

    /// Waits until none of its processes runs.
    pub(crate) async fn ended(&self) {
        self.until(|this| !this.runs(), "it still runs").await;
    }

    async fn until(&self, holds: impl Fn(&Self) -> bool, otherwise: &str) {
        let waiting = async {
            while !holds(self) {
                tokio::time::sleep(Duration::from_millis(15)).await;
            }
        };
        tokio::time::timeout(HANG, waiting).await.expect(otherwise);
    }
}
