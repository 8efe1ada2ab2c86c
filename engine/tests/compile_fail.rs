//! Programs that do not compile, and what the compiler tells their authors.

use std::process::Command;

/// The compiler whose words the `.stderr` files hold; another one may say it differently.
const COMPILER: &str = "rustc 1.95.";

#[test]
fn mistakes_are_told_where_they_are_made() {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    if version.starts_with(COMPILER) {
        trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
    } else {
        eprintln!(
            "not compared: the expected messages are those of {COMPILER}x, this is {version}"
        );
    }
}
