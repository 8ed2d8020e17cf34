mod compare_tests;
mod cut_tests;
mod rule_tests;
mod server_tests;

use super::*;

#[test]
fn the_command_line_names_a_folder_a_protocol_and_the_form() {
    let read = |words: &[&str]| options(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
    assert_eq!(read(&[]).unwrap(), Options::default());
    let all = read(&["some/set", "--protocol", "ollama", "--json"]).unwrap();
    assert_eq!(
        all,
        Options {
            directory: Some(PathBuf::from("some/set")),
            protocol: Some("ollama".to_owned()),
            json: true
        }
    );
    assert!(read(&["a", "b"]).is_err());
    assert!(read(&["--protocol"]).is_err());
    assert!(read(&["--protcol", "x"]).is_err());
}

#[test]
fn a_folder_without_a_manifest_is_an_error_that_names_it() {
    let error = judge(std::path::Path::new("no/such/folder"), None).unwrap_err();
    assert!(format!("{error:#}").contains("no/such/folder"), "{error:#}");
}
