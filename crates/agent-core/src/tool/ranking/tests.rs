use serde_json::json;

use super::*;

fn tool(name: &str, description: &str) -> ToolDefinition {
    let schema = json!({"type": "object", "properties": {"zone": {"description": "An airport code"}}});
    ToolDefinition::new(name, description, schema)
}

#[test]
fn words_end_at_separators_and_capitals_and_lose_their_plural() {
    let table = [
        ("get_user-profile.v2", vec!["get", "user", "profile", "v2"]),
        ("listOpenIssues", vec!["list", "open", "issue"]),
        ("HTTPServer class", vec!["httpserver", "class"]),
        ("Größe ändern", vec!["größe", "ändern"]),
        ("  ", vec![]),
    ];
    for (text, expected) in table {
        assert_eq!(words(text).collect::<Vec<_>>(), expected, "{text}");
    }
}

#[test]
fn a_name_outweighs_a_description_and_ties_stay_in_order() {
    let tools =
        [tool("a", "Sends a mail."), tool("send_mail", "Posts."), tool("b", "Reads."), tool("c", "Reads.")];
    let ranking = Ranking::new(&tools);
    assert_eq!(ranking.best("send mails", 9), [1, 0]);
    assert_eq!(ranking.best("reads", 9), [2, 3]);
    assert_eq!(ranking.best("reads", 1), [2]);
    assert_eq!(ranking.best("airport", 9).len(), 4, "arguments count");
    assert_eq!(ranking.best("nothing like that", 9), Vec::<usize>::new());
    assert_eq!(Ranking::new(&[]).best("x", 9), Vec::<usize>::new());
}

#[test]
fn a_rare_word_outweighs_common_ones() {
    let mut tools: Vec<_> =
        (0..50).map(|n| tool(&format!("list_things_{n}"), "Lists the open things.")).collect();
    tools.push(tool("refund", "Returns the money of an order."));
    assert_eq!(Ranking::new(&tools).best("list the open refund", 1), [50]);
}
