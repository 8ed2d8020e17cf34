use std::sync::Mutex;
use std::sync::mpsc;
use std::time::Duration;

use agent_core::Timestamp;
use agent_core::journal::Durability;

use super::*;

/// A writer whose jobs wait until the test lets them end.
#[derive(Debug)]
struct Slow {
    ends: Arc<Mutex<mpsc::Receiver<Result<(), &'static str>>>>,
    ran: Arc<AtomicU64>,
}

impl BlockingSessionWriter for Slow {
    fn append(&mut self, _: &SessionRecord<'_>) -> Result<Option<WriteJob>, SessionError> {
        let (ends, ran) = (Arc::clone(&self.ends), Arc::clone(&self.ran));
        Ok(Some(Box::new(move || {
            ran.fetch_add(1, Ordering::SeqCst);
            let end = ends.lock().unwrap().recv().unwrap();
            end.map_err(|text| SessionError::store("s-1.journal.jsonl", "flushed to the disk", text))
        })))
    }

    fn save(&mut self, _: &Session) -> Result<(), SessionError> {
        Ok(())
    }
}

fn writer() -> (PoolWriter, mpsc::Sender<Result<(), &'static str>>, Arc<AtomicU64>) {
    let (end, ends) = mpsc::channel();
    let ran = Arc::new(AtomicU64::new(0));
    let slow = Slow { ends: Arc::new(Mutex::new(ends)), ran: Arc::clone(&ran) };
    (PoolWriter::new(Box::new(slow)), end, ran)
}

fn append(writer: &mut PoolWriter) -> PendingWrite {
    let session = Session::new("s-1".into(), "agent".into(), Timestamp(1));
    let record = SessionRecord {
        number: 1,
        line: b"{}",
        durability: Durability::Flushed,
        session: &session,
        position: None,
        own_before: 0,
        other_before: 0,
        run: None,
    };
    writer.append(&record).unwrap().unwrap()
}

/// Begins a flush of each writer, and waits until no more of them begins.
async fn begin(
    pending: Vec<PendingWrite>,
    ran: impl Fn() -> u64,
    expected: u64,
) -> Vec<tokio::task::JoinHandle<Result<(), SessionError>>> {
    let tasks = pending.into_iter().map(tokio::spawn).collect();
    while ran() < expected {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert_eq!(ran(), expected);
    tasks
}

#[tokio::test]
async fn records_that_wait_for_the_same_file_are_flushed_together() {
    let (mut writer, end, ran) = writer();
    let count = || ran.load(Ordering::SeqCst);
    let mut tasks = begin(vec![append(&mut writer)], count, 1).await;
    let later = (0..50).map(|_| append(&mut writer)).collect();
    tasks.extend(begin(later, count, 1).await);
    (0..2).for_each(|_| end.send(Ok(())).unwrap());
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(count(), 2, "one for the first record and one for all others");
}

#[tokio::test]
async fn a_flush_that_failed_fails_all_records_that_waited_for_it() {
    let (mut writer, end, ran) = writer();
    let pending = (0..5).map(|_| append(&mut writer)).collect();
    let tasks = begin(pending, || ran.load(Ordering::SeqCst), 1).await;
    end.send(Err("no space left")).unwrap();
    for task in tasks {
        let error = task.await.unwrap().unwrap_err().to_string();
        assert!(error.contains("s-1.journal.jsonl") && error.contains("no space left"), "{error}");
    }
}

#[tokio::test]
async fn many_files_are_flushed_by_few_threads() {
    let mut all: Vec<_> = (0..4 * MAX_WRITE_JOBS).map(|_| writer()).collect();
    let pending = all.iter_mut().map(|(writer, ..)| append(writer)).collect();
    let counts: Vec<_> = all.iter().map(|(.., ran)| Arc::clone(ran)).collect();
    let count = || counts.iter().map(|ran| ran.load(Ordering::SeqCst)).sum();
    let pending: Vec<PendingWrite> = pending;
    let tasks: Vec<_> = pending.into_iter().map(tokio::spawn).collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let begun: u64 = count();
    assert!((1..=MAX_WRITE_JOBS as u64).contains(&begun), "{begun}");
    all.iter().for_each(|(_, end, _)| end.send(Ok(())).unwrap());
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(count(), 4 * MAX_WRITE_JOBS as u64);
}
