#![allow(clippy::disallowed_methods, reason = "the time is that of this machine")]

use std::time::Instant;

use super::*;

/// A process of the child can still write into the folder for a moment.
#[test]
fn a_folder_is_removed_although_it_is_written_to_meanwhile() {
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let path = path.clone();
                std::thread::spawn(move || {
                    for n in 0..1_000 {
                        if std::fs::write(path.join(format!("{writer}-{n}")), "x").is_err() {
                            return;
                        }
                    }
                })
            })
            .collect();
        // They have begun.
        while std::fs::read_dir(&path).is_ok_and(|entries| entries.count() == 0) {
            std::thread::yield_now();
        }
        remove(folder);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert!(!path.exists());
    }
}

#[test]
fn a_folder_that_is_gone_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::remove_dir(folder.path()).unwrap();
    let start = Instant::now();
    remove(folder);
    // Less than all attempts would take.
    assert!(start.elapsed() < REMOVAL_PAUSE * 15, "{:?}", start.elapsed());
}
