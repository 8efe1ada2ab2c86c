//! One bad case ends neither the run nor the report.

use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use superstep_conformance::report::Report;
use superstep_conformance::result::Outcome;
use superstep_conformance::run::{Perform, run};

use crate::case;

const AMPLE: Duration = Duration::from_secs(60);

/// Held while a test runs, so that whoever locks it waits for ever.
static CLOSED: Mutex<()> = Mutex::new(());

fn give(results: &[Outcome], got: &mut Vec<Outcome>) -> Result<(), Box<dyn Error + Send + Sync>> {
    got.extend_from_slice(results);
    Ok(())
}

#[test]
fn each_way_to_fail_is_a_line_and_counts() {
    let _closed = CLOSED.lock().unwrap();
    let performers: [(Perform, Duration); 7] = [
        (|case, got| give(&case.expected, got), AMPLE),
        (|case, got| give(&case.expected[..1], got), AMPLE),
        (|_, _| Err("no such channel".into()), AMPLE),
        (
            |case, got| {
                give(&case.expected[..2], got)?;
                Err("no more".into())
            },
            AMPLE,
        ),
        (
            |case, got| {
                give(&case.expected[1..2], got)?;
                Err("no more".into())
            },
            AMPLE,
        ),
        (|case, _| panic!("out of {}", case.topic), AMPLE),
        (
            |case, got| {
                drop(CLOSED.lock());
                give(&case.expected, got)
            },
            Duration::from_millis(20),
        ),
    ];
    let mut report = Report::default();
    let case = Arc::new(case("delta_messages_by_id"));
    let lines: Vec<Option<String>> = performers
        .into_iter()
        .map(|(perform, limit)| report.add(&case, run(Arc::clone(&case), perform, limit)))
        .collect();

    assert_eq!(lines[0], None);
    let differs = "delta_messages_by_id: action 1 (state) at ``: expected {\"do\":\"state\",";
    assert!(
        lines[1].as_ref().unwrap().starts_with(differs),
        "{:?}",
        lines[1]
    );
    let first =
        "delta_messages_by_id: action 0 (invoke) at `.do`: expected \"invoke\", got \"state\"";
    assert_eq!(
        lines[2..].iter().flatten().collect::<Vec<_>>(),
        [
            "delta_messages_by_id: no such channel",
            "delta_messages_by_id: no more",
            first,
            "delta_messages_by_id: panicked: out of delta",
            "delta_messages_by_id: took longer than 0.02 s",
        ]
    );
    let summary =
        "delta: 1 passed, 6 failed\n7 results of `raw` actions skipped\n1 passed, 6 failed";
    assert_eq!(report.to_string(), summary);
    assert_eq!(report.failed(), 6);
}
