//! Looking for skills in a folder.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::Path;

use super::{MAX_SKILL_BYTES, MAX_SKILLS, SKILL_FILE, Skill, SkillError, SkillNote, SkillSet, front_matter};

pub(super) fn folder(folder: &Path, source: &str) -> Result<SkillSet, SkillError> {
    let mut set = SkillSet::default();
    let entries = fs::read_dir(folder).map_err(|e| SkillError::io(folder, e))?;
    let mut names = BTreeSet::new();
    for entry in entries {
        let entry = entry.map_err(|e| SkillError::io(folder, e))?;
        names.insert(entry.path());
        if names.len() > MAX_SKILLS {
            let text = format!("it holds more than {MAX_SKILLS} entries; the others are passed over");
            set.notes.push(SkillNote::new(folder, text));
            break;
        }
    }
    let mut seen = BTreeSet::new();
    for path in names {
        let file = path.join(SKILL_FILE);
        // A folder that is no skill is nobody's mistake. What is there and no regular file would be waited for.
        if !fs::metadata(&file).is_ok_and(|m| m.is_file()) {
            continue;
        }
        match skill(&file, source, &mut set.notes) {
            Ok(skill) => {
                // The same skill by another way: a symlink.
                if seen.insert(skill.location.clone()) {
                    let mut one = SkillSet::default();
                    one.skills.insert(skill.name().to_owned(), skill);
                    set.merge(one);
                }
            }
            Err(error) => set.notes.push(SkillNote::new(&file, error.to_string())),
        }
    }
    Ok(set)
}

fn skill(file: &Path, source: &str, notes: &mut Vec<SkillNote>) -> Result<Skill, SkillError> {
    let matter = front_matter::parse_frontmatter(&read(file)?)?;
    let folder = file.parent().and_then(Path::file_name).and_then(|n| n.to_str());
    notes.extend(front_matter::oddities(&matter, folder).into_iter().map(|text| SkillNote::new(file, text)));
    let location = fs::canonicalize(file).map_err(|e| SkillError::io(file, e))?;
    Ok(Skill { matter, location, source: source.to_owned() })
}

/// A text file, as far as one is read.
pub(super) fn read(file: &Path) -> Result<String, SkillError> {
    let io = |e| SkillError::io(file, e);
    let opened = fs::File::open(file).map_err(io)?;
    let mut bytes = Vec::new();
    opened.take(MAX_SKILL_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX_SKILL_BYTES {
        return Err(SkillError::TooLarge { limit: MAX_SKILL_BYTES });
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
