//! What all bodies of one case share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use superstep::checkpoint::MemoryCache;

use super::Lacking;
use crate::expr::Counters;
use crate::spec::Spec;

/// Shared by all runs of a case. Cheap to clone.
#[derive(Clone)]
pub(super) struct World {
    /// The counters of the case's own.
    pub(super) counters: Counters,
    /// The graphs that bodies may call.
    pub(super) library: Arc<BTreeMap<String, Spec>>,
    /// Where results of nodes are kept.
    pub(super) cache: MemoryCache,
    notes: Arc<Mutex<Notes>>,
}

#[derive(Default)]
struct Notes {
    /// Since this was last asked.
    ran: BTreeMap<String, u64>,
    /// In all.
    runs: BTreeMap<String, u64>,
    messages: u64,
    lacking: Option<Lacking>,
}

impl World {
    pub(super) fn new(library: &BTreeMap<String, Spec>) -> Self {
        World {
            counters: Counters::default(),
            library: Arc::new(library.clone()),
            cache: MemoryCache::new(1 << 20),
            notes: Arc::default(),
        }
    }

    /// Notes that a body started; gives how often it has by now.
    pub(super) fn started(&self, label: &str) -> u64 {
        let mut notes = self.notes();
        *notes.ran.entry(label.to_owned()).or_default() += 1;
        let all = notes.runs.entry(label.to_owned()).or_default();
        *all += 1;
        *all
    }

    /// How often each body started since this was last asked.
    pub(super) fn take_ran(&self) -> BTreeMap<String, u64> {
        std::mem::take(&mut self.notes().ran)
    }

    /// A number that no message has yet.
    pub(super) fn next_message(&self) -> u64 {
        let mut notes = self.notes();
        notes.messages += 1;
        notes.messages
    }

    /// Notes that a body needs what the engine does not have.
    pub(super) fn lacks(&self, what: &'static str) {
        self.notes().lacking = Some(Lacking(what));
    }

    /// What a body needed in vain.
    pub(super) fn lacking(&self) -> Option<Lacking> {
        self.notes().lacking
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        // Held over single assignments only.
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
