//! What a recorded case is made of: a graph and a script. `README.md` explains the format.
//!
//! Reading is strict: a key, operator, kind or action that is not known here is an error.

use std::collections::BTreeMap;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::expr::Expr;
use crate::result::{Outcome, recorded};

/// One recorded case.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The case's name, which is also its file's.
    pub name: String,
    /// The area it belongs to.
    pub topic: String,
    /// What it is about.
    pub desc: String,
    /// The root graph.
    pub spec: Spec,
    /// What is done with it, in order.
    pub script: Vec<Action>,
    /// What came of it, one result per action.
    #[serde(deserialize_with = "recorded")]
    pub expected: Vec<Outcome>,
    /// Whether checkpoints are kept.
    #[serde(default)]
    pub saver: Saver,
    /// Whether it was recorded through the asynchronous interface.
    #[serde(default, rename = "async")]
    pub asynchronous: bool,
    /// Whether it looks like an accident of the reference, so that one may differ on purpose.
    #[serde(default)]
    pub quirk: bool,
    /// Why it looks like one.
    pub quirk_why: Option<String>,
    /// Whether storing in SQLite instead of memory gave the same results.
    pub sqlite_same: Option<bool>,
}

/// Where checkpoints go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Saver {
    /// In memory.
    #[default]
    Memory,
    /// Nowhere.
    None,
}

/// A graph: of nodes, or functional.
#[derive(Clone, Debug)]
pub enum Spec {
    /// Nodes and edges.
    Graph(Box<Graph>),
    /// A single body that calls tasks.
    Entry(Entry),
}

/// A graph of nodes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Graph {
    /// The label of its nodes in `ran`; `main` for a root and the key for a graph of `graphs`.
    pub name: Option<String>,
    /// The state.
    pub channels: BTreeMap<String, Channel>,
    /// The keys an input may have; all by default.
    pub input: Option<Vec<String>>,
    /// The keys an output has; all by default.
    pub output: Option<Vec<String>>,
    /// The nodes, in the order that state reads list them.
    pub nodes: Vec<Node>,
    /// Plain and barrier edges.
    #[serde(default)]
    pub edges: Vec<Edge>,
    /// Conditional edges, in order.
    #[serde(default)]
    pub branches: Vec<Branch>,
    /// Nodes to pause in front of.
    #[serde(default)]
    pub interrupt_before: Vec<String>,
    /// Nodes to pause behind.
    #[serde(default)]
    pub interrupt_after: Vec<String>,
    /// How a nested graph keeps checkpoints.
    #[serde(default)]
    pub checkpointer: Checkpointer,
    /// What nodes have unless they say otherwise.
    #[serde(default)]
    pub defaults: Defaults,
    /// Functional tasks its nodes may call.
    #[serde(default)]
    pub tasks: Vec<Task>,
    /// Graphs its nodes may call, by name; at the root only.
    #[serde(default)]
    pub graphs: BTreeMap<String, Spec>,
}

/// A functional entry: its argument is the variable `arg`, its result that of `ret`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The name of the graph and of its one node.
    pub name: String,
    /// The body.
    pub ops: Vec<Op>,
    /// The tasks it may call.
    #[serde(default)]
    pub tasks: Vec<Task>,
    /// The graphs it may call.
    #[serde(default)]
    pub graphs: BTreeMap<String, Spec>,
}

/// How a nested graph keeps checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Checkpointer {
    /// For the call it belongs to.
    #[default]
    Inherit,
    /// Over calls.
    Own,
    /// Not at all.
    Off,
}

/// What all nodes of a graph have by default.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Defaults {
    /// The retry policy.
    pub retry: Option<Retry>,
    /// The body that runs when a node failed for good.
    pub error_handler: Option<Vec<Op>>,
}

