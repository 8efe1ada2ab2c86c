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
            // What stands over a rule is a heading; above a heading may be a rule as well.
            let heading = Some(one_line(&paragraph.join(" "), MAX_NAME));
            about.name = about.name.or(heading.filter(|text| !text.is_empty()));
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
        && ['=', '-']
            .iter()
            .any(|mark| line.chars().all(|c| c == *mark))
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

const BLOCKS: [(&str, &str); 4] = [
    ("/**", "*/"),
    ("/*", "*/"),
    ("\"\"\"", "\"\"\""),
    ("<!--", "-->"),
];
const LINES: [&str; 6] = ["//!", "///", "//", "# ", "-- ", ";; "];

/// The first paragraph of the comment that a source begins with; a licence is passed over.
fn comment(lines: &[&str]) -> Option<String> {
    let mut words: Vec<&str> = Vec::new();
    let mut block = None;
    let mut legal = false;
    for line in lines.iter().map(|line| line.trim()) {
        let text = comment_text(line, &mut block);
        legal = text.is_some_and(|text| legal || is_legal(text));
        match text {
            Some(_) if legal => {}
            Some("") if words.is_empty() => {}
            Some(text) if !text.is_empty() => words.push(text),
            None if words.is_empty() && may_come_first(line) => {}
            _ => break,
        }
    }
    Some(one_line(&words.join(" "), MAX_TEXT)).filter(|text| !text.is_empty())
}

/// The part of a line that is comment; `block` is what ends an open block of comment.
fn comment_text<'a>(line: &'a str, block: &mut Option<&'static str>) -> Option<&'a str> {
    let text = match block {
        Some(_) => line,
        None => match BLOCKS.iter().find(|(begin, _)| line.starts_with(begin)) {
            Some((begin, end)) => {
                *block = Some(end);
                line.strip_prefix(begin)?
            }
            None => LINES.iter().find_map(|mark| line.strip_prefix(mark))?,
        },
    };
    let ended = block.and_then(|end| text.split_once(end));
    let text = match ended {
        Some((before, _)) => {
            *block = None;
            before
        }
        None => text,
    };
    Some(text.trim_start_matches(['*', ' ']).trim_end())
}

/// Empty lines, directives and attributes stand also before a file's own words.
fn may_come_first(line: &str) -> bool {
    line.is_empty() || line.starts_with(['#', '<'])
}

fn is_legal(text: &str) -> bool {
    ["Copyright", "SPDX", "Licen", "(c)"]
        .iter()
        .any(|word| text.starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_words_of_a_file() {
        let rows = [
            ("/a.md", "---\n\n# Title #\ntext", "Title"),
            ("/a.rst", "=====\nTitle\n=====\n\ntext", "Title"),
            (
                "/a.txt",
                "```\n# no\n```\nJust\nwords.\n\nMore",
                "Just words.",
            ),
            (
                "/a.rs",
                "#![no_std]\n//! Waves\n//! roll.\n//!\n//! More",
                "Waves roll.",
            ),
            (
                "/a.go",
                "// Copyright X\n//\n// All of it.\n\n// Package a waves.\npackage a",
                "Package a waves.",
            ),
            ("/a.c", "#ifndef A\n/*\n * Waves.\n */\nint x;", "Waves."),
            ("/a.py", "#!/bin/python\n\"\"\"\nWaves.\n\"\"\"\n", "Waves."),
            ("/a.py", "\"\"\"Waves.\"\"\"\nimport x", "Waves."),
            ("/a.js", "run()\n// not about the file", ""),
            ("/a.html", "<!doctype html>\n<!-- Waves. -->", "Waves."),
        ];
        for (path, text, expected) in rows {
            let lines: Vec<_> = text.split('\n').collect();
            assert_eq!(
                first_words(path, &lines).unwrap_or_default(),
                expected,
                "{path}: {text}"
            );
        }
    }

    #[test]
    fn the_names_in_manifests() {
        let rows = [
            (
                "Cargo.toml",
                "[package]\nname = \"tides\"\ndescription = \"Waves.\"",
                "tides: Waves.",
            ),
            ("package.json", "{\"name\": \"tides\"}", "tides: "),
            ("package.json", "{\"name\": [", ": "),
            (
                "go.mod",
                "module example.org/tides\n",
                "example.org/tides: ",
            ),
        ];
        for (file, text, expected) in rows {
            let lines: Vec<_> = text.split('\n').collect();
            let About { name, purpose } = manifest(file, &lines);
            let all = [name, purpose].map(Option::unwrap_or_default).join(": ");
            assert_eq!(all, expected, "{file}: {text}");
        }
    }
}
