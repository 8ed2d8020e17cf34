//! `looptree view`.

use super::{Model, Project};

const START: &str = "<!doctype html>\n";

#[tokio::test]
async fn a_session_is_written_as_a_page_to_a_file_or_to_the_standard_output() {
    let model = Model::start().await;
    let dir = Project::new();
    dir.ask(&model, &["-p", "say pineapple"]).await;
    let id = dir.session_ids().remove(0);

    let piped = dir.run(&["view", &id[..8]]).await;
    assert!(
        piped.code == 0 && piped.out.starts_with(START) && piped.out.contains("It is pineapple."),
        "{piped:?}"
    );
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "no file is written");

    let file = dir.home().join("page.html");
    let name = file.to_str().unwrap();
    let said = dir.run(&["view", &id, "-o", name]).await;
    assert!(said.code == 0 && said.out.starts_with("written: "), "{said:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), piped.out);
    let said = dir.run(&["view", &id, "-o", "-"]).await;
    assert_eq!(said.out, piped.out);
}

#[tokio::test]
async fn an_earlier_page_is_replaced_and_no_other_file_is() {
    let model = Model::start().await;
    let dir = Project::new();
    dir.ask(&model, &["-p", "say pineapple"]).await;
    let id = dir.session_ids().remove(0);
    let page = dir.home().join("page.html");
    let other = dir.home().join("index.html");
    std::fs::write(&other, "<!doctype html>\n<html><p>mine</p></html>").unwrap();
    for _ in 0..2 {
        assert_eq!(dir.run(&["view", &id, "-o", page.to_str().unwrap()]).await.code, 0);
    }
    let said = dir.run(&["view", &id, "-o", other.to_str().unwrap()]).await;
    assert!(said.code == 1 && said.err.contains("is not a page of looptree view"), "{said:?}");
    assert!(std::fs::read_to_string(&other).unwrap().contains("mine"));
    let said = dir.run(&["view", &id, "-o", dir.path().to_str().unwrap()]).await;
    assert_eq!(said.code, 1, "{said:?}");
    let said = dir.run(&["view", "nowhere"]).await;
    assert!(said.code == 2 && said.err.contains("there is no session"), "{said:?}");
}

#[tokio::test]
async fn two_sessions_are_written_side_by_side() {
    let model = Model::start().await;
    let dir = Project::new();
    dir.ask(&model, &["-p", "say pineapple"]).await;
    dir.ask(&model, &["-p", "say walnut"]).await;
    let ids = dir.session_ids();
    let said = dir.run(&["view", &ids[0], "--compare", &ids[1]]).await;
    assert!(
        said.code == 0 && said.out.contains("It is pineapple.") && said.out.contains("It is walnut."),
        "{said:?}"
    );
    assert!(said.out.contains("\"pairs\":[{\"a\":[0,0],\"b\":[1,0],"));
}
