//! Graphs from data: a JSON document that names its nodes' kinds, and a registry of what those kinds are.
//!
//! ```
//! use serde::Deserialize;
//! use superstep::channels::Json;
//! use superstep::document::{Document, Registry};
//! use superstep::prelude::*;
//!
//! #[derive(Deserialize)]
//! struct Say {
//!     text: String,
//! }
//!
//! let registry = Registry::new().kind("say", |with: Say| {
//!     Ok(move |_: Json, _: Context| {
//!         let text = with.text.clone();
//!         async move { Ok(Update::from(Json(serde_json::json!({ "said": [text] })))) }
//!     })
//! });
//! let document = Document::from_json(
//!     r#"{
//!         "name": "greeting",
//!         "channels": { "said": { "rule": "reduce", "fold": "append" }, "loud": { "rule": "last" } },
//!         "nodes": [
//!             { "name": "hello", "kind": "say", "with": { "text": "hello" } },
//!             { "name": "shout", "kind": "say", "with": { "text": "HELLO" } }
//!         ],
//!         "entries": ["hello"],
//!         "branches": [{ "from": "hello", "when": [{ "if": { "truthy": "loud" }, "to": "shout" }] }]
//!     }"#,
//! )?;
//! let graph = document.build(&registry)?;
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let input = Json(serde_json::json!({ "loud": true }));
//! let state = graph.detached().start(input).await?.done().ok_or("not done")?;
//! assert_eq!(state.0["said"], serde_json::json!(["hello", "HELLO"]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The form
//!
//! An object with these members; all but `name`, `nodes` and `entries` can be left out, and others are an error.
//!
//! | member | what it says |
//! |---|---|
//! | `name`, `version` | the graph's name, and its version, 1 unless it is said |
//! | `channels` | an object: for each channel its [rule](Channel) |
//! | `nodes` | a list of [nodes](Node) |
//! | `entries` | the nodes that run first |
//! | `edges` | pairs of nodes: the second runs after the first |
//! | `joins` | `{ "from": [..], "to": .. }`: `to` runs when all of `from` have |
//! | `branches` | a list of [branches](Branch) |
//! | `input`, `output` | the channels that callers may write and get to see |
//! | `stop_before`, `stop_after` | nodes to stop at, unless a run says otherwise |
//!
//! All values of channels are JSON.

mod build;
mod fold;
mod predicate;
mod registry;

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value as JsonValue;

pub use fold::FoldError;
pub use predicate::{Call, Predicate};
pub use registry::{BoxError, Registry};

/// A graph as data. See the [module](self) for its form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// The graph's name.
    pub name: String,
    /// Its version.
    #[serde(default = "first")]
    pub version: u32,
    /// Its channels, by name.
    #[serde(default, deserialize_with = "each_once")]
    pub channels: BTreeMap<String, Channel>,
    /// Its nodes.
    pub nodes: Vec<Node>,
    /// The nodes that run first.
    pub entries: Vec<String>,
    /// Nodes that run after others.
    #[serde(default)]
    pub edges: Vec<(String, String)>,
    /// Nodes that wait for several others.
    #[serde(default)]
    pub joins: Vec<Join>,
    /// Where a run goes one way or another.
    #[serde(default)]
    pub branches: Vec<Branch>,
    /// The channels that callers may write; all, unless it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Vec<String>>,
    /// The channels that callers get to see; all, unless it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Vec<String>>,
    /// Nodes to stop before.
    #[serde(default)]
    pub stop_before: Vec<String>,
    /// Nodes to stop after.
    #[serde(default)]
    pub stop_after: Vec<String>,
}

fn first() -> u32 {
    1
}

/// Reads channels by name; of two of one name it is not clear which is meant.
fn each_once<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, Channel>, D::Error> {
    struct Channels;

    impl<'de> Visitor<'de> for Channels {
        type Value = BTreeMap<String, Channel>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object of channels")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut channels = BTreeMap::new();
            while let Some((name, channel)) = map.next_entry::<String, Channel>()? {
                if channels.contains_key(&name) {
                    return Err(A::Error::custom(format!("channel `{name}` is there twice")));
                }
                channels.insert(name, channel);
            }
            Ok(channels)
        }
    }

    from.deserialize_map(Channels)
}

