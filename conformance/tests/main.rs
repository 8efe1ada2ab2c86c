//! The runner, on the whole corpus where that makes sense.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use superstep_conformance::corpus;
use superstep_conformance::spec::Case;

mod cases;
mod command;
mod compare;
mod engine;
mod identity;
mod run;
mod scramble;

static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| corpus::cases(&directory()).unwrap());

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("engine")
}

fn case(name: &str) -> Case {
    let found = CASES.iter().find(|case| case.name == name);
    found.unwrap().clone()
}
