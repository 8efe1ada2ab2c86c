//! What was recorded is in normal form already.

use std::path::Path;

use serde_json::Value;
use superstep_conformance::corpus::cases;
use superstep_conformance::normal::normal;
use superstep_conformance::result::Outcome;
use superstep_conformance::spec::Case;

fn directory() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("engine")
}

/// The results as they stand in the file, with sorted keys.
fn recorded(name: &str) -> Vec<Value> {
    let folder = if name.starts_with('r') && name.len() == 6 {
        "random"
    } else {
        "cases"
    };
    let path = directory().join(folder).join(format!("{name}.json"));
    let mut case: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    case.sort_all_objects();
    serde_json::from_value(case["expected"].take()).unwrap()
}

#[test]
fn the_normal_form_of_what_was_recorded_is_itself() {
    for Case { name, expected, .. } in cases(&directory()).unwrap() {
        assert_eq!(normal(expected).unwrap(), recorded(&name), "{name}");
    }
}
