//! What a project, or a part of it, is: in its own words.

use super::language;
use super::markdown::one_line;

/// How much of a sentence is repeated.
const MAX_TEXT: usize = 240;
const MAX_NAME: usize = 80;

/// The name and the purpose of a project, as far as a file tells.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct About {
    pub(super) name: Option<String>,
    pub(super) purpose: Option<String>,
}

/// Is this the name of a file that introduces its directory?
pub(super) fn is_readme(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default();
    stem.eq_ignore_ascii_case("readme")
}

/// Is this the name of a file that names a project?
pub(super) fn is_manifest(name: &str) -> bool {
    [
        "Cargo.toml",
        "package.json",
        "pyproject.toml",
        "go.mod",
        "composer.json",
    ]
    .contains(&name)
}

/// The first heading of a text, and the first paragraph that is no heading.
pub(super) fn readme(lines: &[&str]) -> About {
    let mut about = About::default();
    let mut paragraph: Vec<&str> = Vec::new();
    let mut fenced = false;
    for line in lines.iter().map(|line| line.trim()) {
        if line.starts_with("```") || line.starts_with("~~~") {
            fenced = !fenced;
        } else if is_rule(line) {
            // What stands above a rule is a heading; a rule may also stand over it.
            match paragraph.is_empty() {
                true => {}
                false => {
                    about.name = about
                        .name
                        .or(Some(one_line(&paragraph.join(" "), MAX_NAME)))
                }
            }
            paragraph.clear();
        } else if let Some(heading) = line.strip_prefix('#').filter(|_| !fenced) {
            if !paragraph.is_empty() {
                break;
            }
            let heading = heading.trim_matches(['#', ' ']);
            let heading = Some(one_line(heading, MAX_NAME)).filter(|text| !text.is_empty());
            about.name = about.name.or(heading);
        } else if is_words(line) && !fenced {
            paragraph.push(line);
        } else if line.is_empty() && !paragraph.is_empty() {
            break;
        }
    }
    about.purpose = Some(one_line(&paragraph.join(" "), MAX_TEXT)).filter(|text| !text.is_empty());
    about
}

fn is_rule(line: &str) -> bool {
    line.len() >= 3
        && ["=", "-", "~"]
            .iter()
            .any(|mark| line.trim_matches(|c| mark.contains(c)).is_empty())
}

/// Not a badge, a tag, a table, a picture or a directive.
fn is_words(line: &str) -> bool {
    !line.is_empty() && !line.starts_with(['[', '!', '<', '|', ':']) && !line.starts_with("..")
}

/// The name that a manifest gives its project.
pub(super) fn manifest(file: &str, lines: &[&str]) -> About {
    let name = match file {
        "go.mod" => lines
            .iter()
            .find_map(|line| line.strip_prefix("module "))
            .map(str::to_owned),
        _ if file.ends_with(".json") => json_name(&lines.join("\n")),
        _ => toml_value(lines, "name"),
    };
    let purpose = match file.ends_with(".toml") {
        true => toml_value(lines, "description"),
        false => None,
    };
    About {
        name: name
            .map(|name| one_line(&name, MAX_NAME))
            .filter(|name| !name.is_empty()),
        purpose: purpose
            .map(|text| one_line(&text, MAX_TEXT))
            .filter(|text| !text.is_empty()),
    }
}

fn json_name(text: &str) -> Option<String> {
    let manifest: serde_json::Value = serde_json::from_str(text).ok()?;
    manifest.get("name")?.as_str().map(str::to_owned)
}

/// The first value of a key, in the common form of one quoted text on the key's line.
fn toml_value(lines: &[&str], key: &str) -> Option<String> {
    lines.iter().find_map(|line| {
        let value = line
            .strip_prefix(key)?
            .trim_start()
            .strip_prefix('=')?
            .trim();
        let value = value.strip_prefix('"')?;
        value.split_once('"').map(|(value, _)| value.to_owned())
    })
}

/// The file that most likely says what a directory is for; `rest` is its path in the directory.
pub(super) fn rank(rest: &str) -> Option<usize> {
    let name = rest.rsplit('/').next().unwrap_or_default();
    let stem = name.split('.').next().unwrap_or_default();
    let deep = 2 * rest.matches('/').count();
    match (stem, language::known(&format!("/{name}"))) {
        _ if is_readme(name) => Some(deep),
        (_, None) => None,
        ("lib" | "mod" | "index" | "__init__", _) => Some(1 + deep),
        ("main", _) => Some(2 + deep),
        _ => Some(9 + deep),
    }
}

/// What a file says about itself: a text's heading, or the first comment of a source.
pub(super) fn first_words(path: &str, lines: &[&str]) -> Option<String> {
    match language::known(path) {
        Some("Markdown" | "AsciiDoc" | "reStructuredText" | "Text") | None => {
            let about = readme(lines);
            about.name.or(about.purpose)
        }
        Some(_) => comment(lines),
    }
}

/// The first paragraph of the first comment; a licence is no description.
fn comment(lines: &[&str]) -> Option<String> {
    let mut words: Vec<&str> = Vec::new();
    for line in lines {
        match comment_words(line) {
            Some(text) if is_legal(text) => {}
            Some("") if words.is_empty() => {}
            Some("") => break,
            Some(text) => words.push(text),
            None if words.is_empty() => {}
            None => break,
        }
    }
    Some(one_line(&words.join(" "), MAX_TEXT)).filter(|text| !text.is_empty())
}

fn comment_words(line: &str) -> Option<&str> {
    let line = line.trim();
    if line.starts_with("#!") || line.starts_with("#[") || line.starts_with("#include") {
        return None;
    }
    let marks = [
        "//!", "///", "//", "/**", "/*", "*/", "* ", "#", "--", "\"\"\"", "<!--",
    ];
    let mark = marks.iter().find(|mark| line.starts_with(**mark));
    let text = match mark {
        Some(mark) => line.strip_prefix(*mark)?,
        None => (line == "*").then_some("")?,
    };
    let text = ["*/", "\"\"\"", "-->"]
        .iter()
        .fold(text, |text, end| text.trim_end_matches(end));
    Some(text.trim())
}

fn is_legal(text: &str) -> bool {
    ["Copyright", "SPDX", "Licensed", "License", "(c)"]
        .iter()
        .any(|word| text.starts_with(word))
}
