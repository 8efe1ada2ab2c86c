//! Parts of a tree.

use std::fmt;

/// Some of the files of a tree; prints as a pattern for people, `/src/**` or `/*`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    /// The files that lie directly in a directory.
    Direct(String),
    /// All files below a directory.
    Below(String),
}

impl Scope {
    /// Everything.
    pub(super) fn root() -> Self {
        Scope::Below("/".into())
    }

    /// The scope that prints as this text.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let directory = |path: &str| match path {
            "" => "/".to_owned(),
            path => path.to_owned(),
        };
        match text.strip_suffix("/**") {
            Some(path) => Some(Scope::Below(directory(path))),
            None => Some(Scope::Direct(directory(text.strip_suffix("/*")?))),
        }
    }

    pub(super) fn directory(&self) -> &str {
        match self {
            Scope::Direct(directory) | Scope::Below(directory) => directory,
        }
    }

    /// The path of a file of this scope, as it goes on below the directory.
    pub(super) fn rest<'a>(&self, path: &'a str) -> Option<&'a str> {
        let rest = path
            .strip_prefix(self.directory().trim_end_matches('/'))?
            .strip_prefix('/')?;
        (matches!(self, Scope::Below(_)) || !rest.contains('/')).then_some(rest)
    }

    /// The pattern that the tools take for it: what is special in a name stands for itself.
    pub(super) fn pattern(&self) -> String {
        let mut pattern = String::new();
        for c in self.directory().trim_end_matches('/').chars() {
            if "*?[]{}\\".contains(c) {
                pattern.push('\\');
            }
            pattern.push(c);
        }
        pattern + self.suffix()
    }

    fn suffix(&self) -> &'static str {
        match self {
            Scope::Direct(_) => "/*",
            Scope::Below(_) => "/**",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let directory = self.directory().trim_end_matches('/');
        write!(f, "{directory}{}", self.suffix())
    }
}

/// The path of an entry of a directory.
pub(super) fn join(directory: &str, name: &str) -> String {
    format!("{}/{name}", directory.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_scope_is_read_back(names in prop::collection::vec(r"[a*/\[]{1,3}", 0..3), below: bool) {
            let names: Vec<_> = names.iter().map(|name| name.replace('/', "b")).collect();
            let directory = format!("/{}", names.join("/"));
            let scope = match below {
                true => Scope::Below(directory),
                false => Scope::Direct(directory),
            };
            prop_assert_eq!(Scope::parse(&scope.to_string()), Some(scope));
        }
    }

    #[test]
    fn what_a_scope_holds() {
        let rows = [
            ("/**", "/a/b", Some("a/b")),
            ("/*", "/a/b", None),
            ("/*", "/b", Some("b")),
            ("/a/**", "/a/b/c", Some("b/c")),
            ("/a/**", "/ab/c", None),
            ("/a/*", "/a/b", Some("b")),
        ];
        for (scope, path, expected) in rows {
            assert_eq!(
                Scope::parse(scope).unwrap().rest(path),
                expected,
                "{scope} {path}"
            );
        }
        assert_eq!(Scope::Below("/[a]*".into()).pattern(), r"/\[a\]\*/**");
    }
}
