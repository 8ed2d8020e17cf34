use super::*;

#[test]
fn a_child_inherits_the_descriptors_that_are_not_marked_close_on_exec() {
    for (info, expected) in [
        ("pos:\t0\nflags:\t0100002\nmnt_id:\t15\n", true),
        ("pos:\t0\nflags:\t02100002\nmnt_id:\t15\n", false),
        ("flags:\t02\n", true),
        ("flags:\t02000000\n", false),
        // Without flags it is closed, to be safe.
        ("pos:\t0\n", true),
        ("", true),
    ] {
        assert_eq!(is_inherited(info), expected, "{info:?}");
    }
}

#[test]
fn standard_descriptors_are_kept_and_need_no_shell() {
    let folder = tempfile::tempdir().unwrap();
    let describe = |descriptor: u32, info: &str| {
        std::fs::write(folder.path().join(descriptor.to_string()), info).unwrap();
    };
    for descriptor in 0..=2 {
        describe(descriptor, "flags:\t0100002\n");
    }
    describe(3, "flags:\t02100002\n");
    assert!(!any(folder.path()));
    describe(4, "flags:\t0100002\n");
    assert!(any(folder.path()));
}

#[test]
fn where_descriptors_cannot_be_listed_they_are_closed() {
    assert!(any(std::path::Path::new("/proc/self/there-is-none")));
}
