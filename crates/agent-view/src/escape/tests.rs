use super::*;

#[test]
fn html_has_no_character_that_begins_markup() {
    let mut out = String::new();
    html("</title><script>alert('1' & \"2\")</script>\0", &mut out);
    assert_eq!(
        out,
        "&lt;/title&gt;&lt;script&gt;alert(&#39;1&#39; &amp; &quot;2&quot;)&lt;/script&gt;\u{fffd}"
    );
}

#[test]
fn json_in_a_script_element_has_no_less_than_sign_and_keeps_its_value() {
    let value = serde_json::json!({"<!--": ["</script><script>x</script>", "a<b\u{2028}", "<"]});
    let mut bytes = Vec::new();
    serde_json::to_writer(ScriptData::new(&mut bytes), &value).unwrap();
    assert!(!bytes.contains(&b'<'));
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&bytes).unwrap(), value);
}
