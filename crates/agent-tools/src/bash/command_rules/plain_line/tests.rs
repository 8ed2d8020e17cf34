use super::commands;

#[test]
fn a_plain_line_is_split_into_commands_and_words() {
    for (line, expected) in [
        ("ls -l /tmp", &[&["ls", "-l", "/tmp"] as &[&str]] as &[&[&str]]),
        ("ls;ls -a ;", &[&["ls"], &["ls", "-a"]]),
        ("a && b || c | d", &[&["a"], &["b"], &["c"], &["d"]]),
        ("a |\tb\nc\n\n", &[&["a"], &["b"], &["c"]]),
        ("echo 'a  b' \"c; d\" e'f'\"g\" ''", &[&["echo", "a  b", "c; d", "efg", ""]]),
        ("git show HEAD~1 HEAD^", &[&["git", "show", "HEAD~1", "HEAD^"]]),
        ("make --jobs=2 =x 1-2=3", &[&["make", "--jobs=2", "=x", "1-2=3"]]),
        ("echo if", &[&["echo", "if"]]),
        ("", &[]),
        ("\n \n", &[]),
    ] {
        assert_eq!(
            commands(line).as_deref(),
            Some(&expected.iter().map(words).collect::<Vec<_>>()[..]),
            "{line:?}"
        );
    }
}

fn words(words: &&[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn every_other_line_is_refused() {
    for line in [
        // Assignments, which set a variable in front of a command or are taken for one by `export` and `env`.
        "A=1 ls",
        "A=1",
        "A+=1 ls",
        "_a1= ls",
        "9=1 ls",
        "ls A=1",
        "ls;A=1 ls",
        // Separators without a command.
        ";",
        "ls;;ls",
        "ls &&",
        "ls |",
        "ls || \n",
        "ls &&\nls && ;",
        "| ls",
        "&& ls",
        "ls & ls",
        "ls &",
        "ls | | ls",
        // Reserved words.
        "if true",
        "! ls",
        "time ls",
        "ls; then ls",
        "'if' ls",
        // Everything with another meaning than its characters.
        "ls $HOME",
        "ls \"$HOME\"",
        "ls `id`",
        "ls \"`id`\"",
        "ls *",
        "ls a?",
        "ls {a,b}",
        "{ ls",
        "(ls)",
        "ls > a",
        "ls < a",
        "ls # a",
        "ls \\a",
        "ls \"a\\b\"",
        "ls \"a!b\"",
        "ls ~",
        "ls ~/a",
        "ls a:~b",
        "ls --a=~b",
        "ls ^a",
        "ls 'a",
        "ls \"a",
        "ls 'a\nb'",
        "ls 'a\tb'",
        "ls \u{a0}a",
        "ls ä",
        "ls\ra",
    ] {
        assert_eq!(commands(line), None, "{line:?}");
    }
}
