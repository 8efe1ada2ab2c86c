//! Errors: how bodies fail, and what the engine's errors are called in results.

use superstep::{AnswerError, NodeError, RunError, TaskError, TimeLimit, UpdateError};

use super::BoxError;
use crate::expr::EvalError;
use crate::ops;
use crate::result::Failure;

/// Why a body or a branch failed. It reads as the bare name that task states show.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Fault {
    /// An error of this name.
    #[error("{0}")]
    Named(String),
    /// It returned what is no update.
    #[error("InvalidUpdateError")]
    InvalidUpdate,
}

impl From<ops::Failure> for Fault {
    fn from(failure: ops::Failure) -> Self {
        match failure.kind().as_str() {
            "InvalidUpdateError" => Fault::InvalidUpdate,
            name => Fault::Named(name.to_owned()),
        }
    }
}

impl From<EvalError> for Fault {
    fn from(_: EvalError) -> Self {
        Fault::Named("TypeError".to_owned())
    }
}

/// The failure that a run's error stands for; an error of ours if it stands for none.
pub(super) fn failure(error: RunError) -> Result<Failure, BoxError> {
    Ok(match &error {
        RunError::Tasks(failures) => match failures.first() {
            Some(first) => of_task(&first.error)?,
            None => return Err(error.into()),
        },
        RunError::Write(_) => Failure::InvalidUpdate {},
        RunError::Limit { .. } => Failure::GraphRecursion {},
        RunError::NoParent { .. } => Failure::ParentCommand {},
        RunError::NothingToDo { .. } => Failure::EmptyInput {},
        RunError::NoCheckpointer { .. } => Failure::NoCheckpointer {},
        RunError::Update(UpdateError::Empty) => Failure::InvalidArgument {},
        RunError::Update(_) => Failure::InvalidUpdate {},
        RunError::Answer(AnswerError::Ambiguous { .. }) => Failure::AmbiguousResume {},
        RunError::Answer(AnswerError::NotOpen(_)) => unknown_interrupt("not_pending"),
        _ => return Err(error.into()),
    })
}

pub(super) fn unknown_interrupt(reason: &str) -> Failure {
    let reason = reason.to_owned();
    Failure::UnknownInterrupt { reason }
}

fn of_task(error: &TaskError) -> Result<Failure, BoxError> {
    match error {
        TaskError::Node(error) => of_node(error),
        TaskError::Write(_) => Ok(Failure::InvalidUpdate {}),
        TaskError::TimedOut { limit, .. } => Ok(Failure::NodeTimeout {
            name: match limit {
                TimeLimit::Run => "run".to_owned(),
                TimeLimit::Idle => "idle".to_owned(),
            },
        }),
        other => Err(other.to_string().into()),
    }
}

fn of_node(error: &NodeError) -> Result<Failure, BoxError> {
    let error = error.get_ref();
    if let Some(fault) = error.downcast_ref::<Fault>() {
        return Ok(match fault {
            Fault::Named(name) => Failure::Node { name: name.clone() },
            Fault::InvalidUpdate => Failure::InvalidUpdate {},
        });
    }
    match error.downcast_ref::<RunError>() {
        Some(RunError::Tasks(failures)) if let Some(first) = failures.first() => {
            of_task(&first.error)
        }
        Some(RunError::Write(_)) => Ok(Failure::InvalidUpdate {}),
        Some(RunError::Limit { .. }) => Ok(Failure::GraphRecursion {}),
        _ => Err(error.to_string().into()),
    }
}

/// The bare name in the text that is stored of a task's error: nested errors end with it.
pub(super) fn bare_name(text: &str) -> String {
    let last = text.rsplit(": ").next().unwrap_or(text);
    let refused = text.contains("writes in one superstep") || text.contains("was overwritten");
    let late = text.contains("it ran longer than") || text.contains("it gave no sign of life for");
    match (refused, late) {
        (true, _) => Fault::InvalidUpdate.to_string(),
        (_, true) => "NodeTimeoutError".to_owned(),
        _ => last.to_owned(),
    }
}
