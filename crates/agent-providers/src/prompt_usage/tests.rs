//! Readings of vendors' counts. Each row is a form that a server sends.

use proptest::prelude::*;

use super::*;

/// The counts of a row: prompt, output, total, cache reads, cache writes and reasoning. 0 as the total is an unknown one.
fn said([prompt, output, total, read, write, reasoning]: [u64; 6]) -> Said {
    Said {
        prompt: Some(prompt),
        output: Some(output),
        total: (total > 0).then_some(total),
        cache_read: Some(read),
        cache_write: Some(write),
        reasoning: Some(reasoning),
        ..Said::default()
    }
}

/// Compares input, output, cache reads, cache writes and reasoning.
#[track_caller]
fn check(said: &Said, expect: [u64; 5]) {
    let usage = disjoint(said);
    let found = [usage.input, usage.output, usage.cache_read, usage.cache_write, usage.reasoning];
    assert_eq!(found, expect, "{said:?}");
    assert_eq!(usage.total_tokens, expect[..4].iter().sum::<u64>(), "{said:?}");
}

#[test]
fn parts_are_taken_out_of_the_whole_that_includes_them() {
    check(&said([100, 20, 120, 60, 0, 5]), [40, 20, 60, 0, 5]);
    check(&said([100, 20, 120, 60, 30, 20]), [10, 20, 60, 30, 20]);
    check(&said([100, 20, 0, 60, 30, 5]), [10, 20, 60, 30, 5]);
}

#[test]
fn the_total_shows_that_a_part_stands_beside_its_whole() {
    // xAI: reasoning beside the completion.
    check(&said([291, 26, 513, 290, 0, 196]), [1, 222, 290, 0, 196]);
    check(&said([21, 0, 81, 0, 0, 60]), [21, 60, 0, 0, 60]);
    // Cached tokens beside the prompt, also where they would fit into it.
    check(&said([235, 12, 620, 373, 0, 0]), [235, 12, 373, 0, 0]);
    check(&said([500, 12, 612, 100, 0, 0]), [500, 12, 100, 0, 0]);
    // Reads in the prompt, writes beside it.
    check(&said([1_007, 5, 3_173, 1_000, 2_161, 0]), [7, 5, 1_000, 2_161, 0]);
    // Everything beside.
    check(&said([10, 3, 1 + 2 + 4 + 13, 1, 2, 4]), [10, 7, 1, 2, 4]);
}

#[test]
fn a_part_larger_than_its_whole_stands_beside_it() {
    check(&said([9, 2, 0, 0, 0, 25]), [9, 27, 0, 0, 25]);
    check(&said([235, 12, 0, 373, 0, 0]), [235, 12, 373, 0, 0]);
    check(&said([235, 12, 247, 373, 0, 0]), [235, 12, 373, 0, 0]);
    check(&said([7, 5, 0, 0, 2_161, 0]), [7, 5, 0, 2_161, 0]);
    check(&said([7, 5, 12, 0, 2_161, 0]), [7, 5, 0, 2_161, 0]);
    // Both fit alone, but not together.
    check(&said([1_007, 5, 0, 1_000, 2_161, 0]), [7, 5, 1_000, 2_161, 0]);
}

#[test]
fn the_completion_of_a_reply_of_thinking_is_its_reasoning() {
    let tokenizers = said([43, 10, 53, 0, 0, 11]);
    check(&Said { reply: Reply::OnlyThinking, ..tokenizers }, [43, 10, 0, 0, 10]);
    check(&tokenizers, [43, 10, 0, 0, 10]);
    let none = said([43, 0, 0, 0, 0, 11]);
    check(&Said { reply: Reply::OnlyThinking, ..none }, [43, 11, 0, 0, 11]);
}

/// OpenRouter estimates the tokens of thinking and charges for the completion.
#[test]
fn the_total_decides_against_an_estimate_of_thinking() {
    check(&said([22, 105, 127, 0, 0, 112]), [22, 105, 0, 0, 105]);
    // Against a count of several times the completion only a price decides.
    check(&said([9, 2, 11, 0, 0, 25]), [9, 27, 0, 0, 25]);
    check(&Said { basis: Basis::Charged, ..said([9, 2, 11, 0, 0, 25]) }, [9, 2, 0, 0, 2]);
    check(&said([100, 10, 110, 60, 0, 12]), [40, 10, 60, 0, 10]);
}

