//! Three hundred tools such as a company's servers have together.

use rmcp::model::Tool;
use serde_json::json;

const SUBJECTS: [(&str, &str); 25] = [
    ("invoice", "an invoice to a customer"),
    ("refund", "a refund of a payment"),
    ("customer", "a customer of the shop"),
    ("subscription", "a subscription to a plan"),
    ("shipment", "a shipment of ordered goods"),
    ("warehouse_item", "an item in the stock of a warehouse"),
    ("supplier", "a supplier of goods"),
    ("purchase_order", "a purchase order to a supplier"),
    ("employee", "an employee of the company"),
    ("vacation_request", "a request for vacation"),
    ("payslip", "a payslip of an employee"),
    ("job_posting", "a job posting"),
    ("calendar_event", "an event in a calendar"),
    ("meeting_room", "a room for meetings"),
    ("mailbox_message", "a message in a mailbox"),
    ("chat_channel", "a channel of the chat"),
    ("support_ticket", "a ticket of the support desk"),
    ("knowledge_article", "an article of the knowledge base"),
    ("repository", "a repository of source code"),
    ("pull_request", "a pull request for a repository"),
    ("deployment", "a deployment of a service"),
    ("feature_flag", "a feature flag of a service"),
    ("alert_rule", "a rule that raises an alert"),
    ("dashboard", "a dashboard with charts"),
    ("marketing_campaign", "a campaign of the marketing department"),
];

const ACTIONS: [(&str, &str); 12] = [
    ("create", "Creates"),
    ("get", "Returns the details of"),
    ("list", "Lists each"),
    ("update", "Changes the fields of"),
    ("delete", "Deletes"),
    ("archive", "Moves to the archive"),
    ("restore", "Brings back from the archive"),
    ("assign", "Makes a person responsible for"),
    ("comment_on", "Adds a remark to"),
    ("export", "Writes to a spreadsheet"),
    ("approve", "Gives the approval for"),
    ("audit", "Returns the history of changes of"),
];

pub fn tools() -> Vec<Tool> {
    let of_subject = |(subject, what): &(&'static str, &'static str)| {
        let (subject, what) = (*subject, *what);
        ACTIONS.map(|(action, does)| {
            let schema = json!({
                "type": "object",
                "properties": {
                    "id": {"type": "string", "description": format!("The id of the {}.", subject.replace('_', " "))},
                    "filter": {"type": "string", "description": "An expression that selects records, such as `status = open`."},
                    "fields": {"type": "array", "items": {"type": "string"}, "description": "The names of the fields to return or to change."},
                    "limit": {"type": "integer", "minimum": 1, "maximum": 500, "description": "The maximum number of records."},
                    "dry_run": {"type": "boolean", "description": "Checks the call and changes nothing."},
                },
                "required": ["id"],
            });
            let text = format!("{does} {what}. Returns the record with its id, its state and the time of the last change.");
            Tool::new(format!("{action}_{subject}"), text, schema.as_object().unwrap().clone())
        })
    };
    SUBJECTS.iter().flat_map(of_subject).collect()
}
