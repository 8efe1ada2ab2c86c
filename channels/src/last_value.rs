//! A value with one writer a superstep.

use crate::channel::{Channel, Write, WriteError};
use crate::{Name, Type, Value};

/// Keeps the value until the next write. With the guard it refuses two writes in one superstep,
/// even equal ones, since nodes that race for a value are mostly a mistake; without, the last one wins.
#[derive(Clone, Debug)]
pub(crate) struct LastValue {
    pub(crate) name: Name,
    pub(crate) value_type: Type,
    pub(crate) guard: bool,
    pub(crate) value: Option<Value>,
}

impl Channel for LastValue {
    fn check(&self, writes: &[Write]) -> Result<(), WriteError> {
        let writers = writes.len();
        if self.guard && writers > 1 {
            return Err(WriteError::Conflict {
                channel: self.name.clone(),
                writers,
            });
        }
        match writes.last() {
            Some(last) => check_type(&self.name, self.value_type, last.value()),
            None => Ok(()),
        }
    }

    fn write(&mut self, mut writes: Vec<Write>) -> Result<(), WriteError> {
        self.check(&writes)?;
        if let Some(Write::Plain(value) | Write::Overwrite(value)) = writes.pop() {
            self.value = Some(value);
        }
        Ok(())
    }

    fn value(&self) -> Option<Value> {
        self.value.clone()
    }

    fn restore(&mut self, stored: Option<Value>) {
        self.value = stored;
    }

    fn duplicate(&self) -> Box<dyn Channel> {
        Box::new(self.clone())
    }
}

/// An error if the value has another type than the channel takes.
pub(crate) fn check_type(name: &Name, expected: Type, value: &Value) -> Result<(), WriteError> {
    let found = value.type_of();
    if found == expected {
        return Ok(());
    }
    Err(WriteError::WrongType {
        channel: name.clone(),
        expected: expected.name().to_owned(),
        found: found.name().to_owned(),
    })
}
