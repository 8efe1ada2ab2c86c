//! Glob patterns over paths.

use globset::{GlobBuilder, GlobMatcher};

use super::path::shown;
use super::{FileError, VirtualPath};

/// A longer pattern is a mistake, and costs memory to compile.
const MAX_PATTERN: usize = 4096;
/// Braces are compiled by a recursive function.
const MAX_BRACES: usize = 64;

/// A compiled glob pattern, and which part of a path it is held against.
#[derive(Debug)]
pub(super) struct Pattern {
    glob: GlobMatcher,
    against: Against,
}

#[derive(Debug)]
enum Against {
    /// `*.rs`: the name, at any depth.
    Name,
    /// `src/*.rs`: the path below the directory searched.
    Below,
    /// `/src/*.rs`: the path from the root.
    Whole,
}

impl Pattern {
    pub(super) fn new(pattern: &str) -> Result<Self, FileError> {
        if let Some(problem) = problem(pattern) {
            return Err(invalid(pattern, problem));
        }
        let (against, text) = match pattern.strip_prefix('/') {
            Some(rest) => (Against::Whole, rest),
            None if pattern.contains('/') => (Against::Below, pattern.trim_start_matches("./")),
            None => (Against::Name, pattern),
        };
        let mut builder = GlobBuilder::new(text);
        builder
            .literal_separator(true)
            .backslash_escape(true)
            .empty_alternates(true);
        match builder.build() {
            Ok(glob) => Ok(Self {
                glob: glob.compile_matcher(),
                against,
            }),
            Err(error) => Err(invalid(pattern, error.kind())),
        }
    }

    /// Does `path`, found in a search of `base`, match?
    pub(super) fn matches(&self, base: &VirtualPath, path: &VirtualPath) -> bool {
        let name = path.name().unwrap_or_default();
        let part = match self.against {
            Against::Name => name,
            // A file that is searched by itself has only its name below the search.
            Against::Below => path
                .below(base)
                .filter(|part| !part.is_empty())
                .unwrap_or(name),
            Against::Whole => path.as_str().trim_start_matches('/'),
        };
        self.glob.is_match(part)
    }
}

/// The error for a pattern, glob or not.
pub(super) fn invalid(pattern: &str, problem: impl ToString) -> FileError {
    FileError::InvalidPattern {
        pattern: shown(pattern),
        problem: problem.to_string(),
    }
}

/// What makes any pattern useless, glob or not.
pub(super) fn common_problem(pattern: &str) -> Option<&'static str> {
    if pattern.is_empty() {
        Some("it is empty")
    } else if pattern.len() > MAX_PATTERN {
        Some("it is longer than 4096 bytes")
    } else if pattern.contains(['\0', '\n', '\r']) {
        Some("it holds a NUL or a line break, and is matched within one line")
    } else {
        None
    }
}

fn problem(pattern: &str) -> Option<&'static str> {
    if let Some(problem) = common_problem(pattern) {
        Some(problem)
    } else if pattern.split('/').any(|name| name == "..") {
        Some("it holds `..`: give the directory to search as path instead")
    } else if pattern.ends_with('/') {
        Some("it ends with `/`, but only files are found: add `**`")
    } else if pattern.matches('{').count() > MAX_BRACES {
        Some("it holds more than 64 braces")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_slashes_says_what_is_matched() {
        let rows = [
            ("*.rs", "/", "/src/deep/a.rs", true),
            ("src/*.rs", "/", "/src/a.rs", true),
            ("src/*.rs", "/", "/src/deep/a.rs", false),
            ("src/**/*.rs", "/", "/src/a.rs", true),
            ("src/**/*.rs", "/", "/src/deep/er/a.rs", true),
            ("./src/*.rs", "/", "/src/a.rs", true),
            ("deep/*.rs", "/src", "/src/deep/a.rs", true),
            ("src/*.rs", "/src", "/src/a.rs", false),
            ("/src/*.rs", "/src", "/src/a.rs", true),
            ("/*.rs", "/", "/src/a.rs", false),
            ("*.{rs,toml}", "/", "/Cargo.toml", true),
            ("a{,b}.rs", "/", "/a.rs", true),
            ("[ab]?.rs", "/", "/bx.rs", true),
            ("*.RS", "/", "/a.rs", false),
            ("**/*.yml", "/", "/.github/w.yml", true),
            ("**", "/", "/x/y", true),
            ("x/*.rs", "/src/a.rs", "/src/a.rs", false),
            ("*.rs", "/src/a.rs", "/src/a.rs", true),
            ("grün/ü*.md", "/", "/grün/üß.md", true),
            ("{ü,ß}.md", "/", "/ß.md", true),
            // Names are matched as bytes, and these are two.
            ("?.md", "/", "/ß.md", false),
            (r"\[...slug\]", "/", "/app/[...slug]", true),
        ];
        for (pattern, base, path, expected) in rows {
            let compiled = Pattern::new(pattern).unwrap();
            let (base, path) = (
                VirtualPath::parse(base).unwrap(),
                VirtualPath::parse(path).unwrap(),
            );
            assert_eq!(
                compiled.matches(&base, &path),
                expected,
                "{pattern} in {base} against {path}"
            );
        }
    }

    #[test]
    fn a_pattern_that_can_not_work_says_why() {
        let rows = [
            ("", "`` is not a valid pattern: it is empty"),
            (
                "../*.rs",
                "`../*.rs` is not a valid pattern: it holds `..`: give the directory to search as path instead",
            ),
            (
                "src/",
                "`src/` is not a valid pattern: it ends with `/`, but only files are found: add `**`",
            ),
            (
                "[a",
                "`[a` is not a valid pattern: unclosed character class; missing ']'",
            ),
            (
                "a\n",
                "`a\\n` is not a valid pattern: it holds a NUL or a line break, and is matched within one line",
            ),
        ];
        for (pattern, expected) in rows {
            assert_eq!(Pattern::new(pattern).unwrap_err().to_string(), expected);
        }
        let deep = "{".repeat(2000) + &"}".repeat(2000);
        assert!(matches!(
            Pattern::new(&deep),
            Err(FileError::InvalidPattern { .. })
        ));
        assert!(matches!(
            Pattern::new(&"a".repeat(5000)),
            Err(FileError::InvalidPattern { .. })
        ));
    }
}
