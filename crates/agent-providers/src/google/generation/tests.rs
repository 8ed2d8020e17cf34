//! What names tell.

use super::*;

#[track_caller]
fn check(id: &str, gemini: bool, third: bool, thinks: bool) {
    let known = Known::of(id);
    assert_eq!((known.is_gemini(), known.is_third(), known.may_think()), (gemini, third, thinks), "{id}");
    assert_eq!(known.answers_in_json_with_tools(), third, "{id}");
}

/// B-144.
#[test]
fn a_name_tells_the_generation_and_whether_it_thinks() {
    check("gemini-3-pro-preview", true, true, true);
    check("gemini-3.1-flash-lite", true, true, true);
    check("models/gemini-3.5-flash", true, true, true);
    check("publishers/google/models/gemini-10-ultra", true, true, true);
    check("gemini-3-pro-image-preview", true, true, false);
    check("gemini-flash-latest", true, true, true);
    check("gemini-2.5-flash", true, false, true);
    check("gemini-2.5-flash@001", true, false, true);
    check("gemini-2.5-flash-image", true, false, false);
    check("gemini-2.5-flash-preview-tts", true, false, false);
    check("gemini-2.0-flash", true, false, false);
    check("gemini-1.5-pro-002", true, false, false);
    check("gemini-exp-1206", false, false, true);
    check("gemma-3-27b-it", false, false, true);
    check("gemini-", false, false, true);
    check("", false, false, true);
}
