use super::*;

#[test]
fn the_usual_models_are_in_the_catalogue() {
    for name in USUAL.iter().filter(|name| !name.starts_with("openrouter/")) {
        let (provider, id) = name.split_once('/').unwrap();
        assert!(catalogue::models().iter().any(|m| m.provider == provider && m.id == id), "{name}");
        assert!(key_variable(provider).is_some(), "{name}");
    }
}
