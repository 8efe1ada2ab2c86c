//! The engine on the whole corpus.

use std::sync::Arc;
use std::time::Duration;

use superstep_conformance::adapter;
use superstep_conformance::corpus::Differences;
use superstep_conformance::run::{Failure, run};
use superstep_conformance::spec::Case;

use crate::CASES;

/// What the engine can do completely.
const WHOLE: [&str; 4] = ["channels", "routing", "send", "interrupt"];
/// How many cases it could perform to the end when this was last written; the rest need what it does not have yet.
const PERFORMED: usize = 204;

#[test]
fn the_engine_does_what_was_recorded() {
    let ours = Differences::ours().unwrap();
    let mut performed = 0;
    let mut wrong = Vec::new();
    for case in &*CASES {
        let mut case = case.clone();
        ours.apply(&mut case).unwrap();
        let Case { name, topic, .. } = case.clone();
        match run(Arc::new(case), adapter::perform, Duration::from_secs(60)) {
            Ok(()) => performed += 1,
            Err(Failure::Broken(lacking))
                if lacking.to_string().starts_with("not supported yet: ")
                    && !WHOLE.contains(&topic.as_str()) => {}
            Err(failure) => wrong.push(format!("{name}: {failure}")),
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(
        performed >= PERFORMED,
        "only {performed} cases were performed"
    );
}
