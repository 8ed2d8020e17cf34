use serde_json::json;

use super::{DenyPattern, first_match, runs_only};

/// X5.
#[test]
fn only_lines_of_listed_commands_need_not_be_asked_about() {
    #[track_caller]
    fn check(command: &str, expect: bool) {
        let harmless = runs_only(["git status", "cargo test", "ls", "grep"]);
        assert_eq!(harmless(&json!({"command": command})), expect, "{command}");
    }
    check("ls", true);
    check("  ls -la src", true);
    check("git status --short", true);
    check("git status && cargo test -q", true);
    check("cargo test 'a name with blanks' | grep -c ok", true);
    check("git status\nls", true);
    check("ls;\n\n git status\n", true);
    check("git status HEAD~1 HEAD^ --a=b", true);
    check("grep 'a\\.b$' \"c d\" 'ä'", true);

    check("", false);
    check("   ", false);
    check("ls # and rm -rf /", false);
    for blank in
        ["\r", "\u{b}", "\u{c}", "\u{a0}", "\u{85}", "\u{2000}", "\u{2028}", "\u{3000}", "\u{feff}", "\u{1}"]
    {
        check(&format!("ls {blank}#; rm x"), false);
        check(&format!("ls{blank}"), false);
        check(&format!("ls '{blank}'"), blank == "\u{feff}");
    }
    for line in [
        "ls *",
        "ls ?",
        "ls [a]",
        "ls ~",
        "ls a:~",
        "ls {a,b}",
        "ls !x",
        "ls \\x",
        "ls &",
        "ls |& grep a",
        "ls ;; ls",
        "; ls",
        "ls; ;",
        "ls &&",
        "ls &&\nls",
        "| ls",
        "ls 'a",
        "ls \"a",
        "ls \"$x\"",
        "ls \"`x`\"",
        "ls \"a\\\"",
        "time ls",
        "! ls",
        "coproc ls",
        "[[ ls ]]",
        "function ls",
        "ls <<a\na",
        "ls <a",
        "ls ä",
        "A+=1 ls",
        "ls 2>a",
        "case ls in ls) ls;; esac",
        "ls $'a'",
        "ls\0",
    ] {
        check(line, false);
    }
    check("git", false);
    check("git push", false);
    check("gitstatus", false);
    check("lsof", false);
    check("git status; rm -rf ~", false);
    check("git status & rm x", false);
    check("git status || rm x", false);
    check("git status\nrm x", false);
    check("ls | xargs rm", false);
    check("ls $(rm x)", false);
    check("ls `rm x`", false);
    check("ls \"$(rm x)\"", false);
    check("ls <(rm x)", false);
    check("ls > x", false);
    check("ls 2>&1", false);
    check("ls {a,$x}", false);
    check("PATH=. ls", false);
    check("ls; A[0]=1 ls", false);
    check("sudo ls", false);
    check("env ls", false);
    check("bash -c ls", false);
    check("eval ls", false);
    check("(rm x)", false);
    check("{ rm x; }", false);
    check("if true; then rm x; fi", false);
    check("l\\s; rm x", false);
    check("'ls'; 'rm' x", false);
    check("ls() { rm x; }; ls", false);
}

#[test]
fn what_is_no_command_and_an_empty_list_are_asked_about() {
    assert!(!runs_only(["ls"])(&json!({})));
    assert!(!runs_only(["ls"])(&json!({"command": 3})));
    assert!(!runs_only(["", " "])(&json!({"command": "ls"})));
    assert!(!runs_only(Vec::<String>::new())(&json!({"command": "ls"})));
}

#[track_caller]
fn is_denied(command: &str) -> bool {
    first_match(&DenyPattern::defaults(), command).is_some()
}

