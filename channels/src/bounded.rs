//! Reading values no deeper than they may nest.
//!
//! A type that contains itself can be nested as deep as its bytes say, and reading it would end with the stack. So every value is
//! read through these, which count how deep they are.

use std::fmt;

use crate::MAX_DEPTH;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor,
};

/// How deep a value may nest. A level of what is JSON takes three: the kind, the list, the item.
pub(crate) const DEEPEST: usize = 3 * MAX_DEPTH + 16;

/// Something that reads, and how much deeper it may go.
pub(crate) struct Bounded<T> {
    inner: T,
    left: usize,
}

impl<T> Bounded<T> {
    pub(crate) fn new(inner: T) -> Self {
        Bounded {
            inner,
            left: DEEPEST,
        }
    }
}

fn deeper<E: Error>(left: usize) -> Result<usize, E> {
    let left = left.checked_sub(1);
    left.ok_or_else(|| E::custom(format!("it nests deeper than {DEEPEST} levels")))
}

macro_rules! forward {
    ($($method:ident($($argument:ident: $type:ty),*))*) => {
        $(fn $method<V: Visitor<'de>>(self, $($argument: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            let Bounded { inner, left } = self;
            inner.$method($($argument,)* Bounded { inner: visitor, left })
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Bounded<D> {
    type Error = D::Error;

    forward! {
        deserialize_any()
        deserialize_bool()
        deserialize_i8()
        deserialize_i16()
        deserialize_i32()
        deserialize_i64()
        deserialize_i128()
        deserialize_u8()
        deserialize_u16()
        deserialize_u32()
        deserialize_u64()
        deserialize_u128()
        deserialize_f32()
        deserialize_f64()
        deserialize_char()
        deserialize_str()
        deserialize_string()
        deserialize_bytes()
        deserialize_byte_buf()
        deserialize_option()
        deserialize_unit()
        deserialize_unit_struct(name: &'static str)
        deserialize_newtype_struct(name: &'static str)
        deserialize_seq()
        deserialize_tuple(length: usize)
        deserialize_tuple_struct(name: &'static str, length: usize)
        deserialize_map()
        deserialize_struct(name: &'static str, fields: &'static [&'static str])
        deserialize_enum(name: &'static str, variants: &'static [&'static str])
        deserialize_identifier()
        deserialize_ignored_any()
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

macro_rules! visit {
    ($($method:ident($type:ty))*) => {
        $(fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.inner.$method(value)
        })*
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Bounded<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    visit! {
        visit_bool(bool)
        visit_i8(i8)
        visit_i16(i16)
        visit_i32(i32)
        visit_i64(i64)
        visit_i128(i128)
        visit_u8(u8)
        visit_u16(u16)
        visit_u32(u32)
        visit_u64(u64)
        visit_u128(u128)
        visit_f32(f32)
        visit_f64(f64)
        visit_char(char)
        visit_str(&str)
        visit_borrowed_str(&'de str)
        visit_string(String)
        visit_bytes(&[u8])
        visit_borrowed_bytes(&'de [u8])
        visit_byte_buf(Vec<u8>)
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let left = deeper(self.left)?;
        self.inner.visit_some(Bounded { inner, left })
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let left = deeper(self.left)?;
        self.inner.visit_newtype_struct(Bounded { inner, left })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let left = deeper(self.left)?;
        self.inner.visit_seq(Bounded { inner, left })
    }

    fn visit_map<A: MapAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let left = deeper(self.left)?;
        self.inner.visit_map(Bounded { inner, left })
    }

    fn visit_enum<A: EnumAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let left = deeper(self.left)?;
        self.inner.visit_enum(Bounded { inner, left })
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Bounded<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        let Bounded { inner: seed, left } = self;
        seed.deserialize(Bounded { inner, left })
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Bounded<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        inner: S,
    ) -> Result<Option<S::Value>, A::Error> {
        let left = self.left;
        self.inner.next_element_seed(Bounded { inner, left })
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Bounded<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        inner: S,
    ) -> Result<Option<S::Value>, A::Error> {
        let left = self.left;
        self.inner.next_key_seed(Bounded { inner, left })
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, inner: S) -> Result<S::Value, A::Error> {
        let left = self.left;
        self.inner.next_value_seed(Bounded { inner, left })
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for Bounded<A> {
    type Error = A::Error;
    type Variant = Bounded<A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        inner: S,
    ) -> Result<(S::Value, Bounded<A::Variant>), A::Error> {
        let left = self.left;
        let (value, inner) = self.inner.variant_seed(Bounded { inner, left })?;
        Ok((value, Bounded { inner, left }))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Bounded<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, inner: S) -> Result<S::Value, A::Error> {
        let left = self.left;
        self.inner.newtype_variant_seed(Bounded { inner, left })
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, inner: V) -> Result<V::Value, A::Error> {
        let left = self.left;
        self.inner.tuple_variant(length, Bounded { inner, left })
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        inner: V,
    ) -> Result<V::Value, A::Error> {
        let left = self.left;
        self.inner.struct_variant(fields, Bounded { inner, left })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde::{Deserialize, Serialize};

    use crate::{Data, MAX_DEPTH, Type, Value};

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    enum Tree {
        Leaf,
        Number(u8),
        Pair(Box<Tree>, Box<Tree>),
        Named {
            inner: Option<Box<Tree>>,
            all: Vec<Tree>,
            by: BTreeMap<String, Tree>,
        },
        Wrapped(Box<Wrapper>),
    }

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Wrapper(Tree);

    fn decoded<T: Data + PartialEq>(value: &T) -> Result<T, String> {
        let bytes = Value::new(value.clone()).encode().unwrap();
        let back = Type::of::<T>()
            .decode(&bytes)
            .map_err(|error| error.to_string())?;
        back.take().map_err(|_| "another type".into())
    }

    fn trees() -> impl Strategy<Value = Tree> {
        let leaf = prop_oneof![Just(Tree::Leaf), any::<u8>().prop_map(Tree::Number)];
        leaf.prop_recursive(6, 40, 4, |inner| {
            let boxed = || inner.clone().prop_map(Box::new);
            prop_oneof![
                (boxed(), boxed()).prop_map(|(one, other)| Tree::Pair(one, other)),
                boxed().prop_map(|inner| Tree::Wrapped(Box::new(Wrapper(*inner)))),
                (
                    prop::option::of(boxed()),
                    prop::collection::vec(inner.clone(), 0..3),
                    prop::collection::btree_map("[a-c]", inner, 0..3)
                )
                    .prop_map(|(inner, all, by)| Tree::Named { inner, all, by }),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_does_not_nest_too_deep_comes_back(tree in trees()) {
            prop_assert_eq!(decoded(&tree), Ok(tree));
        }

        #[test]
        fn hostile_bytes_give_a_value_or_an_error(bytes: Vec<u8>) {
            let _ = Type::of::<Tree>().decode(&bytes);
        }
    }

    #[test]
    fn what_nests_too_deep_is_an_error_and_not_the_end_of_the_stack() {
        // A pair whose first is a pair whose first …
        let deep = vec![2; 5_000_000];
        let error = Type::of::<Tree>().decode(&deep).unwrap_err();
        assert!(
            error.to_string().contains("nests deeper than 400 levels"),
            "{error}"
        );
        let mut json = serde_json::json!(1);
        for _ in 0..MAX_DEPTH - 1 {
            json = serde_json::json!([json]);
        }
        assert_eq!(decoded(&crate::Json(json.clone())), Ok(crate::Json(json)));
        let mut tree = Tree::Leaf;
        for _ in 0..40 {
            tree = Tree::Pair(Box::new(tree), Box::new(Tree::Leaf));
        }
        assert_eq!(decoded(&tree), Ok(tree));
    }
}
