use super::*;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn a_seed_draws_the_same_mutants_and_another_one_draws_others() {
    let names: Vec<String> = (0..500).map(|n| format!("m{n}")).collect();
    let drawn = draw::draw(&names, 1, 60);
    assert_eq!((drawn.len(), draw::draw(&names, 1, 60)), (60, drawn.clone()));
    assert_ne!(draw::draw(&names, 2, 60), drawn);
    assert_eq!(draw::draw(&names, 1, 1000), names, "all, where there are fewer");
}

#[test]
fn a_module_needs_nine_of_ten() {
    let results = |caught: usize, missed: usize| Results {
        caught: (0..caught).map(|_| Caught { mutant: String::new(), by: String::new() }).collect(),
        missed: vec![String::new(); missed],
        ..Results::default()
    };
    assert!(results(54, 6).is_good() && results(0, 0).is_good());
    assert!(!results(53, 7).is_good());
}

#[test]
fn the_command_line_names_modules() -> anyhow::Result<()> {
    let options = options(&words("--seed 7 --drawn 5 run bash --missed"))?;
    assert_eq!((options.seed, options.drawn, options.modules), (7, 5, words("run bash")));
    assert!(options.missed && !super::options(&[])?.missed);
    for bad in ["--seed", "--seed x", "--fast", "runs"] {
        assert!(super::options(&words(bad)).is_err(), "{bad}");
    }
    assert_eq!(modules().count(), 10);
    Ok(())
}
