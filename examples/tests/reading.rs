//! Directories to survey, and what a report says of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A file with this content, and the directories on the way to it.
pub(crate) fn put(root: &Path, path: &str, content: impl AsRef<[u8]>) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// The lines of the report that name a place, as place and text.
pub(crate) fn places(report: &str) -> BTreeSet<(String, usize, String)> {
    let (_, section) = report.split_once("\n## TODO and FIXME (").unwrap();
    let section = section.split("\n## ").next().unwrap();
    section
        .lines()
        .filter_map(|line| line.strip_prefix("- `")?.strip_suffix('`'))
        .map(|entry| {
            let (path, rest) = entry.split_once(':').unwrap();
            let (line, text) = rest.split_once(": ").unwrap();
            (path.to_owned(), line.parse().unwrap(), text.to_owned())
        })
        .collect()
}

/// The places in real files, by the plainest code there is.
pub(crate) fn scan(files: &BTreeMap<String, String>) -> BTreeSet<(String, usize, String)> {
    let mut places = BTreeSet::new();
    for (path, content) in files {
        for (line, text) in (1..).zip(content.lines()) {
            let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
            if words.any(|word| word == "TODO" || word == "FIXME") {
                places.insert((path.clone(), line, text.trim().to_owned()));
            }
        }
    }
    places
}

/// The number after a label of the report.
pub(crate) fn fact(report: &str, name: &str) -> usize {
    let (_, rest) = report.split_once(&format!("\n- {name}: ")).unwrap();
    rest.lines().next().unwrap().parse().unwrap()
}
