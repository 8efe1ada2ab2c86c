//! Lines on the two outputs.

use std::fmt::Display;
use std::io::{ErrorKind, Write, stderr, stdout};

use superstep_examples::failed::Failed;

/// A line of results. A reader that went away is no reason to stop the work.
pub(crate) fn result(label: &str, text: impl Display) -> Result<(), Failed> {
    let label = format!("{label}:");
    match stdout().write_all(line(format!("{label:<10}{text}")).as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failed::because("cannot write the results", &error))
        }
        _ => Ok(()),
    }
}

/// A line about the run, in one piece, so that a kill leaves no half of it.
pub(crate) fn notice(text: impl Display) {
    // Nobody may be listening any more.
    let _ = stderr().write_all(line(text.to_string()).as_bytes());
}

/// One line, whatever it says: file names may hold line breaks, and so may the words of a server.
fn line(text: String) -> String {
    let one = text.replace(char::is_control, " ");
    one + "\n"
}
