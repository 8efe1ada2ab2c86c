//! One bad case ends neither the run nor the report.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use superstep_conformance::report::Report;
use superstep_conformance::run::{Perform, run};

use crate::case;

const AMPLE: Duration = Duration::from_secs(60);

/// Held while a test runs, so that whoever locks it waits for ever.
static CLOSED: Mutex<()> = Mutex::new(());

#[test]
fn each_way_to_fail_is_a_line_and_counts() {
    let _closed = CLOSED.lock().unwrap();
    let performers: [(Perform, Duration); 5] = [
        (|case| Ok(case.expected.clone()), AMPLE),
        (|case| Ok(case.expected[..1].to_vec()), AMPLE),
        (|_| Err("no such channel".into()), AMPLE),
        (|case| panic!("out of {}", case.topic), AMPLE),
        (
            |case| {
                drop(CLOSED.lock());
                Ok(case.expected.clone())
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
    assert_eq!(
        lines[2..].iter().flatten().collect::<Vec<_>>(),
        [
            "delta_messages_by_id: no such channel",
            "delta_messages_by_id: panicked: out of delta",
            "delta_messages_by_id: took longer than 0.02 s",
        ]
    );
    let summary =
        "delta: 1 passed, 4 failed\n5 results of `raw` actions skipped\n1 passed, 4 failed";
    assert_eq!(report.to_string(), summary);
    assert_eq!(report.failed(), 4);
}
