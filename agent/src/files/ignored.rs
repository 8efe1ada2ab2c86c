//! What `.gitignore` files say.

use std::io::{self, Read};
use std::path::Path;

use cap_std::fs::Dir;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::VirtualPath;
use super::disk::open_regular;

const NAME: &str = ".gitignore";
/// To compile this much takes a noticeable part of a second; real lists are far smaller.
const MAX_BYTES: u64 = 64 * 1024;

/// The rules of the `.gitignore` in `dir`, if there is one; `path` is where `dir` is.
/// Like git, passes over a line that is no rule, and over a `.gitignore` that is a link.
pub(super) fn rules_in(dir: &Dir, path: &VirtualPath) -> io::Result<Option<Gitignore>> {
    let meta = match dir.symlink_metadata(NAME) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    if !meta.is_file() {
        return Ok(None);
    }
    let mut text = Vec::new();
    open_regular(dir, Path::new(NAME))?
        .take(MAX_BYTES + 1)
        .read_to_end(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    compile(&text, path).map(Some)
}

fn compile(text: &[u8], path: &VirtualPath) -> io::Result<Gitignore> {
    let text = String::from_utf8_lossy(text);
    let mut builder = GitignoreBuilder::new(path.as_str());
    for line in text.trim_start_matches('\u{FEFF}').lines() {
        // An error here is a line that is no rule.
        let _ = builder.add_line(None, line);
    }
    builder.build().map_err(io::Error::other)
}

/// Is `path` ignored? The rules nearest to it decide; `rules` go from the root down.
pub(super) fn is_ignored<'a>(
    rules: impl DoubleEndedIterator<Item = &'a Gitignore>,
    path: &VirtualPath,
    is_dir: bool,
) -> bool {
    for rules in rules.rev() {
        match rules.matched(path.as_str(), is_dir) {
            Match::Ignore(_) => return true,
            Match::Whitelist(_) => return false,
            Match::None => {}
        }
    }
    false
}
