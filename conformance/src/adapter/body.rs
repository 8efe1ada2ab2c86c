//! Nodes and branches: the case's operations run by the engine.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use superstep::channels::Json;
use superstep::{Context, NodeResult, RunError, Target};

use super::build::{self, Refusal};
use super::entry;
use super::fault::Fault;
use super::rules::{ARGUMENT, PREVIOUS, Rules};
use crate::expr::{Env, Val};
use crate::ops::{self, Failure, Host, flatten};
use crate::spec::{Branch, Delay, Op, Spec};

/// The body of a node.
pub(super) struct Body {
    /// What it is called in the counts of started bodies.
    pub(super) label: String,
    pub(super) ops: Vec<Op>,
    /// How long it waits before its first operation.
    pub(super) delay: Option<Delay>,
    pub(super) rules: Arc<Rules>,
}

impl Body {
    pub(super) async fn run(self: Arc<Self>, input: Json, cx: Context) -> NodeResult {
        self.handle(input, Value::Null, cx).await
    }

    /// Runs the body of an error handler, which sees the failure.
    pub(super) async fn handle(
        self: Arc<Self>,
        input: Json,
        error: Value,
        cx: Context,
    ) -> NodeResult {
        let world = &self.rules.world;
        let started = world.started(&self.label);
        if let Some(delay) = &self.delay {
            wait(delay, started, &cx).await;
        }
        let mut seen = self.rules.seen(input.0);
        if let Value::Object(members) = &mut seen {
            members.extend(self.rules.managed(cx.node(), &cx));
        }
        let mut env = Env::new(seen, world.counters.clone());
        env.error = error;
        let returned = self.perform(env, cx).await;
        Ok(self.rules.returned(returned?)?)
    }

    /// Runs the body of an entry: gives its result, and what it saves.
    pub(super) async fn result(&self, state: Json, cx: Context) -> Result<(Value, Value), Fault> {
        self.rules.world.started(&self.label);
        let member = |name| state.0.get(name).cloned().unwrap_or_default();
        let mut env = Env::new(member(ARGUMENT), self.rules.world.counters.clone());
        env.vars.insert("arg".to_owned(), member(ARGUMENT));
        env.previous = member(PREVIOUS);
        entry::result(self.perform(env, cx).await?)
    }

    /// Runs the body of a task.
    pub(super) async fn of_task(&self, argument: Value, cx: Context) -> Result<Value, Fault> {
        self.rules.world.started(&self.label);
        let mut env = Env::new(argument.clone(), self.rules.world.counters.clone());
        env.vars.insert("arg".to_owned(), argument);
        Ok(entry::result(self.perform(env, cx).await?)?.0)
    }

    async fn perform(&self, mut env: Env, cx: Context) -> Result<ops::Return, Fault> {
        env.attempt = cx.attempt().into();
        let mut host = Running {
            cx,
            rules: &self.rules,
        };
        let returned = ops::perform(&self.ops, env, &mut host).await;
        returned.map_err(Fault::from)
    }
}

/// Waits in equal parts, with a heartbeat after each, in the runs that it is for.
async fn wait(delay: &Delay, run: u64, cx: &Context) {
    if delay.times.is_some_and(|times| run > times) {
        return;
    }
    let parts = delay.beats + 1;
    for _ in 0..parts {
        tokio::time::sleep(Duration::from_millis(delay.ms / parts)).await;
        if delay.beats > 0 {
            cx.heartbeat();
        }
    }
}

/// A body that runs.
struct Running<'a> {
    cx: Context,
    rules: &'a Arc<Rules>,
}

impl Host for Running<'_> {
    async fn ask(&mut self, question: Value) -> Value {
        self.cx.interrupt(&question).await
    }

    fn custom(&mut self, value: Value) {
        self.cx.emit(&value);
    }

    async fn call(&mut self, graph: &str, input: Value) -> Result<Value, Failure> {
        let world = &self.rules.world;
        let Some(Spec::Graph(spec)) = world.library.get(graph) else {
            world.lacks("entries that are called");
            return Ok(Value::Null);
        };
        let built = match build::nested(graph, spec, self.rules) {
            Ok(built) => built,
            Err(Refusal::Lacking(lacking)) => {
                world.lacks(lacking.0);
                return Ok(Value::Null);
            }
            Err(Refusal::Invalid) => {
                return Err(called("InvalidGraph", "a graph that cannot be built"));
            }
        };
        let writes = ops::writes(Val::Json(input))?;
        let ended = self.cx.run(&built.graph, built.rules.input(writes)).await;
        let state = ended.map_err(|error| called(&kind(&error), error))?;
        Ok(built.rules.seen(state.0))
    }

    async fn tasks(&mut self, calls: Vec<(String, Value)>) -> Vec<Result<Value, Failure>> {
        let running = calls.into_iter().map(|(name, argument)| {
            let routine = self.rules.routine(&name);
            routine.map(|routine| self.cx.call(&routine, Json(argument)))
        });
        let running: Vec<_> = running.collect();
        let given = running.into_iter().map(|call| async move {
            match call {
                Some(call) => call
                    .await
                    .map(|Json(value)| value)
                    .map_err(|error| called_kind(&error)),
                None => Err(called("KeyError", "a task that is not there")),
            }
        });
        futures::future::join_all(given).await
    }

    async fn sleep(&mut self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    fn drain(&mut self) {
        self.cx.drain();
    }
}

fn called(kind: &str, source: impl Into<super::BoxError>) -> Failure {
    Failure::Called {
        kind: kind.to_owned(),
        source: source.into(),
    }
}

fn called_kind(error: &superstep::TaskError) -> Failure {
    called(
        &super::fault::bare_name(&error.to_string()),
        error.to_string(),
    )
}

/// What the failure of a called graph is called.
fn kind(error: &RunError) -> String {
    super::fault::bare_name(&error.to_string())
}

/// Where a conditional edge leads on this state.
pub(super) fn decide(branch: &Branch, rules: &Rules, state: Json) -> Result<Vec<Target>, Fault> {
    let env = Env::new(rules.seen(state.0), rules.world.counters.clone());
    let value = branch.path.eval(&env)?;
    if value == Val::Json(Value::Null) {
        return Err(Fault::Named("ValueError".to_owned()));
    }
    let mut targets = Vec::new();
    flatten(value, &mut targets)?;
    if let Some(map) = &branch.map {
        for target in &mut targets {
            if let ops::Target::Node(name) = target {
                let mapped = map.get(name).cloned();
                *name = mapped.ok_or_else(|| Fault::Named("KeyError".to_owned()))?;
            }
        }
    }
    rules.targets(targets)
}
