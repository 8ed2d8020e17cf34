//! The commands that "always" covers with other arguments than those that were shown.
//!
//! The list names what is allowed, because most programs can run others: by a subcommand, an option, a configuration or an alias. A word
//! that is not listed makes the whole line need an approval.

use looptree::tools::bash::plain_commands;

/// Subcommands of a program, and the arguments with which they run no other program, read no other configuration, and write no file
/// that an argument names.
struct Family {
    program: &'static str,
    subcommands: &'static [&'static str],
    /// The options, separated by blanks. One with an equals sign takes a value, behind this sign or as the next word.
    options: &'static str,
    /// The options behind `--`.
    options_behind: &'static str,
    /// The words that must be there, and the words that may be no option behind `--`.
    words: Words,
}

/// Which words a command must and may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Words {
    /// Any operand that stays inside of the directory.
    Operands,
    /// No operand behind `--`: a compiler reads it as a file, also of options.
    NoneBehind,
    /// `--check`, without which files are written, and nothing behind `--`.
    Check,
}

const FAMILIES: &[Family] = &[
    Family {
        program: "cargo",
        subcommands: &["test", "build", "check", "doc"],
        options: CARGO,
        // Of a test program, which is the project's own code.
        options_behind: "--nocapture --no-capture --exact --ignored --include-ignored --list --show-output -q --quiet --test-threads= --skip=",
        words: Words::Operands,
    },
    // Behind `--` are options of the compiler, which name a linker.
    Family {
        program: "cargo",
        subcommands: &["clippy"],
        options: CARGO,
        options_behind: "-D= -W= -A=",
        words: Words::NoneBehind,
    },
    Family {
        program: "cargo",
        subcommands: &["fmt"],
        options: "--all --check -q --quiet -v --verbose -p= --package=",
        options_behind: "",
        words: Words::Check,
    },
    Family {
        program: "go",
        subcommands: &["build", "test", "vet"],
        options: "-v -race -short -cover -failfast -json -count= -run= -skip= -timeout= -bench= -tags= -p=",
        options_behind: "",
        words: Words::Operands,
    },
    Family {
        program: "git",
        subcommands: &["status", "diff", "log", "show", "ls-files"],
        options: "-s --short -b --branch --porcelain -uno -uall --untracked-files --ignored -v --verbose --stat --numstat --shortstat \
                  --summary --cached --staged --name-only --name-status --check -w --ignore-all-space --ignore-space-change \
                  --word-diff -U= --unified= -p --patch --no-patch -M --find-renames --no-color --no-ext-diff --no-textconv --oneline \
                  --graph --all --decorate --no-decorate --merges --no-merges --reverse --first-parent --follow --abbrev-commit -n= \
                  --max-count= --since= --until= --after= --before= --author= --grep= --date= --diff-filter= -S= -G= -L=",
        options_behind: "",
        words: Words::Operands,
    },
    // Of blame, -S and --contents read any file.
    Family {
        program: "git",
        subcommands: &["blame"],
        options: "-w -s -e -l -t -c -f -n -p --porcelain --line-porcelain --root --date= -L= --since= --abbrev=",
        options_behind: "",
        words: Words::Operands,
    },
    Family {
        program: "git",
        subcommands: &["add"],
        options: "-A --all -u --update -n --dry-run -v --verbose",
        options_behind: "",
        words: Words::Operands,
    },
];

const CARGO: &str = "-q --quiet -v --verbose --locked --offline --frozen --workspace --all --lib --bins --tests --examples --benches \
                     --all-targets --all-features --no-default-features --release -r --no-run --no-fail-fast --keep-going --doc \
                     --no-deps -p= --package= --exclude= --features= -F= --test= --bin= --example= --bench= --profile= -j= --jobs= \
                     --color= --message-format=";

impl Family {
    /// Returns whether all arguments behind the subcommand are allowed.
    fn allows(&self, arguments: &[String]) -> bool {
        let (mut options, mut rest) = (self.options, arguments.iter());
        let mut is_behind = false;
        if self.words == Words::Check && !arguments.iter().any(|word| word == "--check") {
            return false;
        }
        while let Some(word) = rest.next() {
            let is_allowed = match word.as_str() {
                "--" if !is_behind => {
                    (options, is_behind) = (self.options_behind, true);
                    self.words != Words::Check
                }
                option if option.starts_with('-') => match takes_value(options, option) {
                    Some(true) => {
                        rest.next().is_some_and(|value| !value.starts_with('-') && is_inside(value))
                    }
                    Some(false) => true,
                    None => false,
                },
                operand => is_inside(operand) && !(is_behind && self.words == Words::NoneBehind),
            };
            if !is_allowed {
                return false;
            }
        }
        true
    }
}

/// Returns whether the value of a listed option is the next word; `None` for an option that is not listed or has another value.
fn takes_value(options: &str, option: &str) -> Option<bool> {
    let is_listed = |wanted: &str| options.split(' ').any(|listed| listed == wanted);
    let is_number = option.len() > 1 && option.chars().skip(1).all(|c| c.is_ascii_digit());
    match option.split_once('=') {
        Some((name, value)) => (is_inside(value) && is_listed(&format!("{name}="))).then_some(false),
        None if is_number || is_listed(option) => Some(false),
        None => is_listed(&format!("{option}=")).then_some(true),
    }
}

/// Returns whether an operand or a value stays inside of the directory as a path: with others, `git diff` compares any two files. A
/// compiler reads further options from the file behind an `@`.
fn is_inside(word: &str) -> bool {
    !word.starts_with(['/', '@']) && word.split('/').all(|part| part != "..")
}

/// Returns the program and the subcommand that a line runs with allowed arguments, as `cargo test`. A line of several commands runs the
/// same ones in each.
pub(super) fn covered(line: &str) -> Option<String> {
    let commands = plain_commands(line)?;
    let mut found = commands.iter().map(|words| {
        let [program, subcommand, arguments @ ..] = words.as_slice() else { return None };
        let is_allowed = |family: &&Family| {
            family.program == program
                && family.subcommands.contains(&subcommand.as_str())
                && family.allows(arguments)
        };
        FAMILIES.iter().find(is_allowed).map(|_| format!("{program} {subcommand}"))
    });
    let first = found.next()??;
    found.all(|other| other.as_ref() == Some(&first)).then_some(first)
}

#[cfg(test)]
mod tests;
