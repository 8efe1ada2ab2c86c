//! The file operations as tools.

use std::fmt::Display;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::{Disk, FileError, GlobArgs, GrepArgs, LsArgs, ReadArgs, glob, grep, ls, read};
use crate::tool::{Tool, ToolError, ToolResult};

/// The tools that read: `ls`, `glob`, `grep` and `read_file`.
///
/// They see the directory as the root `/` and nothing outside it. They run on Tokio's blocking threads.
///
/// ```
/// use std::sync::Arc;
/// use superstep_agent::files::{Disk, read_tools};
///
/// let root = tempfile::tempdir()?;
/// let tools = read_tools(Arc::new(Disk::open(root.path())?));
/// let names: Vec<&str> = tools.iter().map(|tool| tool.spec().name.as_str()).collect();
/// assert_eq!(names, ["ls", "glob", "grep", "read_file"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read_tools(disk: Arc<Disk>) -> Vec<Tool> {
    vec![
        tool(
            &disk,
            "ls",
            "Lists a directory: its entries with their kinds and sizes.",
            |disk, args: LsArgs| ls(disk, &args),
        ),
        tool(
            &disk,
            "glob",
            "Finds files by a pattern of their paths.",
            |disk, args: GlobArgs| glob(disk, &args),
        ),
        tool(
            &disk,
            "grep",
            "Finds lines in files by their text.",
            |disk, args: GrepArgs| grep(disk, &args),
        ),
        tool(
            &disk,
            "read_file",
            "Reads a file page by page.",
            |disk, args: ReadArgs| read(disk, &args),
        ),
    ]
}

fn tool<A, O>(
    disk: &Arc<Disk>,
    name: &str,
    description: &str,
    operation: fn(&Disk, A) -> Result<O, FileError>,
) -> Tool
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    O: Display + 'static,
{
    let disk = Arc::clone(disk);
    Tool::new(name, description, move |args: A, _| {
        let disk = Arc::clone(&disk);
        run(move || operation(&disk, args).map(|result| result.to_string()))
    })
}

/// Files can be slow: they must not hold up the other tasks of the superstep.
async fn run(operation: impl FnOnce() -> Result<String, FileError> + Send + 'static) -> ToolResult {
    let result = tokio::task::spawn_blocking(operation)
        .await
        .map_err(ToolError::fatal)?;
    Ok(result?.into())
}
