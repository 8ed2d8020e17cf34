//! Skills on an agent.

use agent_core::BasicAgent;

use super::SkillSet;

/// Gives an agent skills (REQ-113).
pub trait WithSkills: Sized {
    /// Tells the model of these skills, at the end of the system prompt, and gives it the tool `skill` to read them. A set without
    /// skills changes nothing.
    #[must_use]
    fn with_skills(self, skills: &SkillSet) -> Self;
}

impl WithSkills for BasicAgent {
    fn with_skills(self, skills: &SkillSet) -> Self {
        let block = skills.format_for_prompt();
        if block.is_empty() {
            return self;
        }
        let prompt = self.system_prompt();
        let prompt = if prompt.is_empty() { block } else { format!("{prompt}\n\n{block}") };
        let mut tools = self.tools();
        tools.push(skills.tool());
        self.with_system_prompt(prompt).with_tools(tools)
    }
}