/// A channel's declaration.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Channel {
    /// One writer a superstep.
    LastValue {},
    /// A fold.
    Reduce {
        /// The reducer.
        op: Fold,
        /// Where it starts.
        #[serde(default)]
        init: Init,
    },
    /// A list of one superstep's writes, or of all.
    Topic {
        /// Whether it keeps what earlier supersteps wrote.
        #[serde(default)]
        accumulate: bool,
    },
    /// A value for one superstep.
    Ephemeral {
        /// Whether a second writer is refused.
        #[serde(default = "yes")]
        guard: bool,
    },
    /// The last of many writers, for one superstep.
    AnyValue {},
    /// A value that is never stored.
    Untracked {
        /// Whether a second writer is refused.
        #[serde(default = "yes")]
        guard: bool,
    },
    /// A fold that is stored as its writes.
    Delta {
        /// The reducer.
        op: Fold,
        /// After how many updates the whole value is stored.
        #[serde(default = "hundred")]
        snapshot_frequency: u32,
    },
    /// Whether the recursion limit allows no step after this one.
    IsLastStep {},
    /// How many steps the recursion limit still allows.
    RemainingSteps {},
}

/// A reducer; see [`folds`](crate::folds).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fold {
    /// Sum.
    Add,
    /// Concatenation of lists.
    Append,
    /// Union of objects; the right side wins.
    Merge,
    /// The greater number.
    Max,
    /// Items that are not in the list yet.
    Union,
    /// Concatenation of strings.
    Concat,
    /// Items replaced, appended or removed by `id`.
    ById,
    /// Messages replaced or appended by `id`.
    Messages,
}

/// Where a fold starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Init {
    /// With the reducer's neutral value.
    #[default]
    Zero,
    /// Empty: the first write becomes the value.
    None,
}

/// From one node, or from all of several, to a node.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Edge(pub Sources, pub String);

/// Where an edge starts.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Sources {
    /// At one node.
    One(String),
    /// At a barrier of several.
    All(Vec<String>),
}

/// A conditional edge.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Branch {
    /// The node it starts at.
    pub from: String,
    /// Where it goes: a name, a send, or a list of them.
    pub path: Expr,
    /// Names the path may give and the nodes they stand for.
    pub map: Option<BTreeMap<String, String>>,
}

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// What it does.
    pub body: Body,
    /// Whether it waits until nothing else is due.
    pub defer: bool,
    /// When a failed attempt is repeated; the first policy that matches decides.
    pub retry: Option<Vec<Retry>>,
    /// Whether its result is kept for equal inputs.
    pub cache: bool,
    /// The keys it sees; all by default.
    pub input: Option<Vec<String>>,
    /// Keys that only this node declares.
    pub private: BTreeMap<String, Channel>,
    /// Nodes its gotos may name.
    pub ends: Vec<String>,
    /// The body that runs when it failed for good.
    pub error_handler: Option<Vec<Op>>,
    /// Its time limits.
    pub timeout: Option<Timeout>,
    /// How long it waits before its first operation.
    pub delay: Option<Delay>,
}

/// What a node does.
#[derive(Clone, Debug)]
pub enum Body {
    /// Operations.
    Ops(Vec<Op>),
    /// A nested graph.
    Subgraph(Box<Spec>),
}

/// When a failed attempt is repeated.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// How many attempts there are in all.
    #[serde(default = "three")]
    pub max_attempts: u32,
    /// Which failures it is for.
    #[serde(default)]
    pub retry_on: RetryOn,
}

/// Which failures a retry policy is for.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum RetryOn {
    /// Those that are likely to pass.
    #[default]
    Default,
    /// Those of these kinds.
    Kinds(Vec<ErrorKind>),
}

/// What a body can fail with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum ErrorKind {
    /// Retried by default.
    Boom,
    /// A lost connection; retried by default.
    Net,
    /// A programming error; not retried by default.
    BadValue,
}

/// A node's time limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timeout {
    /// Of one attempt.
    pub run_ms: Option<u64>,
    /// Since the last sign of life.
    pub idle_ms: Option<u64>,
    /// What counts as one.
    #[serde(default)]
    pub refresh: Refresh,
}

/// What counts as a sign of life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refresh {
    /// Any progress.
    #[default]
    Auto,
    /// An explicit heartbeat only.
    Heartbeat,
}

/// How long a node waits before its first operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delay {
    /// The whole time.
    pub ms: u64,
    /// In how many of its first runs; in all by default.
    pub times: Option<u64>,
    /// How many heartbeats it sends meanwhile: after each of `beats + 1` equal parts.
    #[serde(default)]
    pub beats: u64,
}

