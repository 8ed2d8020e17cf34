use crate::budget::Money;

#[test]
fn an_amount_is_read_and_written_without_a_fraction_that_rounds_away() {
    #[track_caller]
    fn check(text: &str, micros: u64, written: &str) {
        let money: Money = text.parse().unwrap();
        assert_eq!((money.micros(), money.to_string().as_str()), (micros, written));
        assert_eq!(written.parse::<Money>().unwrap(), money);
    }
    check("0.50", 500_000, "0.50");
    check("0.1", 100_000, "0.10");
    check(".5", 500_000, "0.50");
    check("3", 3_000_000, "3.00");
    check("3.", 3_000_000, "3.00");
    check("0.000001", 1, "0.000001");
    check("12.345", 12_345_000, "12.345");
    check("18446744073709.551615", u64::MAX, "18446744073709.551615");
}

#[test]
fn what_is_no_amount_is_refused_and_shown() {
    #[track_caller]
    fn check(text: &str) {
        let error = text.parse::<Money>().unwrap_err().to_string();
        assert!(error.contains("write it like 0.50"), "{error}");
        assert!(error.len() < 200, "{error}");
    }
    let long = "9".repeat(1_000);
    for text in
        ["", ".", "-1", "+1", "1e3", "0.0000001", "$1", "1,5", " 1", "18446744073709.551616", long.as_str()]
    {
        check(text);
    }
}
