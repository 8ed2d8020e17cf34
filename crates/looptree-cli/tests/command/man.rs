//! `looptree man` and `looptree completions`.

use super::Project;

/// The names of the commands, as `--help` lists them.
fn commands(help: &str) -> Vec<&str> {
    let list = help.split_once("\nCommands:\n").unwrap().1;
    list.lines()
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect()
}

/// The long flags that `--help` lists.
fn flags(help: &str) -> Vec<&str> {
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let words = lines.filter_map(|line| line.split([' ', '=', '[']).find(|word| word.starts_with("--")));
    words.collect()
}

#[tokio::test]
async fn the_manual_page_names_every_command_and_every_flag() {
    let dir = Project::new();
    let help = dir.run(&["--help"]).await.out;
    let (commands, flags) = (commands(&help), flags(&help));
    assert!(commands.contains(&"sessions") && commands.len() > 10, "{commands:?}");
    assert!(flags.contains(&"--sandbox") && flags.contains(&"--print") && flags.len() > 25, "{flags:?}");

    let page = dir.run(&["man"]).await;
    assert_eq!(page.code, 0, "{page:?}");
    assert!(page.out.contains(".TH looptree 1"), "{}", page.out);
    // A dash is written as `\-`.
    let text = page.out.replace("\\-", "-");
    for name in commands {
        assert!(text.contains(&format!("looptree-{name}(1)")), "{name} is missing:\n{text}");
    }
    for flag in flags {
        assert!(text.contains(flag), "{flag} is missing:\n{text}");
    }
    assert!(text.contains("Exit codes"), "{text}");
}

#[tokio::test]
async fn each_command_has_a_manual_page_in_the_directory() {
    let dir = Project::new();
    let folder = dir.home().join("man");
    let said = dir.run(&["man", folder.to_str().unwrap()]).await;
    assert_eq!((said.code, said.out.as_str()), (0, ""), "{said:?}");
    let page = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    assert!(page("looptree.1").contains(".TH looptree 1"), "{}", page("looptree.1"));
    let help = dir.run(&["--help"]).await.out;
    for name in commands(&help) {
        assert!(!page(&format!("looptree-{name}.1")).is_empty(), "{name} has no page");
    }
    assert!(page("looptree-sessions-export.1").replace("\\-", "-").contains("--otlp"));

    std::fs::write(dir.path().join("file"), "").unwrap();
    let said = dir.run(&["man", "file"]).await;
    assert!(said.code == 1 && said.err.contains("cannot write the manual pages to file"), "{said:?}");
}

#[tokio::test]
async fn the_completions_of_each_shell_name_every_command() {
    let dir = Project::new();
    let help = dir.run(&["--help"]).await.out;
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let said = dir.run(&["completions", shell]).await;
        assert_eq!(said.code, 0, "{said:?}");
        for name in commands(&help) {
            assert!(said.out.contains(name), "{shell}: {name} is missing");
        }
    }
}
