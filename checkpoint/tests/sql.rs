//! What goes into a statement goes in as a parameter.

use std::fs;
use std::path::Path;

/// The sources under a folder.
fn sources(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(sources(&path)),
            false => found.push((
                path.display().to_string(),
                fs::read_to_string(&path).unwrap(),
            )),
        }
    }
    found
}

/// Statements that are put together from parts, line by line.
fn put_together(source: &str) -> Vec<&str> {
    const VERBS: [&str; 8] = [
        "SELECT ", "INSERT ", "UPDATE ", "DELETE ", "REPLACE ", "CREATE ", "DROP ", "PRAGMA ",
    ];
    let builds = ["format!(", "push_str(", "concat!(", " + &"];
    let lines = source.lines().map(str::trim);
    let lines = lines.filter(|line| !line.starts_with("//"));
    lines
        .filter(|line| VERBS.iter().any(|verb| line.contains(verb)))
        .filter(|line| builds.iter().any(|build| line.contains(build)))
        .collect()
}

#[test]
fn no_statement_is_put_together_from_parts() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for folder in ["sqlite", "postgres"] {
        let sources = sources(&root.join(folder));
        assert!(!sources.is_empty());
        for (path, source) in sources {
            let code = source.split("#[cfg(test)]").next().unwrap_or_default();
            assert_eq!(put_together(code), Vec::<&str>::new(), "{path}");
            // What is handed to the database is written down there, or a name for it.
            for call in [
                "prepare_cached(",
                "query_typed(",
                "execute_typed(",
                "batch_execute(",
                "execute_batch(",
            ] {
                for argument in code.split(call).skip(1) {
                    let argument = argument.trim_start();
                    let written = argument.starts_with('"');
                    let named = ["table", "change", "ITEMS", "TABLES", "statement"];
                    let named = named.iter().any(|name| argument.starts_with(name));
                    assert!(
                        written || named,
                        "{path}: {call}{}",
                        &argument[..argument.len().min(40)]
                    );
                }
            }
        }
    }
}

#[test]
fn the_check_finds_what_it_looks_for() {
    assert_eq!(put_together(r#"let q = format!("SELECT {x}");"#).len(), 1);
    assert_eq!(put_together(r#"query.push_str("DELETE FROM t");"#).len(), 1);
    assert_eq!(
        put_together(r#"db.execute("DELETE FROM t WHERE id = ?1", [id])"#).len(),
        0
    );
}