/// A functional task: its argument is the variable `arg`, its result that of `ret`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// Its name.
    pub name: String,
    /// The body.
    pub ops: Vec<Op>,
    /// When a failed attempt is repeated.
    #[serde(default, deserialize_with = "one_or_many")]
    pub retry: Option<Vec<Retry>>,
    /// Whether its result is kept for equal arguments.
    #[serde(default)]
    pub cache: bool,
}

/// One operation of a body.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Op {
    /// Writes a key; the last of several wins.
    Set {
        /// The key.
        key: String,
        /// What is written.
        value: Expr,
    },
    /// Sets a variable.
    Let {
        /// The variable.
        var: String,
        /// Its value.
        value: Expr,
    },
    /// Asks, and pauses until there is an answer.
    Interrupt {
        /// The question.
        value: Expr,
        /// Gets the answer.
        var: String,
    },
    /// Goes to nodes by name or by send, besides the edges.
    Goto {
        /// Where to.
        to: Vec<Expr>,
    },
    /// Returns a command to the graph above.
    Parent {
        /// What it writes there.
        update: Option<Expr>,
        /// Where it goes there.
        goto: Option<Expr>,
    },
    /// Fails.
    Raise {
        /// What with.
        kind: ErrorKind,
        /// How often, by the counter; always by default.
        times: Option<u64>,
        /// Counts the times it was reached.
        counter: Option<String>,
    },
    /// Does one or the other.
    If {
        /// The condition.
        cond: Expr,
        /// What is done if it holds.
        then: Vec<Op>,
        /// What is done if not.
        #[serde(default, rename = "else")]
        otherwise: Vec<Op>,
    },
    /// Adds one to a counter.
    Count {
        /// The counter.
        counter: String,
    },
    /// Lets siblings finish first.
    Sleep {
        /// How long it takes.
        ms: u64,
    },
    /// Emits an event of the node's own.
    Custom {
        /// What it says.
        value: Expr,
    },
    /// Runs a graph inside the node.
    Call {
        /// Which one.
        graph: String,
        /// Its input.
        input: Expr,
        /// Gets its output.
        var: String,
    },
    /// Runs a task.
    Task {
        /// Which one.
        task: String,
        /// Its argument.
        arg: Expr,
        /// Gets its result.
        var: String,
    },
    /// Runs a task and catches its failure.
    TryTask {
        /// Which one.
        task: String,
        /// Its argument.
        arg: Expr,
        /// Gets `{"ok": result}` or `{"error": kind}`.
        var: String,
    },
    /// Runs one task per item, all at once.
    Tasks {
        /// The items and the calls.
        calls: Calls,
        /// Gets the results in order.
        var: String,
    },
    /// Asks the run to stop in front of the next superstep.
    Drain {},
    /// Ends the body with this value as it is, be it valid or not.
    Return {
        /// What is returned.
        value: Expr,
    },
    /// Ends the body with a list of updates and commands.
    ReturnList {
        /// The list.
        items: Vec<ListItem>,
    },
    /// Ends the body of a task or entry.
    Ret {
        /// The result.
        value: Expr,
        /// What is saved for the next run; the result by default.
        #[serde(default, deserialize_with = "present")]
        save: Option<Expr>,
    },
}

/// One task call per item of a list.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calls {
    /// The list, and the call for the item in variable `it`.
    #[serde(rename = "$each")]
    pub each: (Expr, TaskCall),
}

/// A call of a task.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskCall {
    /// Which one.
    pub task: String,
    /// Its argument.
    pub arg: Expr,
}

/// An item of a returned list.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListItem {
    /// Writes.
    Update(Expr),
    /// Writes, and where to go.
    Command(ListCommand),
}

/// A command in a returned list.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListCommand {
    /// What it writes.
    pub update: Option<Expr>,
    /// Where it goes.
    pub goto: Option<Expr>,
}

/// One step of a script.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Action {
    /// Runs the graph.
    Invoke(Box<Invoke>),
    /// Reads a state.
    State(ReadState),
    /// Reads all states, newest first.
    History(ReadHistory),
    /// Writes to a state.
    Update(UpdateState),
    /// Writes several supersteps at once.
    Bulk(Bulk),
    /// Dumps what is stored.
    Raw(Raw),
    /// Forgets cached results.
    ClearCache(ClearCache),
}

