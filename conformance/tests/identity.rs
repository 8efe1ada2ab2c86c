//! What was recorded is in normal form already.

use serde_json::Value;
use superstep_conformance::normal::normal;
use superstep_conformance::spec::Case;

use crate::scramble::scrambled;
use crate::{CASES, directory};

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
    for Case { name, expected, .. } in &*CASES {
        assert_eq!(normal(expected.clone()).unwrap(), recorded(name), "{name}");
    }
}

#[test]
fn what_may_vary_does_not_show_in_the_normal_form() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut changed = 0;
    for Case { name, expected, .. } in &*CASES {
        let other = scrambled(expected, &mut random);
        changed += usize::from(other != *expected);
        assert_eq!(normal(other).unwrap(), recorded(name), "{name}");
    }
    assert!(changed > 500, "only {changed} cases were scrambled");
}
