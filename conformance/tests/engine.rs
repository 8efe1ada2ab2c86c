//! The engine on the whole corpus.

use std::sync::Arc;
use std::time::Duration;

use superstep_conformance::adapter;
use superstep_conformance::corpus::Differences;
use superstep_conformance::run::run;

use crate::CASES;

#[test]
fn the_engine_does_what_was_recorded() {
    let ours = Differences::ours().unwrap();
    let wrong: Vec<String> = CASES
        .iter()
        .filter_map(|case| {
            let mut case = case.clone();
            ours.apply(&mut case).unwrap();
            let name = case.name.clone();
            let performed = run(Arc::new(case), adapter::perform, Duration::from_secs(60));
            Some(format!("{name}: {}", performed.err()?))
        })
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(CASES.len(), 586);
}
