//! One process asks, another answers, a third continues; recordings and replays.

use super::{Model, Project};

/// X5: one process asks and ends, another one answers, a third continues.
#[tokio::test]
async fn a_question_waits_until_somebody_answers_it_from_another_process() {
    let model = Model::start().await;
    let dir = Project::new();
    let said = dir.run(&["pending"]).await;
    assert_eq!((said.code, said.out.trim()), (0, "no question waits"));

    let said = dir.ask(&model, &["-p", "--wait", "run it"]).await;
    assert_eq!((said.code, said.out.as_str()), (3, ""), "{said:?}");
    assert!(!dir.path().join("ran.txt").exists());

    let said = dir.run(&["pending"]).await;
    assert!(said.code == 0 && said.out.contains("| echo ran >> ran.txt"), "{said:?}");
    let id = said.out.split_whitespace().nth(1).unwrap().to_owned();
    let answer = format!("  looptree answer {id} yes --hash ");
    let hash = said.out.split_once(&answer).unwrap().1.split_whitespace().next().unwrap().to_owned();

    let said = dir.run(&["answer", &id, "perhaps"]).await;
    assert!(said.code == 2 && said.err.contains("perhaps"), "{said:?}");
    for hash in [&[][..], &["--hash", "000000000000"]] {
        let said = dir.run(&[&["answer", &id, "yes"][..], hash].concat()).await;
        assert!(said.code == 1 && said.err.contains("| echo ran >> ran.txt"), "{said:?}");
    }
    let said = dir.run(&["answer", &id[..8], "yes", "--hash", &hash]).await;
    assert!(said.code == 0 && said.out.contains(&format!("--resume {id}")), "{said:?}");
    let said = dir.run(&["answer", &id, "yes", "--hash", &hash]).await;
    assert!(said.code == 1 && said.err.contains("waits for no answer"), "{said:?}");
    assert!(!dir.path().join("ran.txt").exists(), "an answer runs nothing by itself");
    let said = dir.run(&["pending"]).await;
    assert!(said.out.contains("no question waits") && said.out.contains("can be continued"), "{said:?}");

    let said = dir.ask(&model, &["-p", "--resume", &id]).await;
    assert_eq!((said.code, said.out.as_str()), (0, "It ran.\n"), "{said:?}");
    assert_eq!(std::fs::read_to_string(dir.path().join("ran.txt")).unwrap(), "ran\n", "once");
    assert_eq!(dir.run(&["pending"]).await.out.trim(), "no question waits");
}

#[tokio::test]
async fn the_model_reads_the_reason_of_a_no() {
    let model = Model::start().await;
    let dir = Project::new();
    dir.ask(&model, &["-p", "--wait", "run it"]).await;
    let id = dir.session_ids().remove(0);
    let said = dir.run(&["answer", &id, "no", "--reason", "because of the weather"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    let said = dir.ask(&model, &["-p", "--resume", &id]).await;
    assert!(said.out.contains("because of the weather"), "{said:?}");
    assert!(!dir.path().join("ran.txt").exists());
}

/// Attack 6: a question is shown whole, with its second line and its control characters, wherever it is shown.
#[tokio::test]
async fn nothing_of_a_command_is_hidden_from_the_approver() {
    let model = Model::start().await;
    let dir = Project::new();
    let asked = dir.ask(&model, &["-p", "--wait", "hide it"]).await;
    assert_eq!(asked.code, 3, "{asked:?}");
    let pending = dir.run(&["pending"]).await;
    let id = dir.session_ids().remove(0);
    let refused = dir.run(&["answer", &id, "yes"]).await;
    for said in [asked.err, pending.out, refused.err] {
        assert!(said.contains(&format!("directory: {}", dir.path().display())), "{said}");
        assert!(said.replace("\n        + ", "").contains(&format!("| ls {}", "a".repeat(300))), "{said}");
        assert!(said.contains("\n        | touch ran.txt \\u{202e}\\u{1b}[2K\n"), "{said}");
    }
    assert!(!dir.path().join("ran.txt").exists());
}

/// X2: a task is recorded, and replayed where there is no model, and no file is touched.
#[tokio::test]
async fn a_recorded_task_is_replayed_without_its_model_and_its_tools() {
    let model = Model::start().await;
    let dir = Project::new();
    let file = dir.home().join("task.json");
    let name = file.to_str().unwrap();
    let said = dir.ask(&model, &["-p", "--yes", "--record", name, "run it"]).await;
    assert!(said.code == 0 && said.err.contains("recording: "), "{said:?}");
    let asked = model.asked().len();
    drop(model);
    std::fs::remove_file(dir.path().join("ran.txt")).unwrap();

    let said = dir.run(&["replay", name]).await;
    assert!(said.code == 0 && said.out.contains("It ran."), "{said:?}");
    let end = format!("the replay is equal to the recording: {asked} model calls, 1 tool calls");
    assert!(said.out.contains(&end), "{said:?}");
    assert!(!dir.path().join("ran.txt").exists(), "a replay runs nothing");

    // Another policy than the one that was given is another run.
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(
        &file,
        text.replace("\"approve\": \"none\"", "\"approve\": \"ask\"")
            .replace("\"approve\":\"none\"", "\"approve\":\"ask\""),
    )
    .unwrap();
    let said = dir.run(&["replay", name]).await;
    assert!(
        said.code == 1 && said.err.contains("the replay differs from the cassette at model call 2"),
        "{said:?}"
    );

    for (text, expect) in
        [("{\"version\": 1}", "is not a recording of this program"), ("[", "is damaged at line 1")]
    {
        std::fs::write(&file, text).unwrap();
        let said = dir.run(&["replay", name]).await;
        assert!(said.code == 1 && said.err.contains(expect) && said.err.contains("task.json"), "{said:?}");
    }
    let said =
        dir.run(&["--base-url", "http://127.0.0.1:9/v1", "--model", "local/x", "--record", name, "x"]).await;
    assert!(said.code == 2 && said.err.contains("exists"), "{said:?}");
}
