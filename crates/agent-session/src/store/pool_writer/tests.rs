use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use agent_core::Timestamp;
use agent_core::journal::Durability;

use super::*;

/// Which records a job completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Completes {
    Appended,
    ItsOwn,
}

/// A writer whose jobs wait until the test lets them end.
#[derive(Debug)]
struct Slow {
    completes: Completes,
    /// The number of the last record.
    appended: Arc<AtomicU64>,
    ends: Arc<Mutex<mpsc::Receiver<Result<(), &'static str>>>>,
    ran: Arc<AtomicU64>,
}

impl BlockingSessionWriter for Slow {
    fn append(&mut self, record: &SessionRecord<'_>) -> Result<Option<WriteJob>, SessionError> {
        let (ends, ran) = (Arc::clone(&self.ends), Arc::clone(&self.ran));
        let (completes, number, appended) = (self.completes, record.number, Arc::clone(&self.appended));
        appended.store(number, Ordering::SeqCst);
        Ok(Some(Box::new(move || {
            ran.fetch_add(1, Ordering::SeqCst);
            let last = if completes == Completes::ItsOwn { number } else { appended.load(Ordering::SeqCst) };
            let end = ends.lock().unwrap().recv().unwrap();
            end.map_err(|text| SessionError::store("s-1.journal.jsonl", "flushed to the disk", text))?;
            Ok(last)
        })))
    }

    fn save(&mut self, _: &Session) -> Result<(), SessionError> {
        Ok(())
    }
}

fn writer() -> (PoolWriter, mpsc::Sender<Result<(), &'static str>>, Arc<AtomicU64>) {
    writer_that(Completes::Appended)
}

fn writer_that(completes: Completes) -> (PoolWriter, mpsc::Sender<Result<(), &'static str>>, Arc<AtomicU64>) {
    let (end, ends) = mpsc::channel();
    let ran = Arc::new(AtomicU64::new(0));
    let ends = Arc::new(Mutex::new(ends));
    let slow = Slow { completes, appended: Arc::default(), ends, ran: Arc::clone(&ran) };
    (PoolWriter::new(Box::new(slow)), end, ran)
}

fn append(writer: &mut PoolWriter, number: u64) -> PendingWrite {
    let session = Session::new("s-1".into(), "agent".into(), Timestamp(1));
    let record = SessionRecord {
        number,
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
    let mut tasks = begin(vec![append(&mut writer, 1)], count, 1).await;
    let later = (2..52).map(|number| append(&mut writer, number)).collect();
    tasks.extend(begin(later, count, 1).await);
    (0..2).for_each(|_| end.send(Ok(())).unwrap());
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(count(), 2, "one for the first record and one for all others");
}

/// A transaction can contain a record and not the one that was appended while the transaction ran.
#[tokio::test]
async fn a_job_completes_no_later_record_than_it_reports() {
    let (mut writer, end, ran) = writer_that(Completes::ItsOwn);
    let count = || ran.load(Ordering::SeqCst);
    let (first, second) = (append(&mut writer, 1), append(&mut writer, 2));
    let tasks = begin(vec![first, second], count, 1).await;
    end.send(Ok(())).unwrap();
    let [first, second] = <[_; 2]>::try_from(tasks).unwrap();
    first.await.unwrap().unwrap();
    end.send(Err("no space left")).unwrap();
    assert!(second.await.unwrap().is_err(), "it is not durable");
    assert_eq!(count(), 2);
}

#[tokio::test]
async fn a_flush_that_failed_fails_all_records_that_waited_for_it() {
    let (mut writer, end, ran) = writer();
    let pending = (1..6).map(|number| append(&mut writer, number)).collect();
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
    let pending = all.iter_mut().map(|(writer, ..)| append(writer, 1)).collect();
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
