//! Values of types that a channel had in an earlier version of its graph.

use std::fmt;
use std::sync::Arc;

use crate::{CodecError, Data, Type, Value};

/// How stored values of an earlier type become values of the present one.
///
/// A stored value carries the name of its type, so what it is need not be guessed: a type whose form changes gets a new
/// name, and the old one stays in the program under its own name for as long as old checkpoints do. Names have
/// no module paths, so the old type can move to a module of its own.
///
/// ```
/// use superstep_channels::{Conversions, Type, Value};
///
/// let conversions = Conversions::new().with(|old: u32| u64::from(old));
/// let stored = Value::new(7u32);
/// let value = conversions.read("u32", &stored.encode()?, Type::of::<u64>())?;
/// assert_eq!(value.get(), Some(&7u64));
/// # Ok::<(), superstep_channels::CodecError>(())
/// ```
#[derive(Clone, Default)]
pub struct Conversions(Vec<Conversion>);

#[derive(Clone)]
struct Conversion {
    from: Type,
    convert: Arc<dyn Fn(Value) -> Result<Value, CodecError> + Send + Sync>,
}

impl Conversions {
    /// No conversions: what is stored must have the present type.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a conversion. Several make a chain: one from the first type to the second, one from there to the third.
    #[must_use]
    pub fn with<A: Data, B: Data>(
        mut self,
        convert: impl Fn(A) -> B + Send + Sync + 'static,
    ) -> Self {
        let convert = move |value: Value| match value.take::<A>() {
            Ok(old) => Ok(Value::new(convert(old))),
            Err(other) => Err(wrong(Type::of::<A>(), other.type_of().name())),
        };
        self.0.push(Conversion {
            from: Type::of::<A>(),
            convert: Arc::new(convert),
        });
        self
    }

    /// Adds all conversions of another list.
    #[must_use]
    pub fn and(mut self, more: Conversions) -> Self {
        self.0.extend(more.0);
        self
    }

    /// Whether values of the type with this name can be read as `wanted`, with or without conversions.
    pub fn reads(&self, stored: &str, wanted: Type) -> bool {
        stored == wanted.name() || self.of(stored).is_some()
    }

    /// Reads the bytes of a value whose type has the name `stored` as a value of the type `wanted`.
    pub fn read(&self, stored: &str, bytes: &[u8], wanted: Type) -> Result<Value, CodecError> {
        if stored == wanted.name() {
            return wanted.decode(bytes);
        }
        let first = self.of(stored).ok_or_else(|| wrong(wanted, stored))?;
        let mut value = (first.convert)(first.from.decode(bytes)?)?;
        // Each conversion is used at most once, so conversions that lead in a circle end.
        for _ in &self.0 {
            if value.type_of() == wanted {
                return Ok(value);
            }
            let name = value.type_of().name();
            let next = self.of(name).ok_or_else(|| wrong(wanted, name))?;
            value = (next.convert)(value)?;
        }
        Err(wrong(wanted, stored))
    }

    fn of(&self, name: &str) -> Option<&Conversion> {
        self.0.iter().find(|known| known.from.name() == name)
    }
}

fn wrong(wanted: Type, found: &str) -> CodecError {
    CodecError {
        type_name: wanted.name().to_owned(),
        reason: format!("what is stored is a `{found}`, and no conversion leads from there"),
    }
}

impl fmt::Debug for Conversions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types = self.0.iter().map(|known| known.from);
        f.debug_list().entries(types).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(conversions: &Conversions, stored: Value, wanted: Type) -> Result<Value, CodecError> {
        let name = stored.type_of().name();
        conversions.read(name, &stored.encode().unwrap(), wanted)
    }

    #[test]
    fn conversions_make_a_chain() {
        let chain = Conversions::new()
            .with(|old: u8| u32::from(old))
            .with(|old: u32| old.to_string());
        let value = read(&chain, Value::new(7u8), Type::of::<String>()).unwrap();
        assert_eq!(value.get(), Some(&"7".to_owned()));
        let value = read(
            &chain,
            Value::new("as it is".to_owned()),
            Type::of::<String>(),
        )
        .unwrap();
        assert_eq!(value.get(), Some(&"as it is".to_owned()));
    }

    #[test]
    fn what_leads_nowhere_is_an_error() {
        let circle = Conversions::new()
            .with(|old: u8| u16::from(old))
            .with(|old: u16| old.to_be_bytes()[1]);
        let errors = [
            read(&Conversions::new(), Value::new(7u8), Type::of::<u64>()),
            read(&circle, Value::new(7u8), Type::of::<u64>()),
        ];
        for error in errors {
            assert_eq!(
                error.unwrap_err().to_string(),
                "u64: what is stored is a `u8`, and no conversion leads from there"
            );
        }
    }
}