impl Action {
    /// The action's name in the script.
    pub fn kind(&self) -> &'static str {
        match self {
            Action::Invoke(_) => "invoke",
            Action::State(_) => "state",
            Action::History(_) => "history",
            Action::Update(_) => "update",
            Action::Bulk(_) => "bulk",
            Action::Raw(_) => "raw",
            Action::ClearCache(_) => "clear_cache",
        }
    }
}

/// Runs the graph with an input, a command, or neither.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invoke {
    /// The thread.
    #[serde(default = "thread")]
    pub thread: String,
    /// The input; null continues. Absent if there is a command.
    #[serde(default, deserialize_with = "present")]
    pub input: Option<Expr>,
    /// A command instead of an input.
    pub command: Option<Command>,
    /// How many supersteps are allowed.
    #[serde(default = "twenty_five")]
    pub recursion_limit: u32,
    /// When checkpoints are saved.
    #[serde(default)]
    pub durability: Durability,
    /// Nodes to pause in front of.
    pub interrupt_before: Option<Breakpoints>,
    /// Nodes to pause behind.
    pub interrupt_after: Option<Breakpoints>,
    /// Whether answers to unknown questions are an error.
    #[serde(default)]
    pub strict: bool,
    /// The checkpoint to start from; the newest by default.
    pub at: Option<Ref>,
    /// The modes to stream.
    pub stream: Option<Vec<Mode>>,
    /// Whether nested graphs stream as well.
    #[serde(default)]
    pub subgraphs: bool,
}

/// What an invoke can carry instead of an input.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// The answer to the one open question.
    #[serde(default, deserialize_with = "present")]
    pub resume: Option<Expr>,
    /// Answers to questions by what they asked.
    pub resume_map: Option<Vec<Answer>>,
    /// Writes.
    pub update: Option<Expr>,
    /// Where to go.
    pub goto: Option<Expr>,
    /// Whether it is addressed to the graph above.
    #[serde(default)]
    pub parent: bool,
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// What was asked: the latest question with this payload is meant.
    pub payload: Value,
    /// The answer.
    pub value: Expr,
}

/// When checkpoints are saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Before the next superstep starts.
    Sync,
    /// In the background.
    #[default]
    Async,
    /// When the run ends.
    Exit,
}

/// Nodes to pause at.
#[derive(Clone, Debug, PartialEq)]
pub enum Breakpoints {
    /// Every node.
    All,
    /// These nodes.
    Nodes(Vec<String>),
}

/// What is streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The state after each superstep.
    Values,
    /// What each node wrote.
    Updates,
    /// Each task's start and end.
    Tasks,
    /// Each checkpoint.
    Checkpoints,
    /// What nodes emit themselves.
    Custom,
    /// Tasks and checkpoints with their step.
    Debug,
}

/// A checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Ref {
    /// By its place in the current history: 0 is the newest, -1 the oldest.
    K(i64),
    /// By the name it was saved under.
    Saved(String),
}

/// Reads a state.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadState {
    /// The thread.
    #[serde(default = "thread")]
    pub thread: String,
    /// The nested graph of the waiting task of this node, of its node, and so on.
    pub ns: Option<Vec<String>>,
    /// A namespace, literally.
    pub ns_raw: Option<String>,
    /// Whether the states of nested graphs are read with it.
    #[serde(default)]
    pub subgraphs: bool,
    /// The checkpoint; the live state by default.
    pub at: Option<Ref>,
    /// The name to save the checkpoint under.
    pub save: Option<String>,
    /// Saves that of this nested task instead.
    pub pick: Option<Vec<String>>,
}

/// Reads all states, newest first.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadHistory {
    /// The thread.
    #[serde(default = "thread")]
    pub thread: String,
    /// As in [`ReadState`].
    pub ns: Option<Vec<String>>,
    /// As in [`ReadState`].
    pub ns_raw: Option<String>,
    /// How many at most.
    pub limit: Option<usize>,
    /// Only those that are older.
    pub before: Option<Ref>,
    /// Only those with this metadata.
    pub filter: Option<serde_json::Map<String, Value>>,
    /// The name to save a checkpoint under.
    pub save: Option<String>,
    /// Which entry that is; the newest by default.
    pub pick: Option<i64>,
}

