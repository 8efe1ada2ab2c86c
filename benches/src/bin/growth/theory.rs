//! What a policy should store.

use superstep_benches::Error;

use crate::policy::Policy;
use crate::workload::StateKind;

/// Bytes by kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sizes {
    pub(crate) headers: u64,
    pub(crate) values: u64,
    pub(crate) logs: u64,
    pub(crate) tasks: u64,
}

impl Sizes {
    pub(crate) fn total(&self) -> u64 {
        self.headers + self.values + self.logs + self.tasks
    }
}

pub(crate) struct Thread {}
impl Thread {
    pub(crate) fn new(_: StateKind, _: Policy, _: usize) -> Result<Self, Error> {
        Ok(Thread {})
    }
    pub(crate) fn turn(&mut self, _: u64) -> Result<Sizes, Error> {
        Ok(Sizes::default())
    }
}
