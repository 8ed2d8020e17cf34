use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// A lock is held while its file is replaced: nobody takes it, and nobody finds it free.
#[test]
fn a_lock_whose_file_is_replaced_is_held_all_the_time() {
    const TIMES: usize = 5_000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lock");
    let mut lock = WriteLock::take(path.clone()).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    while !is_over.load(Ordering::SeqCst) {
                        let is_free = !is_held(&path);
                        assert!(!is_free || is_over.load(Ordering::SeqCst));
                    }
                })
            })
            .collect();
        let other = scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                assert!(WriteLock::take(path.clone()).is_err());
            }
        });
        for n in 0..TIMES {
            if readers.iter().chain([&other]).any(std::thread::ScopedJoinHandle::is_finished) {
                break;
            }
            lock.replace_file(n.to_string().as_bytes()).unwrap();
        }
        is_over.store(true, Ordering::SeqCst);
    });
    drop(lock);
    assert!(!is_held(&path) && WriteLock::take(path).is_ok());
}
