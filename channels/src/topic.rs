//! A mailbox that empties itself.

use crate::Value;
use crate::channel::{Channel, Write, WriteError};
use crate::reduce::Reduce;

/// Collects the writes of one superstep for the next one; each superstep starts from nothing.
#[derive(Clone, Debug)]
pub(crate) struct Topic(pub(crate) Reduce);

impl Channel for Topic {
    fn check(&self, writes: &[Write]) -> Result<(), WriteError> {
        self.0.check(writes)
    }

    fn write(&mut self, writes: Vec<Write>) -> Result<(), WriteError> {
        let before = self.0.value.take();
        self.0.write(writes).inspect_err(|_| self.0.value = before)
    }

    fn value(&self) -> Option<Value> {
        self.0.value.clone()
    }

    fn expire(&mut self) -> bool {
        self.0.value.take().is_some()
    }

    fn restore(&mut self, stored: Option<Value>) {
        self.0.value = stored;
    }

    fn duplicate(&self) -> Box<dyn Channel> {
        Box::new(self.clone())
    }
}