/// A14.
#[test]
fn well_known_disasters_are_denied_by_default() {
    for command in [
        "rm -rf /",
        "rm -r /*",
        "rm --recursive /",
        "rm -fr ~",
        "rm -rf ~/",
        "rm -rf ~/*",
        "rm -rf $HOME",
        "rm -rf \"$HOME\"",
        "rm -rf ${HOME}/",
        "rm -rf \"$HOME\"/*",
        "rm -rf *",
        "rm -rf ./*",
        "rm -rf ../*",
        "rm -rf a ../../*",
        "rm -rf $PWD",
        "rm -rf \"$PWD\"/*",
        "rm -rf /etc",
        "rm -rf /usr/",
        "rm -rf /home/me/*",
        "rm -rf /home/me",
        "rm -rf /tmp/..",
        "sudo rm -Rf --no-preserve-root /",
        "cd x; rm -rf /var",
        "bash -c 'rm -rf ~'",
        "ls \r#; rm -rf /",
        "ls \u{a0}#; rm -rf ~",
        "chmod -R 777 /",
        "chmod -R 777 /*",
        "chown -R me /",
        "chown --recursive me:me /usr",
        "chgrp -R me /etc",
        "chmod -R 777 ~",
        "mv / /tmp/x",
        "mv /* /tmp",
        "mv ~ /dev/null",
        "mv /etc /tmp",
        "find / -delete",
        "find / -name '*.o' -delete",
        "find ~ -exec rm -rf {} +",
        "find -L / -type f -execdir rm {} ;",
        "rsync -a --delete empty/ /",
        "rsync -a --delete x/ ~/",
        "rsync --del x /etc",
        "dd if=/dev/zero of=/dev/sda",
        "cat x > /dev/sda",
        "cat x >/dev/nvme0n1",
        "echo x>/dev/vda1",
        "cat x | tee /dev/sdb",
        "cp image /dev/mmcblk0",
        "shred /dev/sda",
        "shred -n 3 /dev/sda1",
        "wipefs -a /dev/sda",
        "blkdiscard /dev/nvme0n1",
        "truncate -s 0 /dev/sda",
        "cat x >| /dev/sda",
        "mkfs.ext4 /dev/sda1",
        "mkfs -t ext4 /dev/sda1",
        "mkswap /dev/sda2",
        ":(){ :|:& };:",
        ":(){ : | : & }; :",
        "bomb() { bomb | bomb & }; bomb",
        "x; function f() { f|f & }; f",
        "kill -9 -1",
        "kill -KILL -1",
        "kill -- -1",
        "shutdown -h now",
        "sudo reboot",
        "systemctl poweroff",
        "halt",
        "crontab -r",
        "zpool destroy tank",
        // Redirections before and between words.
        "2>/dev/null rm -rf /",
        ">x rm -rf /",
        "> x rm -rf /",
        "2>&1 <&- rm -rf /",
        "rm -rf />x",
        "cp image /dev/sda 2>/dev/null",
        "find 2>/dev/null / -delete",
        // Reserved words, substitutions and wrappers.
        "until rm -rf /; do :; done",
        "while rm -rf /; do :; done",
        "if x; then y; elif rm -rf /; then z; fi",
        "coproc rm -rf /",
        "coproc NAME { rm -rf /; }",
        "function f { rm -rf /; }; f",
        "function f() { rm -rf /; }; f",
        "echo \"`rm -rf /`\"",
        "echo \"a $(rm -rf /) b\"",
        "echo \"$(x)\"; rm -rf /",
        "echo \"`x`\"; rm -rf /",
        "echo \"$(echo \"$(rm -rf /)\")\"",
        "su -c 'rm -rf /'",
        "su root --command='rm -rf /'",
        "runuser -u me -c 'rm -rf ~'",
        "bash -c -- 'rm -rf /'",
        "env -S 'rm -rf /'",
        "env -S'rm -rf /'",
        "env -i --split-string='rm -rf /'",
        "env -iS 'rm -rf' /",
        "chroot / rm -rf /etc",
        "chroot --userspec=me /mnt rm -rf /",
        "flock lock rm -rf /",
        "busybox rm -rf /",
        // Places.
        "rm -rf ~root",
        "rm -rf ~me/",
        "rm -rf ~+/*",
        "rm -rf ~/../*",
        "rm -rf /run",
        "rm -rf /usr/lib",
        "rm -rf /usr/bin/",
        "rm -rf /usr/share/*",
        "rm -rf /usr/local",
        "chmod -R 777 /usr/lib",
        "mv -t /tmp /etc",
        "mv -ft /tmp /etc",
        "mv -t/tmp /etc",
        "mv --target-directory=/tmp /etc",
        "mv --target-directory /tmp /etc",
        "mv /etc /usr -t /tmp",
        "dd if=x of=//dev/sda",
        "dd if=x of=/dev/./sda",
        "dd of=/dev/shm/../sda",
        "cp image //dev/sda",
        "cat x > /dev//sda",
        "diskutil erasedisk JHFS+ x disk2",
        "diskutil ERASEDISK JHFS+ x disk2",
        // Programs that `find` runs.
        "find / -exec sh -c 'rm -rf \"$0\"' {} ';'",
        "find / -ok rm {} \\;",
        "find ~ -okdir rm -r {} +",
        "find / -exec sudo rm {} +",
        "find . -exec rm -rf / \\;",
        // Fork bombs.
        "function f { f | f & }; f",
        ":(){ : & : & }; :",
        "f(){ f & f; }; f",
        "f() {\n f &\n f\n}\nf",
        "f(){ f|&f; }; f",
    ] {
        assert!(is_denied(command), "{command}");
    }
}

