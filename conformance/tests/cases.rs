//! Reading cases, strictly.

use std::path::Path;

use serde_json::{Value, json};
use superstep_conformance::corpus::{Differences, cases, parse};

#[test]
fn all_cases_are_read() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("engine");
    assert_eq!(cases(&directory).unwrap().len(), 586);
}

#[test]
fn every_listed_difference_names_a_case() {
    let cases = cases(&Path::new(env!("CARGO_MANIFEST_DIR")).join("engine")).unwrap();
    let differences = Differences::ours().unwrap();
    let known = |name: &&str| cases.iter().any(|case| case.name == *name);
    assert_eq!(
        differences
            .names()
            .filter(|name| !known(name))
            .collect::<Vec<_>>(),
        [""; 0]
    );
    for mut case in cases {
        differences.apply(&mut case).unwrap();
    }
}
