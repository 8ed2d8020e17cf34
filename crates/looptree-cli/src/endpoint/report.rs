//! The result of the checks, as a table and as data.

use std::fmt;

use looptree::model::ChatDialect;

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The question of the check.
    pub what: String,
    /// The result of the check.
    pub answer: String,
}

/// Everything that was found.
#[derive(Debug, Clone)]
pub struct Report {
    /// The address of the server.
    pub base_url: String,
    /// The model that was checked.
    pub model: String,
    /// The models that the server lists.
    pub models: Vec<String>,
    /// The findings of all questions.
    pub findings: Vec<Finding>,
    /// The settings for the library.
    pub dialect: ChatDialect,
    /// Whether pictures are taken.
    pub images: Option<bool>,
    /// Whether an agent could work with it; `None` when it was not tried.
    pub works: Option<bool>,
}

impl Report {
    pub(super) fn new(base_url: &str, model: &str, models: Vec<String>) -> Self {
        Self {
            base_url: base_url.to_owned(),
            model: model.to_owned(),
            models,
            findings: Vec::new(),
            dialect: super::nothing(),
            images: None,
            works: None,
        }
    }

    pub(super) fn found(&mut self, what: &str, answer: impl Into<String>) {
        self.findings.push(Finding { what: what.to_owned(), answer: answer.into() });
    }

    /// The answer to a question of the table.
    #[must_use]
    pub fn answer(&self, what: &str) -> Option<&str> {
        self.findings.iter().find(|f| f.what == what).map(|f| f.answer.as_str())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} with the model {}", self.base_url, self.model)?;
        writeln!(f, "{} models are listed\n", self.models.len())?;
        let width = self.findings.iter().map(|found| found.what.chars().count()).max().unwrap_or(0);
        for found in &self.findings {
            writeln!(f, "  {:width$}  {}", found.what, found.answer)?;
        }
        let dialect = serde_json::to_string_pretty(&self.dialect).map_err(|_| fmt::Error)?;
        writeln!(
            f,
            "\nThe dialect, for `ModelConfig::local({:?}, {:?}, key)`:\n",
            self.base_url, self.model
        )?;
        writeln!(f, "    .with_dialect(serde_json::from_str(r#\"{dialect}\"#)?)")?;
        if let Some(images) = self.images {
            writeln!(f, "    .with_images({images})")?;
        }
        match self.works {
            Some(true) => writeln!(f, "\nAn agent with it called a tool and read the result."),
            Some(false) => writeln!(
                f,
                "\nAn agent with it could not do a turn with a tool; see the last line of the table."
            ),
            None => writeln!(f, "\nNo agent was tried: the server did not answer the plainest question."),
        }
    }
}