/// The rule of a channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Channel {
    /// What writes do.
    pub rule: Rule,
    /// How a `reduce` or `topic` channel takes its writes in: a name in the [registry](Registry), which has `append` (a list, of items
    /// or lists of them), `sum`, `max`, `min`, `merge` (objects, member by member) and `concat` (texts).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fold: Option<String>,
    /// Whether several nodes may write a `last` or `ephemeral` channel in one superstep; the last of them counts.
    #[serde(default)]
    pub many_writers: bool,
    /// Whether a `reduce` channel is stored as its writes, and not whole each time.
    #[serde(default)]
    pub delta: bool,
    /// What its values look like, for those who look at the graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<JsonValue>,
}

/// What writes to a channel do. See the table of [channels](crate::channels).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// They replace the value.
    Last,
    /// They replace the value, which is gone after the next superstep; any number of them.
    Any,
    /// They replace the value, which is gone after the next superstep.
    Ephemeral,
    /// They replace the value, which is never stored.
    Untracked,
    /// They are collected for the next superstep.
    Topic,
    /// They are folded into the value.
    Reduce,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// What it is: a name in the registry.
    pub kind: String,
    /// What the kind makes it of.
    #[serde(default)]
    pub with: JsonValue,
    /// The channels that it reads; all, unless it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<Vec<String>>,
    /// Whether it waits until nothing else is due.
    #[serde(default)]
    pub defer: bool,
    /// Where it goes besides its edges, if it may not go anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leads_to: Option<Vec<String>>,
    /// When it runs again after a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// How long an attempt may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_timeout_ms: Option<u64>,
    /// How long an attempt may give no sign of life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    /// Whether it blocks its thread.
    #[serde(default)]
    pub blocking: bool,
    /// Tags, for those who look at the graph.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Notes, for those who look at the graph.
    #[serde(default)]
    pub metadata: serde_json::Map<String, JsonValue>,
}

/// When a node runs again after a failure. See [`crate::Retry`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// How many attempts there are in all.
    pub attempts: u32,
    /// How long to wait after the first failure.
    #[serde(default = "half_a_second")]
    pub initial_ms: u64,
    /// How much longer after each further one.
    #[serde(default = "two")]
    pub factor: f64,
    /// How long at most.
    #[serde(default = "two_minutes")]
    pub max_ms: u64,
}

fn half_a_second() -> u64 {
    500
}

fn two() -> f64 {
    2.0
}

fn two_minutes() -> u64 {
    128_000
}

/// A node that waits for several others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// The nodes that it waits for.
    pub from: Vec<String>,
    /// The node.
    pub to: String,
}

/// A place where a run goes one way or another: the first condition that holds on the state says where, otherwise `else`
/// does; if there is none, it goes nowhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Branch {
    /// The node behind which it is decided; the input, if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The conditions.
    pub when: Vec<Case>,
    /// Where to go if none holds.
    #[serde(default, rename = "else", skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<Targets>,
}

/// A condition, and where to go if it holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The condition.
    #[serde(rename = "if")]
    pub holds: Predicate,
    /// Where to go.
    pub to: Targets,
}

/// One node, or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Targets {
    /// One.
    One(String),
    /// Several, which run side by side.
    Several(Vec<String>),
}

impl Targets {
    fn names(&self) -> &[String] {
        match self {
            Targets::One(name) => std::slice::from_ref(name),
            Targets::Several(names) => names,
        }
    }
}

/// Everything that is wrong with a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentError {
    /// What is wrong, at least one thing. A document that has not the form is found out at the first place that has not.
    pub problems: Vec<DocumentProblem>,
}

/// One thing that is wrong with a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentProblem {
    /// Where: `nodes[2].with.text`. Empty, if it is wrong with the graph as a whole.
    pub path: String,
    /// What.
    pub what: String,
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the document is no graph:")?;
        for DocumentProblem { path, what } in &self.problems {
            match path.as_str() {
                "" => write!(f, "\n- {what}")?,
                path => write!(f, "\n- at `{path}`: {what}")?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for DocumentError {}

impl Document {
    /// Reads a document. Whether it makes a graph is found out when it is [built](Document::build).
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let read = serde_path_to_error::deserialize(&mut deserializer)
            .map_err(|error| {
                let path = error.path().to_string();
                (
                    // Of what has no place it says one of these.
                    if path == "." || path == "?" {
                        String::new()
                    } else {
                        path
                    },
                    error.into_inner(),
                )
            })
            .and_then(|document| match deserializer.end() {
                Ok(()) => Ok(document),
                Err(error) => Err((String::new(), error)),
            });
        read.map_err(|(path, error)| DocumentError {
            problems: vec![DocumentProblem {
                path,
                what: error.to_string(),
            }],
        })
    }
}
