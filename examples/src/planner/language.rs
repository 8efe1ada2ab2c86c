//! Languages by the names of files.

const BY_EXTENSION: [(&str, &str); 62] = [
    ("adoc", "AsciiDoc"),
    ("bash", "Shell"),
    ("c", "C"),
    ("cc", "C++"),
    ("clj", "Clojure"),
    ("cpp", "C++"),
    ("cs", "C#"),
    ("css", "CSS"),
    ("csv", "CSV"),
    ("cts", "TypeScript"),
    ("cxx", "C++"),
    ("dart", "Dart"),
    ("el", "Emacs Lisp"),
    ("ex", "Elixir"),
    ("exs", "Elixir"),
    ("erl", "Erlang"),
    ("fs", "F#"),
    ("go", "Go"),
    ("h", "C"),
    ("hpp", "C++"),
    ("hs", "Haskell"),
    ("htm", "HTML"),
    ("html", "HTML"),
    ("java", "Java"),
    ("jl", "Julia"),
    ("js", "JavaScript"),
    ("json", "JSON"),
    ("jsonl", "JSON"),
    ("jsx", "JavaScript"),
    ("kt", "Kotlin"),
    ("kts", "Kotlin"),
    ("lua", "Lua"),
    ("m", "Objective-C"),
    ("md", "Markdown"),
    ("mdx", "Markdown"),
    ("mjs", "JavaScript"),
    ("ml", "OCaml"),
    ("mli", "OCaml"),
    ("mts", "TypeScript"),
    ("nix", "Nix"),
    ("php", "PHP"),
    ("pl", "Perl"),
    ("proto", "Protobuf"),
    ("ps1", "PowerShell"),
    ("py", "Python"),
    ("pyi", "Python"),
    ("r", "R"),
    ("rb", "Ruby"),
    ("rs", "Rust"),
    ("rst", "reStructuredText"),
    ("scala", "Scala"),
    ("scss", "SCSS"),
    ("sh", "Shell"),
    ("sql", "SQL"),
    ("swift", "Swift"),
    ("toml", "TOML"),
    ("ts", "TypeScript"),
    ("tsx", "TypeScript"),
    ("txt", "Text"),
    ("xml", "XML"),
    ("yaml", "YAML"),
    ("yml", "YAML"),
];

/// The language of a file that is known, or else its ending.
pub(super) fn of(path: &str) -> String {
    match (known(path), ending(path)) {
        (Some(language), _) => language.to_owned(),
        (None, Some(ending)) => format!(".{ending}"),
        (None, None) => "no ending".to_owned(),
    }
}

/// The language of a file, when it is a known one.
pub(super) fn known(path: &str) -> Option<&'static str> {
    let ending = ending(path)?.to_ascii_lowercase();
    let (_, language) = BY_EXTENSION.iter().find(|(known, _)| *known == ending)?;
    Some(language)
}

fn ending(path: &str) -> Option<&str> {
    let (_, name) = path.rsplit_once('/')?;
    let (stem, ending) = name.rsplit_once('.')?;
    (!stem.is_empty() && !ending.is_empty()).then_some(ending)
}
