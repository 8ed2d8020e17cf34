use super::MAX_LINE_BYTES;
use super::scan::shown_line;

/// B-173.
#[test]
fn a_long_line_is_cut_between_characters_and_shows_its_match() {
    let short = "é".repeat(MAX_LINE_BYTES / 2);
    assert_eq!(shown_line(format!("{short}\r\n").as_bytes(), 0), short);

    let long = "é".repeat(MAX_LINE_BYTES);
    assert_eq!(shown_line(long.as_bytes(), 0), format!("{short} ... (line cut)"));
    for shift in 0..3 {
        let line = format!("{}{}needle{}", "x".repeat(shift), long, long);
        let shown = shown_line(line.as_bytes(), shift + long.len());
        assert!(shown.starts_with("... é") && shown.ends_with("é ... (line cut)"), "{shown}");
        assert!(shown.contains("éneedleé") && !shown.contains('\u{FFFD}'), "{shown}");
    }
    let at_the_end = format!("{long}needle");
    let shown = shown_line(at_the_end.as_bytes(), long.len());
    assert!(shown.starts_with("... é") && shown.ends_with("éneedle"), "{shown}");
}

#[test]
fn a_line_of_bytes_that_are_no_text_has_the_same_bound() {
    let shown = shown_line(&[0xFF; 5000], 4000);
    assert!(shown.len() < MAX_LINE_BYTES + 40);
}
