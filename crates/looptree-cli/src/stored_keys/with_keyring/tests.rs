use super::*;

#[test]
fn a_keyring_that_does_not_answer_is_one_sentence_and_no_hang() {
    let never = within(Duration::ZERO, || {
        std::thread::park();
        Stored::Nothing
    });
    assert_eq!(never, Stored::Unreadable("the keyring did not answer within 0 s".to_owned()));
    let panics = within(Duration::from_secs(60), || panic!("the library failed"));
    assert!(matches!(panics, Stored::Unreadable(_)), "{panics:?}");
}
