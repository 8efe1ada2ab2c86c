//! A signal that lives for one superstep.

use crate::Value;
use crate::channel::{Channel, Write, WriteError};
use crate::last_value::LastValue;

/// A last value, guarded or not, that is gone after the superstep that could read it.
#[derive(Clone, Debug)]
pub(crate) struct Ephemeral(pub(crate) LastValue);

impl Channel for Ephemeral {
    fn check(&self, writes: &[Write]) -> Result<(), WriteError> {
        self.0.check(writes)
    }

    fn write(&mut self, writes: Vec<Write>) -> Result<(), WriteError> {
        self.0.write(writes)
    }

    fn value(&self) -> Option<Value> {
        self.0.value()
    }

    fn expire(&mut self) -> bool {
        self.0.value.take().is_some()
    }

    fn restore(&mut self, stored: Option<Value>) {
        self.0.restore(stored);
    }

    fn duplicate(&self) -> Box<dyn Channel> {
        Box::new(self.clone())
    }
}
