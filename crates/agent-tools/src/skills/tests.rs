use agent_core::compat::SeedVerbs as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use agent_core::testing::MockProvider;
use agent_core::{AgentError, BasicAgent, ModelConfig, SystemEnvironment, ToolContext};
use serde_json::json;

use crate::bounded::BoundedFolder;

use super::{SkillError, SkillSet, WithSkills as _, parse_frontmatter};

fn put(home: &Path, folder: &str, text: &str) {
    fs::create_dir_all(home.join(folder)).unwrap();
    fs::write(home.join(folder).join("SKILL.md"), text).unwrap();
}

fn skill(name: &str, description: &str) -> String {
    format!("---\nname: {name}\ndescription: {description}\n---\nDo it.\n")
}

fn notes(set: &SkillSet) -> String {
    set.notes().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// REQ-110, D31.
#[test]
fn front_matter_is_yaml_between_two_lines() {
    #[track_caller]
    fn check(text: &str, expect: Result<(&str, &str), &str>) {
        match (parse_frontmatter(text), expect) {
            (Ok(found), Ok((name, description))) => {
                assert_eq!((found.name.as_str(), found.description.as_str()), (name, description));
            }
            (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{error}"),
            (found, _) => panic!("{found:?}"),
        }
    }
    check("---\nname: a\ndescription: b\n---\nx", Ok(("a", "b")));
    check("\u{feff}\n---\r\nname: \"a\"\r\ndescription: 'b: c'\r\n---\r\n", Ok(("a", "b: c")));
    check("---\nname: a\ndescription: >\n  two\n  lines\n---", Ok(("a", "two lines")));
    check("---\nname: a\ndescription: b\nlater: [1, {x: y}]\n---", Ok(("a", "b")));
    check("name: a", Err("does not begin"));
    check("--- name: a\n---", Err("not just ---"));
    check("---\nname: a\n", Err("no line of ---"));
    check("---\ndescription: b\n---", Err("\"name\""));
    check("---\nname: a\n---", Err("\"description\""));
    check("---\nname: \" \"\ndescription: b\n---", Err("\"name\""));
    check("---\nname: \"\n---", Err("invalid front matter"));
    check("---\n- a\n---", Err("invalid front matter"));
    assert!(matches!(parse_frontmatter(""), Err(SkillError::InvalidFrontmatter(_))));
    let bomb = format!(
        "---\na: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nname: {}\n---",
        "x".repeat(70_000)
    );
    check(&bomb, Err("longer than 16384 bytes"));
    for open in ["[", "{a: "] {
        check(&format!("---\nname: a\ndescription: b\nx: {}\n---", open.repeat(33)), Err("32 open brackets"));
    }
    let wide = format!("a: &a [{}]\nmetadata: [{}]", "x,".repeat(2_000), "*a,".repeat(2_000));
    check(&format!("---\nname: a\ndescription: b\n{wide}\n---"), Err("aliases expand to too much"));
}

/// REQ-109, REQ-112.
#[test]
fn a_later_folder_wins_and_a_folder_that_is_not_there_is_passed_over() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(first.path(), "foo", &skill("foo", "the first"));
    put(first.path(), "bar", &skill("bar", "alone"));
    put(second.path(), "foo", &skill("foo", "the second"));
    fs::create_dir(first.path().join("empty")).unwrap();
    fs::write(first.path().join("README.md"), "no skill").unwrap();
    let set = SkillSet::load([first.path(), Path::new("/no/such/folder"), second.path()]);
    let found: Vec<(&str, &str)> = set.iter().map(|s| (s.name(), s.description())).collect();
    assert_eq!(found, [("bar", "alone"), ("foo", "the second")]);
    assert_eq!(set.notes().len(), 1);
    assert!(notes(&set).contains("is used instead"), "{}", notes(&set));
    assert!(SkillSet::load_dir("/no/such/folder", "user").is_err());
    assert_eq!(SkillSet::load_dir(second.path(), "user").unwrap().get("foo").unwrap().source(), "user");
}

/// B-186.
#[test]
fn one_bad_skill_is_a_note_and_the_others_are_there() {
    let home = tempfile::tempdir().unwrap();
    put(home.path(), "good", &skill("good", "fine"));
    put(home.path(), "broken", "no front matter");
    put(home.path(), "blank", "---\nname: blank\n---\n");
    put(home.path(), "odd", &skill("Odd--Name", "works all the same"));
    put(home.path(), "long", &skill("long", &"d".repeat(1_025)));
    put(home.path(), "huge", &"x".repeat((1 << 20) + 1));
    fs::create_dir_all(home.path().join("folder/SKILL.md")).unwrap();
    let set = SkillSet::load([home.path()]);
    let names: Vec<&str> = set.iter().map(super::Skill::name).collect();
    assert_eq!(names, ["Odd--Name", "good", "long"]);
    let notes = notes(&set);
    for words in [
        "broken",
        "lacks the field \"description\"",
        "single hyphens",
        "that of its folder",
        "1024 characters",
        "larger than",
    ] {
        assert!(notes.contains(words), "{words} is not in\n{notes}");
    }
}

/// REQ-111, B-186.
#[test]
fn the_model_is_told_names_descriptions_and_places_in_xml() {
    let home = tempfile::tempdir().unwrap();
    put(home.path(), "b", &skill("b", "\"uses <tags> & 'quotes'\""));
    put(home.path(), "a", &skill("a", "first"));
    put(home.path(), "secret", "---\nname: secret\ndescription: x\ndisable-model-invocation: true\n---\n");
    let block = SkillSet::load([home.path()]).format_for_prompt();
    let at = fs::canonicalize(home.path()).unwrap();
    let expected = format!(
        "<available_skills>\n  <skill>\n    <name>a</name>\n    <description>first</description>\n    <location>{0}/a/SKILL.md</location>\n  </skill>\n  \
         <skill>\n    <name>b</name>\n    <description>uses &lt;tags&gt; &amp; &apos;quotes&apos;</description>\n    <location>{0}/b/SKILL.md</location>\n  </skill>\n</available_skills>",
        at.display()
    );
    assert_eq!(block, expected);
    assert_eq!(SkillSet::default().format_for_prompt(), "");
}

/// REQ-113.
#[test]
fn an_agent_is_told_of_its_skills_and_can_read_them() {
    let home = tempfile::tempdir().unwrap();
    put(home.path(), "release", &skill("release", "Makes a release."));
    let set = SkillSet::load([home.path()]);
    let agent = BasicAgent::new(ModelConfig::default()).with_system_prompt("Be brief.").with_skills(&set);
    let prompt = agent.system_prompt();
    assert!(prompt.starts_with("Be brief.\n\n<available_skills>") && prompt.contains("release"), "{prompt}");
    assert_eq!(agent.tools().iter().map(|t| t.name().to_owned()).collect::<Vec<_>>(), ["skill"]);
    let plain = BasicAgent::new(ModelConfig::default()).with_skills(&SkillSet::default());
    assert!(plain.system_prompt().is_empty() && plain.tools().is_empty());
}

#[tokio::test]
async fn skills_that_are_added_twice_are_an_error_that_names_the_tool_and_merged_sets_are_none() {
    let home = tempfile::tempdir().unwrap();
    put(home.path(), "a/release", &skill("release", "Makes a release."));
    put(home.path(), "b/review", &skill("review", "Reviews a change."));
    let (a, b) = (SkillSet::load([home.path().join("a")]), SkillSet::load([home.path().join("b")]));
    let agent = |provider| BasicAgent::new(ModelConfig::default()).with_provider(provider);
    let twice = agent(MockProvider::texts(["never sent"])).with_skills(&a).with_skills(&b);
    let error = twice.prompt("hello").unwrap_err();
    assert!(matches!(&error, AgentError::DuplicateTool { name } if name == "skill"), "{error:?}");

    let mut both = a;
    both.merge(b);
    let once = agent(MockProvider::texts(["done"])).with_skills(&both);
    assert!(once.system_prompt().contains("release") && once.system_prompt().contains("review"));
    let reply = once.prompt("hello").unwrap().end().await.into_reply().unwrap();
    assert_eq!(reply.text(), "done");
}

#[tokio::test]
async fn the_tool_reads_a_skill_and_what_is_in_its_folder_and_nothing_else() {
    let home = tempfile::tempdir().unwrap();
    put(home.path(), "release", &skill("release", "Makes a release."));
    fs::write(home.path().join("secret.txt"), "secret").unwrap();
    let folder = home.path().join("release");
    fs::create_dir(folder.join("references")).unwrap();
    fs::write(folder.join("references/api.md"), "the api").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(home.path().join("secret.txt"), folder.join("link")).unwrap();
    let tool = SkillSet::load([home.path()]).tool();
    let ask = |arguments| {
        let (tool, ctx) = (Arc::clone(&tool), ToolContext::detached("skill", Arc::new(SystemEnvironment)));
        async move { tool.execute(arguments, ctx).await.map(|r| r.to_text()).map_err(|e| e.to_string()) }
    };
    let text = ask(json!({"name": "release"})).await.unwrap();
    assert!(
        text.contains("references/api.md") && text.ends_with("Do it.") && !text.contains("description:"),
        "{text}"
    );
    assert_eq!(ask(json!({"name": "release", "file": "references/api.md"})).await.as_deref(), Ok("the api"));
    for file in ["../secret.txt", "/etc/passwd", "link", "references/../../secret.txt"] {
        let refused = ask(json!({"name": "release", "file": file})).await.unwrap_err();
        assert!(refused.contains("not in the folder"), "{file}: {refused}");
    }
    assert!(ask(json!({"name": "release", "file": "nothing"})).await.unwrap_err().contains("cannot read"));
    assert!(ask(json!({"name": "release", "file": "references"})).await.unwrap_err().contains("no file"));
    assert!(ask(json!({"name": "other"})).await.unwrap_err().contains("there are: release"));
}

/// A repository can contain any symlink. The folder itself is named by the caller, and may be one.
#[cfg(unix)]
#[test]
fn a_symlink_below_a_folder_of_skills_is_a_note() {
    use std::os::unix::fs::symlink;
    let (home, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(outside.path(), "other", &skill("other", "x"));
    put(home.path(), "skills/a", &skill("a", "x"));
    let at = |name: &str| home.path().join("skills").join(name);
    symlink(at("a"), at("same")).unwrap();
    symlink(outside.path().join("other"), at("folder")).unwrap();
    fs::create_dir(at("file")).unwrap();
    symlink(outside.path().join("other/SKILL.md"), at("file/SKILL.md")).unwrap();
    fs::create_dir(at("pipe")).unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, at("pipe/SKILL.md"), fifo, 0o600.into(), 0).unwrap();
    symlink(home.path().join("skills"), home.path().join("named")).unwrap();
    let set = SkillSet::load([home.path().join("named")]);
    assert_eq!(set.iter().map(super::Skill::name).collect::<Vec<_>>(), ["a"]);
    for name in ["same", "folder", "file"] {
        let word = format!("{name}: ");
        let note = set.notes().iter().find(|note| note.to_string().contains(&word)).unwrap();
        assert!(note.text.contains("is not followed here"), "{note}");
    }
    assert!(
        notes(&set).contains("pipe is not") || notes(&set).contains("not a regular file"),
        "{}",
        notes(&set)
    );
    let below = BoundedFolder::open(home.path()).unwrap();
    assert!(below.folder("named").is_err());
    assert_eq!(SkillSet::load_folders([&below.folder("skills").unwrap()]).len(), 1);
}

/// The worst front matter that a repository can contain, as often as it is read.
#[test]
fn the_number_of_skills_and_the_size_of_their_front_matter_are_limited() {
    let home = tempfile::tempdir().unwrap();
    for number in 0..140 {
        put(home.path(), &format!("s{number:03}"), &skill(&format!("s{number:03}"), "x"));
    }
    let set = SkillSet::load([home.path()]);
    assert_eq!(set.len(), super::MAX_SKILLS);
    assert!(notes(&set).contains("more than 128 skills"), "{}", notes(&set));

    let home = tempfile::tempdir().unwrap();
    let deep = format!("x: {}{}\n", "[".repeat(32), "[],".repeat(5_000));
    for number in 0..40 {
        put(home.path(), &format!("s{number}"), &format!("---\nname: s\ndescription: d\n{deep}---\n"));
    }
    put(home.path(), "z", &skill("z", "x"));
    let set = SkillSet::load([home.path()]);
    assert!(set.is_empty() && notes(&set).contains("more than 128 skills, or more than 524288 bytes"));
}

/// A folder that takes the place of a skill after it was loaded is not that skill.
#[cfg(unix)]
#[tokio::test]
async fn another_folder_in_the_place_of_a_skill_is_not_read() {
    let (home, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(home.path(), "parent/release", &skill("release", "Makes a release."));
    put(outside.path(), "release", &skill("release", "secret"));
    fs::write(outside.path().join("release/key"), "secret").unwrap();
    let tool = SkillSet::load([home.path().join("parent")]).tool();
    let ask = async |arguments| {
        let ctx = ToolContext::detached("skill", Arc::new(SystemEnvironment));
        tool.execute(arguments, ctx).await.map(|r| r.to_text()).map_err(|e| e.to_string())
    };
    assert!(ask(json!({"name": "release"})).await.is_ok());
    let (parent, aside) = (home.path().join("parent"), home.path().join("aside"));
    fs::rename(&parent, &aside).unwrap();
    std::os::unix::fs::symlink(outside.path(), &parent).unwrap();
    for arguments in [json!({"name": "release"}), json!({"name": "release", "file": "key"})] {
        let error = ask(arguments).await.unwrap_err();
        assert!(error.contains("another folder has replaced"), "{error}");
    }
    fs::remove_file(&parent).unwrap();
    fs::rename(outside.path().join("release"), home.path().join("moved")).unwrap();
    fs::create_dir(&parent).unwrap();
    fs::rename(home.path().join("moved"), parent.join("release")).unwrap();
    assert!(ask(json!({"name": "release"})).await.unwrap_err().contains("another folder has replaced"));
}
