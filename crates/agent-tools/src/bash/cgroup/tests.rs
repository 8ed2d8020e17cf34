use super::*;

#[track_caller]
fn check(cgroups: &str, mounts: &str, expect: Option<&str>) {
    assert_eq!(own_folder(cgroups, mounts).as_deref(), expect.map(Path::new));
}

#[test]
fn the_group_of_this_process_is_found_where_it_is_mounted() {
    let unified = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw";
    let hybrid =
        "1 2 0:3 / /proc rw - proc proc rw\n41 30 0:36 / /sys/fs/cgroup/unified rw - cgroup2 none rw";
    let container = "9 8 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup2 rw";
    check("0::/user.slice/a.scope\n", unified, Some("/sys/fs/cgroup/user.slice/a.scope"));
    check("4:memory:/x\n0::/\n", hybrid, Some("/sys/fs/cgroup/unified/"));
    check("0::/docker/abc/x\n", container, Some("/sys/fs/cgroup/x"));
    check("0::/elsewhere\n", container, None);
    check("4:memory:/x\n", unified, None);
    check("0::/\n", "1 2 0:3 / /proc rw - proc proc rw\nbad", None);
}
