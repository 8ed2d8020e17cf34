use agent_core::{Content, ToolResult};
use proptest::prelude::*;

use super::*;

async fn all_pages(store: &OutputStore, key: &str, limit: usize) -> (String, usize) {
    let (mut text, mut at, mut pages) = (String::new(), 0, 0);
    loop {
        let page = store.read(key, at, limit).await.unwrap();
        assert_eq!(page.start(), at as u64, "pages follow on each other");
        assert!(page.end() > page.start() && page.text().len() <= limit.max(4));
        text.push_str(page.text());
        (at, pages) = (page.end() as i64, pages + 1);
        if page.is_last() {
            return (text, pages);
        }
    }
}

#[tokio::test]
async fn pages_of_any_size_add_up_to_the_output_and_cut_no_character() {
    let whole = "aé€😀\n".repeat(3_000);
    assert!(whole.len() > MEMORY_BYTES);
    let store = OutputStore::new();
    for output in [whole.as_str(), "aé€😀"] {
        let stored = store.keep(output).await.unwrap();
        for limit in [1, 2, 3, 5, 7, 64, 4096, 1_000_000] {
            if output.len() / limit > 500 {
                continue;
            }
            let (text, _) = all_pages(&store, stored.key(), limit).await;
            assert_eq!(text, output, "{limit}");
        }
    }
}

#[tokio::test]
async fn a_page_that_begins_or_ends_inside_of_a_character_keeps_it_whole() {
    let store = OutputStore::new();
    let key = store.keep("a€b").await.unwrap().key().to_owned();
    for (offset, limit, start, expect) in [
        (1, 1, 1, "€"),
        (2, 1, 1, "€"),
        (3, 1, 1, "€"),
        (0, 2, 0, "a"),
        (3, 2, 1, "€b"),
        (4, 1, 4, "b"),
        (-1, 9, 4, "b"),
        (-2, 9, 1, "€b"),
        (-99, 9, 0, "a€b"),
    ] {
        let page = store.read(&key, offset, limit).await.unwrap();
        assert_eq!((page.start(), page.text()), (start, expect), "{offset} {limit}");
    }
}

#[tokio::test]
async fn bytes_that_are_no_text_are_shown_one_by_one() {
    let store = OutputStore::new();
    let bytes: Vec<u8> = (0..=255).collect();
    let key = store.keep(bytes.clone()).await.unwrap().key().to_owned();
    let (mut at, mut seen) = (0, 0);
    while seen < bytes.len() {
        let page = store.read(&key, at, 10).await.unwrap();
        assert!(page.end() - page.start() <= 10);
        seen += (page.end() - page.start()) as usize;
        at = page.end() as i64;
    }
    assert_eq!(seen, bytes.len());
}

#[tokio::test]
async fn an_output_over_the_bound_is_kept_to_the_bound_and_says_so() {
    let store = OutputStore::new().with_max_output_bytes(100_000);
    let stored = store.keep("x".repeat(250_000)).await.unwrap();
    assert_eq!((stored.kept_bytes(), stored.produced_bytes()), (100_000, 250_000));
    assert_eq!(
        stored.note(10),
        "[of 250000 bytes the first 100000 are kept, the rest is lost: call read_output with key \"out-1\" and offset 10 to read on]"
    );
    let (text, _) = all_pages(&store, stored.key(), 40_000).await;
    assert_eq!(text.len(), 100_000);
}

#[tokio::test]
async fn the_oldest_outputs_make_room_and_their_files_are_gone() {
    let store = OutputStore::new().with_max_total_bytes(250_000);
    for _ in 0..5 {
        store.keep("x".repeat(100_000)).await.unwrap();
    }
    let folder = store.folder_path().unwrap();
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2);
    assert!(store.read("out-5", 0, 10).await.is_ok() && store.read("out-4", 0, 10).await.is_ok());
    let error = store.read("out-3", 0, 10).await.unwrap_err().to_string();
    assert!(error.starts_with("there is no output \"out-3\" (the newest are out-5, out-4); "), "{error}");
    let taken: u64 =
        std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert_eq!((taken, store.shelf().bytes), (200_000, 200_000));
}

#[tokio::test]
async fn an_output_larger_than_the_whole_store_is_kept_as_far_as_there_is_room() {
    let store = OutputStore::new().with_max_total_bytes(50_000);
    let stored = store.keep("x".repeat(80_000)).await.unwrap();
    assert_eq!((stored.kept_bytes(), stored.produced_bytes()), (50_000, 80_000));
}

#[tokio::test]
async fn there_are_never_more_outputs_than_the_bound() {
    let store = OutputStore::new();
    for _ in 0..MAX_OUTPUTS + 10 {
        store.keep("x").await.unwrap();
    }
    assert_eq!(store.shelf().outputs.len(), MAX_OUTPUTS);
    assert_eq!(store.shelf().bytes, MAX_OUTPUTS as u64);
    assert!(store.folder_path().is_none(), "small outputs touch no disk");
}

