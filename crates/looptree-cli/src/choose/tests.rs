use super::*;

#[test]
fn the_usual_models_are_in_the_catalogue() {
    for name in USUAL.iter().filter(|name| !name.starts_with("openrouter/")) {
        let (provider, id) = name.split_once('/').unwrap();
        assert!(catalogue::models().iter().any(|m| m.provider == provider && m.id == id), "{name}");
        assert!(key_variable(provider).is_some(), "{name}");
    }
}

#[test]
fn a_model_of_a_cloud_gets_its_place_from_the_environment_unless_it_has_one() {
    let read = |name: &str| Some(format!("of {name}"));
    let of = |text: &str| {
        let model = clouds::located(text.parse().unwrap(), read);
        (model.base_url, model.project, model.region)
    };
    let some = |name: &str| Some(format!("of {name}"));
    assert_eq!(of("azure/d"), (some("AZURE_OPENAI_ENDPOINT"), None, None));
    let vertex = (None, some("GOOGLE_CLOUD_PROJECT"), some("GOOGLE_CLOUD_LOCATION"));
    assert_eq!(of("google_vertex/m"), vertex);
    assert_eq!(of("anthropic_vertex/m"), vertex);
    assert_eq!(of("bedrock/m"), (None, None, some("AWS_REGION")));
    let own = clouds::located(ModelConfig::vertex("p", "r", "m"), read);
    assert_eq!((own.project.as_deref(), own.region.as_deref()), (Some("p"), Some("r")));
}

#[test]
fn a_model_can_be_described_by_json() {
    let model = described_by(r#"{"model": "azure/d", "base_url": "https://r.openai.azure.com"}"#).unwrap();
    assert_eq!((model.id.as_str(), model.base_url.as_deref()), ("d", Some("https://r.openai.azure.com")));
    let error = described_by("{\"model\": 5}").unwrap_err();
    assert!(error.to_string().contains("no JSON description"), "{error}");
}
