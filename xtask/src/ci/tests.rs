use super::*;

#[test]
fn steps_are_chosen_by_name_and_a_misspelt_name_is_an_error() {
    let choose = |list: &[&str]| chosen(&list.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
    assert_eq!(choose(&[]).unwrap().len(), STEPS.len());
    assert_eq!(choose(&["--only", "doc,fmt"]).unwrap(), ["fmt", "doc"]);
    let rest = choose(&["--without", "test,doc"]).unwrap();
    assert!(rest.len() == STEPS.len() - 2 && !rest.contains(&"test"), "{rest:?}");
    let error = choose(&["--without", "tets"]).unwrap_err().to_string();
    assert!(error.contains("no step `tets`") && error.contains("clippy"), "{error}");
    assert!(choose(&["--with"]).is_err());
}