#[tokio::test]
async fn an_output_that_is_not_finished_leaves_nothing_behind() {
    let store = OutputStore::new();
    let mut writer = OutputWriter::new(store.clone());
    for _ in 0..8 {
        writer.push(&[b'x'; 100_000]);
        writer.flush().await;
    }
    let folder = store.folder_path().unwrap();
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    drop(writer);
    assert_eq!((std::fs::read_dir(&folder).unwrap().count(), store.shelf().bytes), (0, 0));
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_account_can_read_outputs_and_they_end_with_the_store() {
    use std::os::unix::fs::PermissionsExt as _;
    let store = OutputStore::new();
    store.keep("x".repeat(100_000)).await.unwrap();
    let folder = store.folder_path().unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    for file in std::fs::read_dir(&folder).unwrap() {
        assert_eq!(mode(&file.unwrap().path()), 0o600);
    }
    let clone = store.clone();
    drop(store);
    assert!(folder.exists());
    drop(clone);
    assert!(!folder.exists());
}

/// Another process of the account can reach the folder; it cannot make the store read another file.
#[cfg(unix)]
#[tokio::test]
async fn a_file_in_the_place_of_an_output_is_not_read_and_not_removed() {
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "the secret".repeat(10_000)).unwrap();
    let store = OutputStore::new();
    for make in [
        |from: &std::path::Path, to: &std::path::Path| std::os::unix::fs::symlink(from, to),
        |from: &std::path::Path, to: &std::path::Path| std::fs::hard_link(from, to),
        |from: &std::path::Path, to: &std::path::Path| std::fs::copy(from, to).map(|_| ()),
    ] {
        let key = store.keep("x".repeat(100_000)).await.unwrap().key().to_owned();
        let folder = store.folder_path().unwrap();
        let name = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
        let path = name.max_by_key(|path| path.metadata().unwrap().modified().unwrap()).unwrap();
        // The inode of the output must not be free, or the copy could get the same.
        let _open = std::fs::File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        make(secret.path(), &path).unwrap();
        let error = store.read(&key, 0, 100).await.unwrap_err();
        assert!(matches!(error, OutputStoreError::Disk(_)), "{error}");
        assert!(!error.to_string().contains("the secret"));
        std::fs::remove_file(&path).unwrap();
    }
    drop(store);
    assert!(secret.path().exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn outputs_that_are_kept_side_by_side_do_not_mix() {
    let store = OutputStore::new();
    let tasks: Vec<_> = (0..16_u8)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut writer = OutputWriter::new(store);
                for _ in 0..40 {
                    writer.push(&vec![b'a' + n; 10_000]);
                    writer.flush().await;
                }
                (n, writer.finish().await.unwrap())
            })
        })
        .collect();
    let mut keys = std::collections::BTreeSet::new();
    for task in tasks {
        let (n, stored) = task.await.unwrap();
        assert_eq!(stored.kept_bytes(), 400_000);
        let (text, _) = all_pages(&store, stored.key(), 100_000).await;
        assert!(text.bytes().all(|byte| byte == b'a' + n) && text.len() == 400_000);
        assert!(keys.insert(stored.key().to_owned()));
    }
}

#[tokio::test]
async fn nothing_of_an_output_is_in_debug_text() {
    let store = OutputStore::new();
    store.keep("the secret").await.unwrap();
    assert!(!format!("{store:?}").contains("secret"));
}

#[tokio::test]
async fn a_big_result_of_any_tool_is_cut_and_kept() {
    let store = OutputStore::new();
    let small = ToolResult::text("é".repeat(10));
    assert_eq!(store.offload(small.clone(), 20).await, small);

    let picture = Content::image("aGk=", "image/png");
    let big =
        ToolResult::content(vec![picture.clone(), Content::text("é".repeat(10)), Content::text("tail")]);
    let cut = store.offload(big.with_details(serde_json::json!({"a": 1})).failed(), 9).await;
    assert_eq!(cut.content.len(), 2);
    assert_eq!(cut.content[0], picture);
    assert!(cut.is_error && cut.details["a"] == 1);
    assert_eq!(
        cut.to_text(),
        "éééé\n... (output truncated)\n[all 25 bytes are kept: call read_output with key \"out-1\" and offset 8 to read on]"
    );
    assert_eq!(store.read("out-1", 8, 100).await.unwrap().text(), "éééééé\ntail");
}

/// All pages of an output in memory.
fn pages(output: &[u8], limit: usize) -> Vec<OutputPage> {
    let kept = Stored::new(Place::Memory(output.to_vec()), output.len() as u64);
    let (mut pages, mut at) = (Vec::new(), 0);
    while at < output.len() as i64 {
        let page =
            page::read(kept.stored(1), at, limit, |from, len| page::bytes_at(&kept, from, len)).unwrap();
        at = page.end() as i64;
        pages.push(page);
    }
    pages
}

proptest! {
    #[test]
    fn pages_of_a_text_are_the_text(text in "\\PC{0,200}", limit in 1..40_usize) {
        let pages = pages(text.as_bytes(), limit);
        let whole: String = pages.iter().map(OutputPage::text).collect();
        prop_assert_eq!(whole, text);
        for page in pages {
            prop_assert!((page.end() - page.start()) as usize <= limit.max(4));
        }
    }

    #[test]
    fn pages_of_any_bytes_follow_on_each_other(bytes in proptest::collection::vec(any::<u8>(), 1..300), limit in 1..40_usize) {
        let mut at = 0;
        for page in pages(&bytes, limit) {
            prop_assert_eq!(page.start(), at);
            prop_assert!(page.end() > at);
            at = page.end();
        }
        prop_assert_eq!(at, bytes.len() as u64);
    }

    #[test]
    fn a_page_from_anywhere_is_a_part_of_the_text(text in "\\PC{1,80}", offset in -400..400_i64, limit in 1..40_usize) {
        let kept = Stored::new(Place::Memory(text.clone().into_bytes()), text.len() as u64);
        if let Ok(page) = page::read(kept.stored(1), offset, limit, |from, len| page::bytes_at(&kept, from, len)) {
            let (start, end) = (page.start() as usize, page.end() as usize);
            prop_assert_eq!(Some(page.text()), text.get(start..end));
        }
    }
}