#[test]
fn harmless_commands_are_not_denied_by_default() {
    for command in [
        // Without `-r`, `rm` removes no folder.
        "rm --force --verbose ~",
        "rm -rf ~/.cache/x",
        "rm -rf ./build",
        "rm -rf build/*",
        "rm -rf $HOME/project/target",
        "rm -rf /tmp/x",
        "rm -rf /tmp/*",
        "rm -rf ../build",
        "rm -rf *.o",
        "rm -rf node_modules/.cache",
        "rm *",
        "rm -rf .",
        "rm .env",
        "rm -rf $TARGET",
        "rm -f a",
        "rm -rf \"$HOMEDIR\"",
        "rm -rf a/../b",
        "rm -rf /var/lib/apt/lists/*",
        "rm -rf /home/me/project",
        "rm -rf /opt/tool",
        "echo rm -rf /",
        "git commit -m 'rm -rf /'",
        "chmod -R u+w target",
        "chmod +x run",
        "chown me /etc/x",
        "chmod 755 /",
        "mv a ~",
        "mv a /etc",
        "mv a b /tmp",
        "mv ./* ../x",
        "find . -name '*.o' -delete",
        "find / -name core",
        "find ~/x -delete",
        "rsync -a --delete a/ b/",
        "rsync -a / backup",
        "rsync -a --delete ~/a b",
        "dd if=/dev/sda of=image",
        "dd if=a of=/dev/null",
        "cat x > /dev/null",
        "echo x > /dev/stderr",
        "ls 2>/dev/null",
        "cat x | tee /dev/stderr",
        "cp /dev/sda image",
        "shred file",
        "kill -1 123",
        "kill -9 123",
        "kill %1",
        "f() { g | h & }; f",
        "make mkfs",
        "git push --force",
        "curl https://sh.rustup.rs | sh",
        "crontab -l",
        "systemctl status x",
        "echo halt",
        "grep reboot log",
        "zpool list",
        "git clean -fdx",
        "docker system prune",
        "echo x > '~' 2>/dev/null",
        "rm -rf build 2>/dev/null",
        "rm -rf build > /dev/null",
        "mv -t /etc a b",
        "mv --target-directory=/etc a",
        "mv a b -t ~",
        "find ~/x -exec rm {} ;",
        "find / -exec grep x {} +",
        "find / -name rm -exec ls {} ;",
        "rm -rf /usr/local/lib/x",
        "chown -R me /usr/local",
        "rm -rf /run/user/x",
        "dd if=a of=//dev/null",
        "su -c 'ls /'",
        "env -S 'ls -l'",
        "chroot /mnt ls",
        "function f { g | f2 & }; f",
        "function rm_all { ls /; }",
        "f() { f2 & g; }",
        "diskutil list",
        "echo \"$(ls)\" rm -rf /",
        "echo \"`ls` rm -rf /\"",
        "echo \"(rm -rf /)\"",
        "echo 'a > rm -rf /'",
        "while read x; do echo rm -rf /; done",
    ] {
        assert!(!is_denied(command), "{command}");
    }
}
