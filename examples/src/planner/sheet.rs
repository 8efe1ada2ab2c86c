//! The form in which a surveyor answers: Markdown that people and programs read.
//!
//! ```text
//! ## Largest files: 2
//! - `/src/main.rs`: 1200 bytes
//! - `/src/lib.rs`: 80 bytes
//! ```

use std::fmt;

use super::markdown::{code, read_code};

/// What the rows of one section may take, so that a whole sheet stays a moderate text.
const MAX_SECTION: usize = 32_000;

/// A titled list. When it has fewer rows than its total, the others were left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) title: String,
    pub(super) total: u64,
    /// A name, and one line on it.
    pub(super) rows: Vec<(String, String)>,
}

impl Section {
    /// A section of the first of these rows; those that do not fit are only counted.
    pub(super) fn new(
        title: &str,
        total: u64,
        rows: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        let mut room = MAX_SECTION;
        let fits = |(name, text): &(String, String)| {
            let size = name.len() + text.len();
            let fits = size <= room;
            room = room.saturating_sub(size);
            fits
        };
        Section {
            title: title.to_owned(),
            total,
            rows: rows.into_iter().take_while(fits).collect(),
        }
    }

    /// A section of all of these rows.
    pub(super) fn of(title: &str, rows: Vec<(String, String)>) -> Self {
        Self::new(title, rows.len() as u64, rows)
    }

    /// How many rows are not here.
    pub(super) fn left_out(&self) -> u64 {
        self.total.saturating_sub(self.rows.len() as u64)
    }

    /// What the section says about `name`.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let (_, text) = self.rows.iter().find(|(row, _)| row == name)?;
        Some(text)
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "## {}: {}", self.title, self.total)?;
        for (name, text) in &self.rows {
            writeln!(f, "- {}: {text}", code(name))?;
        }
        Ok(())
    }
}

/// Reads the sections of a text; other lines are passed over.
pub(super) fn sections(text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for line in text.split('\n') {
        if let Some((title, total)) = heading(line) {
            sections.push(Section {
                title: title.to_owned(),
                total,
                rows: Vec::new(),
            });
        } else if let (Some(section), Some(row)) = (sections.last_mut(), row(line)) {
            section.rows.push(row);
        }
    }
    sections
}

fn heading(line: &str) -> Option<(&str, u64)> {
    let (title, total) = line.strip_prefix("## ")?.rsplit_once(": ")?;
    Some((title, total.parse().ok()?))
}

fn row(line: &str) -> Option<(String, String)> {
    let (name, rest) = read_code(line.strip_prefix("- ")?)?;
    Some((name.to_owned(), rest.strip_prefix(": ")?.to_owned()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_sheet_is_read_back(
            rows in prop::collection::vec(("[a`: #]{1,6}", "[-a`: #]{0,6}"), 0..4),
            more in 0u64..3,
        ) {
            let section = Section::new("Some: title", rows.len() as u64 + more, rows);
            let text = format!("# Head\n\n{section}\n{section}");
            prop_assert_eq!(sections(&text), [section.clone(), section]);
        }
    }

    #[test]
    fn a_long_section_is_cut_and_says_so() {
        let row = ("a".repeat(15_000), String::new());
        let section = Section::of("Long", vec![row.clone(), row.clone(), row]);
        assert_eq!((section.rows.len(), section.left_out()), (2, 1));
    }
}
