//! The texts of the file tools, read back.
//!
//! Texts of files stand in them within one line, and names hold no line breaks; so a line says
//! by its first character what it is, and no file can forge one. Only LF ends a line.

/// The entries of a directory, as `ls` shows them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Listing<'a> {
    pub(super) entries: Vec<Entry>,
    /// Where the next part of the listing begins, when there is one.
    pub(super) after: Option<&'a str>,
    /// The listing does not show as many entries as it says.
    pub(super) damaged: bool,
}

/// A name, or a path, and what is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) kind: Kind,
}

/// What stands behind a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File {
        size: u64,
    },
    Directory,
    /// A link to a file inside the root.
    FileLink,
    /// A link to a directory inside the root.
    DirectoryLink,
    /// Anything that can not be read, and why.
    Other(String),
}

/// What `glob` and `grep` found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hits<'a> {
    /// How many there are, shown or not.
    pub(super) total: u64,
    /// How many files `grep` looked into.
    pub(super) searched: Option<u64>,
    /// The lines that are shown, sorted by path.
    pub(super) lines: Vec<&'a str>,
    /// What could not be searched.
    pub(super) skipped: Vec<Entry>,
    pub(super) more_skipped: u64,
}

/// Reads what `ls` gave.
pub(super) fn listing(text: &str) -> Option<Listing<'_>> {
    let mut lines = text.split('\n');
    let (_, count) = lines
        .next()?
        .strip_prefix("entries of ")?
        .rsplit_once(": ")?;
    let count: usize = count.parse().ok()?;
    let mut listing = Listing {
        entries: Vec::new(),
        after: None,
        damaged: false,
    };
    for line in lines {
        match after(line) {
            Some(after) => listing.after = Some(after),
            None => listing.entries.extend(entry(line)),
        }
    }
    listing.damaged = listing.entries.len() != count;
    Some(listing)
}

fn after(line: &str) -> Option<&str> {
    let (more, rest) = line
        .strip_prefix('(')?
        .split_once(" more: list again with after \"")?;
    more.parse::<u64>().ok()?;
    rest.strip_suffix("\")")
}

/// Reads a name with its kind. In a path, ` -> /` is taken for a link's arrow.
pub(super) fn entry(line: &str) -> Option<Entry> {
    let link = line.split_once(" -> /").map(|(name, _)| name);
    let noted = line
        .strip_suffix(')')
        .and_then(|line| line.rsplit_once(" ("));
    let (name, kind) = match noted {
        Some((name, note)) => match (size(note), link) {
            (Some(_), Some(link)) => (link, Kind::FileLink),
            (Some(size), None) => (name, Kind::File { size }),
            (None, _) => (name.trim_end_matches('/'), Kind::Other(note.to_owned())),
        },
        None => match (line.strip_suffix('/')?, link) {
            (_, Some(link)) => (link, Kind::DirectoryLink),
            (name, None) => (name, Kind::Directory),
        },
    };
    Some(Entry {
        name: name.to_owned(),
        kind,
    })
}

fn size(note: &str) -> Option<u64> {
    note.strip_suffix(" bytes")?.parse().ok()
}

/// Reads what `glob` or `grep` gave.
pub(super) fn hits(text: &str) -> Option<Hits<'_>> {
    let (head, rest) = text.split_once('\n').unwrap_or((text, ""));
    let (_, counts) = head.split_once("s that match: ")?;
    let (total, searched) = match counts.split_once(", files searched: ") {
        Some((total, searched)) => (total, Some(searched.parse().ok()?)),
        None => (counts, None),
    };
    let mut lines = rest.split('\n');
    let found = lines.by_ref().take_while(|line| *line != "not searched:");
    let found = found.filter(|line| line.starts_with('/')).collect();
    let (mut skipped, mut more_skipped) = (Vec::new(), 0);
    for line in lines {
        match line
            .strip_prefix('(')
            .and_then(|line| line.strip_suffix(" more)"))
        {
            Some(more) => more_skipped = more.parse().ok()?,
            None => skipped.extend(entry(line)),
        }
    }
    Some(Hits {
        total: total.parse().ok()?,
        searched,
        lines: found,
        skipped,
        more_skipped,
    })
}

/// The ways to read a line of `grep` as path, number and text: more than one where a name or the
/// text has the look of a number between colons.
pub(super) fn matches(line: &str) -> impl Iterator<Item = (&str, u64, &str)> {
    line.match_indices(':').filter_map(|(at, _)| {
        let (path, rest) = line.split_at(at);
        let (number, text) = rest.strip_prefix(':')?.split_once(": ")?;
        let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        Some((path, number.parse().ok().filter(|_| digits)?, text))
    })
}

/// Reads what `read` gave: the lines of the page.
pub(super) fn page(text: &str) -> Vec<&str> {
    let rows = text.split('\n').skip(1);
    rows.filter_map(|row| {
        let (number, line) = row.split_once('\t')?;
        number.trim_start().parse::<u64>().ok().map(|_| line)
    })
    .collect()
}
