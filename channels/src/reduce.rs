//! A value that grows or sums up.

use std::sync::Arc;

use crate::channel::{Channel, Write, WriteError};
use crate::fold::ErasedFold;
use crate::last_value::check_type;
use crate::{Name, Type, Value};

/// Folds every write into the value, one by one in canonical order.
/// The same cell serves reduce and delta channels: they differ only in what is stored.
#[derive(Clone, Debug)]
pub(crate) struct Reduce {
    pub(crate) name: Name,
    pub(crate) value_type: Type,
    pub(crate) fold: Arc<dyn ErasedFold>,
    pub(crate) value: Option<Value>,
}

impl Channel for Reduce {
    fn check(&self, writes: &[Write]) -> Result<(), WriteError> {
        if self.overwrite(writes)?.is_some() {
            return Ok(());
        }
        let expected = self.fold.update_type();
        let mut values = writes.iter().map(Write::value);
        values.try_for_each(|value| check_type(&self.name, expected, value))
    }

    fn write(&mut self, writes: Vec<Write>) -> Result<(), WriteError> {
        // What can be refused is refused first, and the fold's failures undone, so that an error leaves the cell alone.
        self.check(&writes)?;
        if let Some(value) = self.overwrite(&writes)? {
            self.value = Some(value);
            return Ok(());
        }
        let undo = self.fold.can_fail().then(|| self.value.clone());
        for write in writes {
            let (Write::Plain(update) | Write::Overwrite(update)) = write;
            if let Err(source) = self.fold.fold(&mut self.value, update) {
                if let Some(before) = undo {
                    self.value = before;
                }
                return Err(WriteError::Fold {
                    channel: self.name.clone(),
                    source,
                });
            }
        }
        Ok(())
    }

    fn value(&self) -> Option<Value> {
        self.value.clone().or_else(|| self.fold.zero())
    }

    fn restore(&mut self, stored: Option<Value>) {
        self.value = stored;
    }

    fn duplicate(&self) -> Box<dyn Channel> {
        Box::new(self.clone())
    }
}

impl Reduce {
    /// The overwrite among the writes, if there is one; two are an error.
    fn overwrite(&self, writes: &[Write]) -> Result<Option<Value>, WriteError> {
        let mut overwrites = writes.iter().filter_map(|write| match write {
            Write::Overwrite(value) => Some(value),
            Write::Plain(_) => None,
        });
        let Some(first) = overwrites.next() else {
            return Ok(None);
        };
        match overwrites.count() {
            0 => {
                check_type(&self.name, self.value_type, first)?;
                Ok(Some(first.clone()))
            }
            more => Err(WriteError::Overwrites {
                channel: self.name.clone(),
                times: more + 1,
            }),
        }
    }
}
