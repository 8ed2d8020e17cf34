use super::*;

#[test]
fn everyday_commands_are_covered_with_other_arguments() {
    for (line, prefix) in [
        ("cargo test", "cargo test"),
        ("cargo test -p core --test names a_test -- --nocapture --test-threads 1", "cargo test"),
        ("cargo test 'two words'; cargo test --features a,b\n", "cargo test"),
        ("cargo clippy --all-targets -- -D warnings", "cargo clippy"),
        ("cargo fmt --check", "cargo fmt"),
        ("go test -run TestX -count=1 ./...", "go test"),
        ("git log --oneline -5 main..HEAD -- src/lib.rs", "git log"),
        ("git diff --stat HEAD~1", "git diff"),
        ("git add -A .", "git add"),
    ] {
        assert_eq!(covered(line).as_deref(), Some(prefix), "{line}");
    }
}

#[test]
fn a_command_that_can_run_another_program_is_not_covered() {
    for line in [
        // Programs that run what their arguments name.
        "npm exec -c true",
        "npm test",
        "npx x",
        "pnpm dlx x",
        "yarn node x.js",
        "uv run pytest",
        "uv tool run x",
        "poetry run x",
        "rustup run nightly x",
        "bun x y",
        "deno run x.ts",
        "gh api /user",
        "gh alias set x '!sh'",
        "bazel run //x",
        "dotnet exec x.dll",
        "gradle build",
        "mvn -Dx=y test",
        "pip install .",
        "make",
        "cargo run",
        "cargo install x",
        "cargo xtask",
        "cargo t",
        "go run x.go",
        "go generate",
        "git x",
        "git submodule foreach ls",
        "git bisect run ls",
        "git rebase --exec ls HEAD~1",
        "git config alias.x '!ls'",
        "git filter-branch",
        "git difftool",
        "git commit -m x",
        "git push",
        "git grep -Ols x",
        // Options that name a program, a configuration, or a file that is written.
        "cargo clippy -- @options.txt",
        "cargo clippy -- options.rs",
        "cargo fmt",
        "cargo fmt --check -- link.rs",
        "cargo clippy @options.txt",
        "cargo test --config x=y",
        "cargo +nightly test",
        "cargo test --manifest-path ../x/Cargo.toml",
        "cargo test -Zunstable-options",
        "cargo -Z x test",
        "cargo test --target evil.json",
        "cargo test --target-dir /tmp/x",
        "cargo build --artifact-dir=/tmp",
        "cargo build -C /tmp/x",
        "cargo clippy -- -C linker=./evil",
        "cargo clippy -- -Clinker=./evil",
        "cargo fmt -- --config-path /tmp",
        "cargo doc --open",
        "cargo test -- --logfile /tmp/x",
        "cargo test --test -- --config",
        "cargo test --test",
        "go test -exec ./evil",
        "go test --exec=./evil",
        "go test -o /tmp/x",
        "go build -toolexec=./evil",
        "go vet -vettool=./evil",
        "go build -ldflags=-extld=./evil",
        "go build -overlay=x",
        "git -c core.pager=evil log",
        "git -C /tmp log",
        "git --git-dir=x status",
        "git diff --output=x",
        "git diff --outp=x",
        "git diff --ext-diff",
        "git log --textconv",
        "git log --show-signature",
        "git log --format=%GG",
        "git diff --no-index a b",
        "git diff /dev/null /etc/passwd",
        "git diff a ../../b",
        "git add -p",
        "git add -e",
        "git diff -- --output=x",
        // Lines that are more than these words.
        "GIT_SSH=x git log",
        "env git status",
        "./git status",
        "/usr/bin/git status",
        "git status > x",
        "git status $(x)",
        "git status `x`",
        "git status | sh",
        "git status && git log",
        "git status *",
        "git  'status'\\x",
        "cargo",
        "",
    ] {
        assert_eq!(covered(line), None, "{line}");
    }
}

/// A small generator (SplitMix64), so that a failure can be repeated.
fn below(state: &mut u64, bound: usize) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    usize::try_from((z ^ (z >> 31)) % u64::try_from(bound).unwrap()).unwrap()
}

/// Random lines from words of both kinds: what is covered has the program, its subcommand, listed options, and operands inside of the
/// directory, and nothing else.
#[test]
fn a_covered_line_consists_of_listed_words() {
    let listed: Vec<String> = FAMILIES
        .iter()
        .flat_map(|family| [family.options, family.options_behind])
        .flat_map(|options| options.split(' '))
        .flat_map(|option| match option.strip_suffix('=') {
            Some(name) => vec![name.to_owned(), format!("{name}=v")],
            None => vec![option.to_owned()],
        })
        .filter(|option| !option.is_empty())
        .collect();
    let others = [
        "v",
        "a/b",
        "--",
        "-",
        "-3",
        "..",
        "a/../b",
        "/abs",
        "--config",
        "--config=x",
        "-c",
        "--output=x",
        "-exec",
        "-Cx",
        "+nightly",
        "x=y",
        "$(x)",
        ";",
        "&&",
        "|",
        ">f",
        "'a b'",
        "\"-x\"",
        "git",
        "status",
        "cargo",
        "test",
        "run",
        "exec",
        "~",
        "{a,b}",
        "*",
    ];
    let firsts = [
        "cargo test",
        "cargo clippy",
        "cargo fmt",
        "go test",
        "git log",
        "git add",
        "git status",
        "cargo run",
        "npm exec",
    ];
    let (mut state, mut hits) = (35_u64, 0);
    for _ in 0..40_000 {
        let mut words = vec![firsts[below(&mut state, firsts.len())].to_owned()];
        for _ in 0..below(&mut state, 4) {
            let is_listed = below(&mut state, 3) > 0;
            words.push(if is_listed {
                listed[below(&mut state, listed.len())].clone()
            } else {
                others[below(&mut state, others.len())].to_owned()
            });
        }
        let line = words.join(" ");
        let Some(prefix) = covered(&line) else { continue };
        hits += 1;
        for words in plain_commands(&line).unwrap() {
            assert_eq!(words[..2].join(" "), prefix, "{line}");
            let family = |family: &&Family| {
                family.program == words[0] && family.subcommands.contains(&words[1].as_str())
            };
            let family = FAMILIES.iter().find(family).unwrap();
            let known: Vec<&str> =
                family.options.split(' ').chain(family.options_behind.split(' ')).collect();
            for word in &words[2..] {
                let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
                let is_option =
                    known.contains(&word.as_str()) || known.contains(&format!("{name}=").as_str());
                let is_free = !word.starts_with('-')
                    && !word.starts_with('/')
                    && !word.split('/').any(|part| part == "..");
                assert!(word == "--" || word == "-3" || is_option || is_free, "{word} in {line}");
            }
        }
    }
    assert!(hits > 1_000, "{hits}");
}
