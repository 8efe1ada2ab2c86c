//! What the names in a document mean.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde_json::Value as JsonValue;
use superstep_channels::Json;

use super::fold::{FoldError, JsonFold, KNOWN};
use super::predicate::Condition;
use crate::context::Context;
use crate::node::{Handler, NodeResult};

/// An error of any kind.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A node's function, made from a document.
pub(super) type Made = Arc<dyn Fn(Json, Context) -> BoxFuture<'static, NodeResult> + Send + Sync>;

/// What went wrong with parameters, and where in them.
pub(super) struct BadParameters {
    pub(super) path: String,
    pub(super) what: String,
}

type MakeNode = Box<dyn Fn(&JsonValue) -> Result<Made, BadParameters> + Send + Sync>;
type MakeCondition = Box<dyn Fn(&JsonValue) -> Result<Condition, BadParameters> + Send + Sync>;

/// What the names in a [document](super::Document) mean: kinds of nodes, conditions and folds.
pub struct Registry {
    kinds: BTreeMap<String, MakeNode>,
    conditions: BTreeMap<String, MakeCondition>,
    folds: BTreeMap<String, JsonFold>,
}

impl Registry {
    /// A registry without kinds and conditions, and with the folds that every registry has.
    pub fn new() -> Self {
        let folds = KNOWN.into_iter();
        Registry {
            kinds: BTreeMap::new(),
            conditions: BTreeMap::new(),
            folds: folds.map(|(name, fold)| (name.to_owned(), fold)).collect(),
        }
    }

    /// Adds a kind of node. `make` gets the parameters of each node of that kind, and gives its function or says what is wrong
    /// with them; parameters that do not have the form of `P` are found out before.
    #[must_use]
    pub fn kind<P, H>(
        mut self,
        name: impl Into<String>,
        make: impl Fn(P) -> Result<H, BoxError> + Send + Sync + 'static,
    ) -> Self
    where
        P: DeserializeOwned,
        H: Handler<Json>,
    {
        let make = move |with: &JsonValue| {
            let node = make(parameters(with)?).map_err(bad)?;
            let made: Made = Arc::new(move |state, cx| node.call(state, cx));
            Ok(made)
        };
        self.kinds.insert(name.into(), Box::new(make));
        self
    }

    /// Adds a condition. `make` gets its parameters, and gives the function that decides on a state.
    #[must_use]
    pub fn condition<P, C>(
        mut self,
        name: impl Into<String>,
        make: impl Fn(P) -> Result<C, BoxError> + Send + Sync + 'static,
    ) -> Self
    where
        P: DeserializeOwned,
        C: Fn(&JsonValue) -> bool + Send + Sync + 'static,
    {
        let make = move |with: &JsonValue| {
            let condition: Condition = Box::new(make(parameters(with)?).map_err(bad)?);
            Ok(condition)
        };
        self.conditions.insert(name.into(), Box::new(make));
        self
    }

    /// Adds a fold, or replaces one that every registry has. The value is null at first.
    #[must_use]
    pub fn fold(
        mut self,
        name: impl Into<String>,
        fold: fn(&mut Json, Json) -> Result<(), FoldError>,
    ) -> Self {
        self.folds.insert(name.into(), fold);
        self
    }

    pub(super) fn find_kind(&self, name: &str) -> Result<&MakeNode, String> {
        find(&self.kinds, "kind of node", name)
    }

    pub(super) fn find_condition(&self, name: &str) -> Result<&MakeCondition, String> {
        find(&self.conditions, "condition", name)
    }

    pub(super) fn find_fold(&self, name: &str) -> Result<JsonFold, String> {
        find(&self.folds, "fold", name).copied()
    }
}

fn find<'a, T>(known: &'a BTreeMap<String, T>, what: &str, name: &str) -> Result<&'a T, String> {
    known.get(name).ok_or_else(|| {
        let names: Vec<_> = known.keys().map(String::as_str).collect();
        format!("`{name}` is no {what}; known are: {}", names.join(", "))
    })
}

/// Parameters that are left out are none: null, or an object without members, whichever the form takes.
fn parameters<P: DeserializeOwned>(with: &JsonValue) -> Result<P, BadParameters> {
    let read = serde_path_to_error::deserialize(with);
    let read = match (read, with) {
        (Err(_), JsonValue::Null) => {
            serde_path_to_error::deserialize(&JsonValue::Object(serde_json::Map::new()))
        }
        (read, _) => read,
    };
    read.map_err(|error| {
        let path = error.path().to_string();
        BadParameters {
            path: if path == "." {
                String::new()
            } else {
                format!(".{path}")
            },
            what: error.into_inner().to_string(),
        }
    })
}

fn bad(error: BoxError) -> BadParameters {
    BadParameters {
        path: String::new(),
        what: error.to_string(),
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("kinds", &self.kinds.keys())
            .field("conditions", &self.conditions.keys())
            .field("folds", &self.folds.keys())
            .finish()
    }
}
