use super::*;

#[test]
fn a_cut_text_says_how_many_bytes_are_missing() {
    assert_eq!(shortened("0123456789", 4), "01\n[... 6 bytes cut to fit context window ...]\n89");
    // A character of two bytes is kept whole or not at all.
    assert_eq!(shortened("éééé", 3), "é\n[... 6 bytes cut to fit context window ...]\n");
}
