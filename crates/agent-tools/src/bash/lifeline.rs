//! Ends a command when the process that started it is gone.
//!
//! The shell of the command first starts a guard, a second shell in the same process group. The guard waits for the end of
//! a pipe whose other end only this process has. The pipe ends when this process ends, also by SIGKILL. The guard then
//! kills the processes with the marker of the command, and finally the group with itself. It ignores SIGTERM, has no part
//! in the pipes of the command, and ends with the group when the command ends by itself.
//!
//! Parent-death signals are not used: they arrive when the *thread* ends that started the child, they reach only the
//! child itself, and setting one needs code between `fork` and `exec`.

/// The script of the first shell. `$1` is the command and `$2` its marker. A line on standard input starts it, so that the
/// process can be put into a cgroup before.
///
/// `grep` finds the marked processes that have left the group; a system without `/proc` has none to show.
pub(super) const GUARDED: &str = r#"IFS= read -r _ || exit 1
exec 9<&0 </dev/null
{
    trap '' TERM HUP INT
    while IFS= read -r _ <&9; do :; done
    for pass in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        found=
        for one in $(grep -lzs -e "^LOOPTREE_CALL=.*$2" /proc/[0-9]*/environ); do
            one=${one#/proc/} one=${one%/environ}
            [[ $one == "$BASHPID" ]] || { kill -KILL "$one" && found=1; }
        done
        [[ $found ]] || break
    done
    kill -KILL 0
} >/dev/null 2>&1 &
exec 9<&-
exec "$BASH" -c "$1"
"#;
