//! One clear line for whatever went wrong.

use std::error::Error;
use std::path::Path;

use superstep::RunError;
use superstep::checkpoint::SaveError;

/// Something that ends the program with a line and a non-zero exit.
#[derive(Debug)]
pub struct Failed(String);

impl Failed {
    /// With this line.
    pub fn new(text: impl Into<String>) -> Self {
        Failed(text.into())
    }

    /// What failed, and the whole chain of causes, each said once.
    pub fn because(what: impl Into<String>, error: &dyn Error) -> Self {
        let mut text = what.into();
        let mut cause = Some(error);
        while let Some(error) = cause {
            let said = error.to_string();
            if !text.contains(&said) {
                text = format!("{text}: {said}");
            }
            cause = error.source();
        }
        Failed(text)
    }

    /// What failed with a file.
    pub fn file(doing: &str, path: &Path, error: &dyn Error) -> Self {
        Failed::because(format!("{doing} {}", path.display()), error)
    }
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Failed {}

impl From<SaveError> for Failed {
    fn from(error: SaveError) -> Self {
        Failed::because("the database", &error)
    }
}

impl From<RunError> for Failed {
    fn from(error: RunError) -> Self {
        Failed::because("the run stopped", &error)
    }
}
