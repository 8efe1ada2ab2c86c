//! What each crate must not know. Its first page says so; this keeps it true.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use proc_macro2::{TokenStream, TokenTree};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// All crates that a crate is built from, itself included.
fn built_from(name: &str) -> BTreeSet<String> {
    let tree = Command::new(env!("CARGO"))
        .current_dir(root())
        .args([
            "tree",
            "--offline",
            "--edges",
            "normal,build",
            "--prefix",
            "none",
            "--format",
            "{p}",
        ])
        .args(["--package", name])
        .output()
        .unwrap();
    assert!(
        tree.status.success(),
        "{}",
        String::from_utf8_lossy(&tree.stderr)
    );
    let lines = String::from_utf8(tree.stdout).unwrap();
    let names: BTreeSet<String> = lines
        .lines()
        .filter_map(|line| Some(line.split(' ').next()?.to_owned()))
        .collect();
    assert!(names.contains(name), "{lines}");
    names
}

#[track_caller]
fn is_not_built_from(name: &str, others: &[&str]) {
    let all = built_from(name);
    let found: Vec<_> = others
        .iter()
        .filter(|other| all.contains(**other))
        .collect();
    assert!(found.is_empty(), "`{name}` must not depend on {found:?}");
}

/// The names in the sources of a crate: no comments, no texts.
fn identifiers(folder: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in sources(&root().join(folder)) {
        let text = fs::read_to_string(&file).unwrap();
        let tokens: TokenStream = text
            .parse()
            .unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        collect(tokens, &mut names);
    }
    assert!(!names.is_empty(), "{folder} has no sources");
    names
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let files = entries.flat_map(|path| match path.is_dir() {
        true => sources(&path),
        false => vec![path],
    });
    files
        .filter(|path| path.extension().is_some_and(|end| end == "rs"))
        .collect()
}

fn collect(tokens: TokenStream, names: &mut BTreeSet<String>) {
    for token in tokens {
        match token {
            TokenTree::Ident(name) => drop(names.insert(name.to_string())),
            TokenTree::Group(group) => collect(group.stream(), names),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// The words that names are made of: `max_tokens` and `MaxTokens` both have `tokens`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for character in name.chars() {
        if character == '_' || character.is_uppercase() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut()
            && character != '_'
        {
            word.extend(character.to_lowercase());
        }
    }
    words
}

#[test]
fn channels_know_no_storage_no_graph_and_no_async() {
    let others = [
        "tokio",
        "futures",
        "async-trait",
        "superstep-checkpoint",
        "superstep",
    ];
    is_not_built_from("superstep-channels", &others);
    let names = identifiers("channels/src");
    assert!(!names.contains("async") && !names.contains("await"));
}

#[test]
fn checkpoint_knows_no_engine() {
    is_not_built_from(
        "superstep-checkpoint",
        &["superstep", "superstep-agent", "petgraph"],
    );
}

#[test]
fn the_engine_knows_no_database_no_network_and_no_agent() {
    let others = [
        "rusqlite",
        "libsqlite3-sys",
        "tokio-postgres",
        "reqwest",
        "hyper",
        "superstep-agent",
    ];
    is_not_built_from("superstep", &others);
}

#[test]
fn the_engine_knows_no_language_model() {
    let foreign = [
        "agent",
        "chat",
        "completion",
        "http",
        "llm",
        "messages",
        "model",
        "models",
        "prompt",
        "prompts",
        "sql",
        "token",
        "tokens",
        "tool",
        "tools",
    ];
    let is_foreign = |name: &String| words(name).iter().any(|word| foreign.contains(&&**word));
    let found: Vec<String> = identifiers("engine/src")
        .into_iter()
        .filter(is_foreign)
        .collect();
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn the_engine_has_no_global_state() {
    let names = identifiers("engine/src");
    for global in [
        "LazyLock",
        "OnceLock",
        "OnceCell",
        "thread_local",
        "lazy_static",
    ] {
        assert!(!names.contains(global), "{global}");
    }
}

/// What the engine exports for its derive macro only.
fn hidden() -> Vec<String> {
    let page = fs::read_to_string(root().join("engine/src/lib.rs")).unwrap();
    let lines: Vec<&str> = page.lines().collect();
    let hidden = lines
        .windows(2)
        .filter(|pair| pair[0].trim() == "#[doc(hidden)]");
    let last = |line: &str| {
        line.trim_end_matches(';')
            .rsplit("::")
            .next()
            .unwrap()
            .to_owned()
    };
    hidden.map(|pair| last(pair[1])).collect()
}

#[test]
fn the_agent_uses_what_the_engine_documents() {
    let hidden = hidden();
    assert_eq!(hidden, ["payload_as"]);
    let names = identifiers("agent/src");
    let used: Vec<_> = hidden.iter().filter(|name| names.contains(*name)).collect();
    assert!(used.is_empty(), "{used:?}");
}

#[test]
fn words_are_found_in_both_spellings() {
    assert_eq!(words("max_tokens"), ["max", "tokens"]);
    assert_eq!(words("MaxTokens"), ["", "max", "tokens"]);
}
