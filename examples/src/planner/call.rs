//! The tool calls that the planner makes.

use serde_json::{Value, json};

use super::scope::Scope;

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) name: &'static str,
    pub(super) args: Value,
}

fn call(name: &'static str, args: Value) -> Call {
    Call { name, args }
}

/// Lists a directory, from the entry behind `after` on.
pub(super) fn ls(path: &str, after: Option<&str>) -> Call {
    match after {
        None => call("ls", json!({ "path": path })),
        Some(after) => call("ls", json!({ "path": path, "after": after })),
    }
}

/// Finds the files of `scope`. Ignore files are obeyed from `base` down only: whoever starts
/// below the root must know that `base` is not excluded itself.
pub(super) fn glob(base: &str, scope: &Scope) -> Call {
    call("glob", json!({ "pattern": scope.pattern(), "path": base }))
}

/// Finds up to `limit` lines in the files of `scope`.
pub(super) fn grep(base: &str, scope: &Scope, regex: &str, limit: usize) -> Call {
    let glob = scope.pattern();
    call(
        "grep",
        json!({ "pattern": regex, "regex": true, "path": base, "glob": glob, "limit": limit }),
    )
}

/// Reads the first lines of a file.
pub(super) fn read(path: &str) -> Call {
    call(
        "read_file",
        json!({ "path": path, "offset": 0, "limit": 80 }),
    )
}

/// Hands work to a subagent.
pub(super) fn task(description: &str) -> Call {
    call(
        "task",
        json!({ "description": description, "subagent_type": "surveyor" }),
    )
}

/// Delivers the report.
pub(super) fn write_report(content: &str) -> Call {
    call("write_report", json!({ "content": content }))
}