/// Writes to a state.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpdateState {
    /// The thread.
    #[serde(default = "thread")]
    pub thread: String,
    /// As in [`ReadState`].
    pub ns: Option<Vec<String>>,
    /// As in [`ReadState`].
    pub ns_raw: Option<String>,
    /// What is written.
    pub values: Option<Expr>,
    /// The node it counts as written by.
    pub as_node: Option<String>,
    /// The checkpoint; the newest by default.
    pub at: Option<Ref>,
    /// The name to save the new checkpoint under.
    pub save: Option<String>,
}

/// Writes several supersteps at once.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bulk {
    /// The thread.
    #[serde(default = "thread")]
    pub thread: String,
    /// The supersteps, each of its updates.
    pub supersteps: Vec<Vec<BulkUpdate>>,
    /// The name to save the new checkpoint under.
    pub save: Option<String>,
}

/// One update of a superstep.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BulkUpdate {
    /// What is written.
    pub values: Option<Expr>,
    /// The node it counts as written by.
    pub as_node: Option<String>,
}

/// Dumps what is stored. Optional: another layout has another dump.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Raw {
    /// The thread.
    #[serde(default = "thread")]
    pub thread: String,
    /// As in [`ReadState`].
    pub ns: Option<Vec<String>>,
    /// As in [`ReadState`].
    pub ns_raw: Option<String>,
}

/// Forgets cached results.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClearCache {}

fn yes() -> bool {
    true
}

fn three() -> u32 {
    3
}

fn twenty_five() -> u32 {
    25
}

fn hundred() -> u32 {
    100
}

fn thread() -> String {
    "t".to_owned()
}

/// Keeps a null apart from an absent key.
pub(crate) fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

fn one_or_many<'de, D, T>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    match Value::deserialize(deserializer)? {
        list @ Value::Array(_) => located(list),
        one => located(one).map(|one| vec![one]),
    }
    .map(Some)
    .map_err(D::Error::custom)
}

/// Reads a value; the error says where in it the trouble is.
pub(crate) fn located<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_path_to_error::deserialize(value).map_err(|error| error.to_string())
}

impl<'de> Deserialize<'de> for Spec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        let entry = value.get("kind").is_some_and(|kind| kind == "entrypoint");
        if let (true, Some(keys)) = (entry, value.as_object_mut()) {
            keys.remove("kind");
            return located(value).map(Spec::Entry).map_err(D::Error::custom);
        }
        located(value)
            .map(|graph| Spec::Graph(Box::new(graph)))
            .map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Keys {
            name: String,
            ops: Option<Vec<Op>>,
            subgraph: Option<Box<Spec>>,
            #[serde(default)]
            defer: bool,
            #[serde(default, deserialize_with = "one_or_many")]
            retry: Option<Vec<Retry>>,
            #[serde(default)]
            cache: bool,
            input: Option<Vec<String>>,
            #[serde(default)]
            private: BTreeMap<String, Channel>,
            #[serde(default)]
            ends: Vec<String>,
            error_handler: Option<Vec<Op>>,
            timeout: Option<Timeout>,
            delay: Option<Delay>,
        }
        let keys = Keys::deserialize(deserializer)?;
        let body = match (keys.ops, keys.subgraph) {
            (Some(ops), None) => Body::Ops(ops),
            (None, Some(graph)) => Body::Subgraph(graph),
            _ => return Err(D::Error::custom("a node has either `ops` or a `subgraph`")),
        };
        Ok(Node {
            name: keys.name,
            body,
            defer: keys.defer,
            retry: keys.retry,
            cache: keys.cache,
            input: keys.input,
            private: keys.private,
            ends: keys.ends,
            error_handler: keys.error_handler,
            timeout: keys.timeout,
            delay: keys.delay,
        })
    }
}

impl<'de> Deserialize<'de> for RetryOn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(word) if word == "default" => Ok(RetryOn::Default),
            kinds => located(kinds).map(RetryOn::Kinds).map_err(D::Error::custom),
        }
    }
}

impl<'de> Deserialize<'de> for Breakpoints {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(star) if star == "*" => Ok(Breakpoints::All),
            nodes => located(nodes)
                .map(Breakpoints::Nodes)
                .map_err(D::Error::custom),
        }
    }
}
