//! How a write is folded into a value.

use std::fmt;
use std::marker::PhantomData;

use crate::{Data, Type, Value};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A reducer: folds one update into the value.
///
/// It is called for one write at a time, in canonical order, both when a superstep ends and when a
/// delta channel is rebuilt from its stored writes; so it must depend on nothing but its arguments.
pub trait Fold<V, U>: Send + Sync + 'static {
    /// Folds `update` into `value`.
    fn fold(&self, value: &mut V, update: U) -> Result<(), BoxError>;

    /// Whether [`fold`](Fold::fold) can return an error at all.
    fn can_fail(&self) -> bool {
        false
    }
}

/// A plain function is a reducer that cannot fail.
impl<V, U, F: Fn(&mut V, U) + Send + Sync + 'static> Fold<V, U> for F {
    fn fold(&self, value: &mut V, update: U) -> Result<(), BoxError> {
        self(value, update);
        Ok(())
    }
}

/// Makes a reducer from a function that can refuse an update, for values whose type is too wide
/// to rule out nonsense: JSON that ought to be a list, for example.
pub fn fold_with<V: 'static, U: 'static, E: Into<BoxError> + 'static>(
    function: impl Fn(&mut V, U) -> Result<(), E> + Send + Sync + 'static,
) -> impl Fold<V, U> {
    Fallible(function, PhantomData)
}

struct Fallible<F, E>(F, PhantomData<fn() -> E>);

impl<V, U, E, F> Fold<V, U> for Fallible<F, E>
where
    E: Into<BoxError> + 'static,
    F: Fn(&mut V, U) -> Result<(), E> + Send + Sync + 'static,
{
    fn fold(&self, value: &mut V, update: U) -> Result<(), BoxError> {
        (self.0)(value, update).map_err(Into::into)
    }

    fn can_fail(&self) -> bool {
        true
    }
}

/// The usual reducer of a list ([`List`](crate::List), `Vec`): the update's items go to the end. Of a map, they replace those of their keys.
pub fn append<L: Extend<L::Item> + IntoIterator>(list: &mut L, items: L) {
    list.extend(items);
}

/// A [`Fold`] whose types are known at run time only.
pub(crate) trait ErasedFold: Send + Sync + fmt::Debug {
    fn update_type(&self) -> Type;
    fn zero(&self) -> Option<Value>;
    fn can_fail(&self) -> bool;
    /// The update has the update type, the value the value type; the spec's constructors see to it.
    fn fold(&self, value: &mut Option<Value>, update: Value) -> Result<(), BoxError>;
}

/// Where a reducing channel starts.
pub(crate) enum Start<V, U> {
    /// With a value that is there before the first write.
    Zero(fn() -> V),
    /// Empty; the first update becomes the value.
    First(fn(U) -> V),
}

pub(crate) struct Typed<V, U, F> {
    pub(crate) start: Start<V, U>,
    pub(crate) fold: F,
}

impl<V: Data, U: Data, F: Fold<V, U>> ErasedFold for Typed<V, U, F> {
    fn update_type(&self) -> Type {
        Type::of::<U>()
    }

    fn zero(&self) -> Option<Value> {
        match self.start {
            Start::Zero(zero) => Some(Value::new(zero())),
            Start::First(_) => None,
        }
    }

    fn can_fail(&self) -> bool {
        self.fold.can_fail()
    }

    fn fold(&self, value: &mut Option<Value>, update: Value) -> Result<(), BoxError> {
        let update = update.take::<U>().map_err(|wrong| mismatch::<U>(&wrong))?;
        let before = match (value.take(), &self.start) {
            (Some(before), _) => before,
            (None, Start::Zero(zero)) => Value::new(zero()),
            (None, Start::First(first)) => {
                *value = Some(Value::new(first(update)));
                return Ok(());
            }
        };
        let (after, result) = before
            .modify(|state: &mut V| self.fold.fold(state, update))
            .map_err(|wrong| mismatch::<V>(&wrong))?;
        *value = Some(after);
        result
    }
}

fn mismatch<T: Data>(found: &Value) -> BoxError {
    format!(
        "expected `{}`, found `{}`",
        Type::of::<T>().name(),
        found.type_of().name()
    )
    .into()
}

impl<V, U, F> fmt::Debug for Typed<V, U, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fold")
    }
}
