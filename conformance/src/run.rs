//! Runs one case under a time limit; nothing it does ends the run of the others.

use std::any::Any;
use std::error::Error;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::compare::{Difference, compare};
use crate::result::Outcome;
use crate::spec::Case;

/// Performs a case and adds one result per action, as far as it comes.
pub type Perform = fn(&Case, &mut Vec<Outcome>) -> Result<(), Box<dyn Error + Send + Sync>>;

/// Why a case did not pass.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Its results are others.
    #[error("{0}")]
    Differs(Difference),
    /// It could not be performed to the end; its results are the recorded ones up to there.
    #[error("{0}")]
    Broken(Box<dyn Error + Send + Sync>),
    /// It panicked.
    #[error("panicked: {0}")]
    Panicked(String),
    /// It took too long.
    #[error("took longer than {} s", .0.as_secs_f64())]
    TooSlow(Duration),
}

/// Performs a case and compares its results. A case that takes too long is left to itself.
pub fn run(case: Arc<Case>, perform: Perform, limit: Duration) -> Result<(), Failure> {
    let (sender, receiver) = mpsc::channel();
    let performed = thread::spawn({
        let case = Arc::clone(&case);
        // nobody listens any more if it took too long
        move || {
            let mut got = Vec::new();
            let ended = perform(&case, &mut got);
            drop(sender.send((got, ended)));
        }
    });
    match receiver.recv_timeout(limit) {
        Ok((got, ended)) => judge(&case, got, ended),
        Err(RecvTimeoutError::Timeout) => Err(Failure::TooSlow(limit)),
        Err(RecvTimeoutError::Disconnected) => Err(Failure::Panicked(match performed.join() {
            Ok(()) => "without a trace".to_owned(),
            Err(payload) => message(payload.as_ref()),
        })),
    }
}

fn judge(
    case: &Case,
    got: Vec<Outcome>,
    ended: Result<(), Box<dyn Error + Send + Sync>>,
) -> Result<(), Failure> {
    let expected = match ended {
        Ok(()) => &case.expected[..],
        Err(_) => case.expected.get(..got.len()).unwrap_or(&case.expected),
    };
    match compare(expected, got) {
        Ok(None) => ended.map_err(Failure::Broken),
        Ok(Some(difference)) => Err(Failure::Differs(difference)),
        Err(error) => Err(Failure::Broken(error.into())),
    }
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "with something that is not text".to_owned())
}