/// Mistral counts the sound of a prompt beside it.
#[test]
fn sound_that_only_the_total_contains_is_a_part_of_the_prompt() {
    let heard = |row, audio| Said { audio: Some(audio), ..said(row) };
    check(&heard([11, 15, 401, 9, 0, 0], 375), [377, 15, 9, 0, 0]);
    // OpenAI counts it in the prompt.
    check(&heard([400, 15, 415, 0, 0, 0], 375), [400, 15, 0, 0, 0]);
    // Other tokens that only the total contains are output.
    check(&heard([400, 15, 500, 0, 0, 0], 375), [400, 100, 0, 0, 0]);
    check(&heard([11, 15, 411, 0, 0, 0], 375), [386, 25, 0, 0, 0]);
}

#[test]
fn tokens_that_only_the_total_contains_are_output() {
    check(&said([35, 12, 109, 0, 0, 0]), [35, 74, 0, 0, 0]);
    // An unknown count is not made up from the total.
    check(&Said { prompt: None, ..said([0, 12, 109, 0, 0, 0]) }, [0, 12, 0, 0, 0]);
    check(&Said { output: None, ..said([35, 0, 109, 0, 0, 0]) }, [35, 0, 0, 0, 0]);
    // A total that is too small takes nothing away.
    check(&said([35, 12, 40, 0, 0, 0]), [35, 12, 0, 0, 0]);
}

#[test]
fn a_vendor_that_usually_counts_beside_is_read_so() {
    let gemini = |row| Said { thinking: Place::Beside, ..said(row) };
    check(&gemini([120, 10, 137, 60, 0, 7]), [60, 17, 60, 0, 7]);
    check(&gemini([120, 10, 0, 60, 0, 7]), [60, 17, 60, 0, 7]);
    check(&gemini([120, 17, 137, 60, 0, 7]), [60, 17, 60, 0, 7]);
    let anthropic = |row| Said { cache: Place::Beside, ..said(row) };
    check(&anthropic([26, 23, 0, 20, 4, 0]), [26, 23, 20, 4, 0]);
    check(&anthropic([26, 23, 49, 20, 4, 0]), [2, 23, 20, 4, 0]);
}

#[test]
fn numbers_without_sense_do_not_overflow() {
    let max = u64::MAX;
    for row in [[max; 6], [1, max, 3, max, max, max], [0, 0, max, max, 0, 1]] {
        let usage = disjoint(&said(row));
        assert!(usage.reasoning <= usage.output, "{row:?}");
    }
}

/// Returns what a vendor sends that counts the parts at these places.
fn written([input, output, read, write, reasoning]: [u64; 5], places: [Place; 3]) -> Said {
    let inside = |place: Place, count: u64| if place == Place::Inside { count } else { 0 };
    let [of_read, of_write, of_reasoning] = places;
    Said {
        prompt: Some(input + inside(of_read, read) + inside(of_write, write)),
        output: Some(output + inside(of_reasoning, reasoning)),
        total: Some(input + output + read + write + reasoning),
        cache_read: Some(read),
        cache_write: Some(write),
        reasoning: Some(reasoning),
        ..Said::default()
    }
}

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![Just(Place::Inside), Just(Place::Beside)]
}

proptest! {
    /// Wherever a vendor counts a part, no token is lost and none is counted twice.
    #[test]
    fn all_tokens_of_the_total_are_counted_once(
        counts in prop::array::uniform5(0_u64..50),
        places in prop::array::uniform3(place()),
        usually in prop::array::uniform2(place()),
    ) {
        let [cache, thinking] = usually;
        let said = Said { cache, thinking, ..written(counts, places) };
        let usage = disjoint(&said);
        prop_assert_eq!(usage.total_tokens, counts.iter().sum::<u64>());
        prop_assert_eq!((usage.cache_read, usage.cache_write, usage.reasoning), (counts[2], counts[3], counts[4]));
    }

    /// What a vendor counts as usual is read as usual, also without a total.
    #[test]
    fn the_usual_places_need_no_total(counts in prop::array::uniform5(0_u64..50), usually in prop::array::uniform2(place())) {
        let [cache, thinking] = usually;
        let said = written(counts, [cache, cache, thinking]);
        let [input, output, read, write, reasoning] = counts;
        for total in [None, said.total] {
            let usage = disjoint(&Said { total, cache, thinking, ..said });
            prop_assert_eq!(usage, Usage::new(input, output + reasoning, read, write).with_reasoning(reasoning));
        }
    }

    /// No numbers overflow, and no count is smaller than the vendor's.
    #[test]
    fn no_count_is_lost(counts in prop::array::uniform6(any::<u64>()), small in prop::array::uniform6(0_u64..9)) {
        for row in [counts, small] {
            let usage = disjoint(&said(row));
            prop_assert!(usage.output >= row[1] && usage.reasoning <= usage.output);
            prop_assert_eq!((usage.cache_read, usage.cache_write), (row[3], row[4]));
            prop_assert!(usage.total_tokens >= row[0].max(row[1]));
        }
    }
}
