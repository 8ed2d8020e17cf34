//! The command `looptree`.

fn main() -> std::process::ExitCode {
    looptree_cli::main()
}
