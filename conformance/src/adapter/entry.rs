//! Functional entries: one function as a graph, and the tasks that bodies call.

use std::sync::Arc;

use serde_json::Value;
use superstep::channels::{ChannelSpec, Json, Value as Erased};
use superstep::{Cached, Context, Graph as EngineGraph, Node, Routine, Update};

use super::body::Body;
use super::build::{Built, Refusal, nested};
use super::fault::Fault;
use super::policies::retries;
use super::rules::{ARGUMENT, PREVIOUS, RESULT, Rules, first_call};
use super::world::World;
use crate::spec::{Entry, Spec, Task};

/// Builds the graph of an entry: its one node reads the argument and what its last run saved.
pub(super) fn root(spec: &Entry, world: &World) -> Result<Built, Refusal> {
    let rules = Arc::new(Rules::of_entry(spec, world));
    let body = Arc::new(Body {
        label: format!("{0}:{0}", spec.name),
        ops: spec.ops.clone(),
        delay: None,
        rules: Arc::clone(&rules),
    });
    let node = Node::<Json>::named(spec.name.clone());
    let run = move |input: Json, cx: Context| {
        let body = Arc::clone(&body);
        async move {
            let (result, saved) = body.result(input, cx).await?;
            let update = Update::new().put_value(RESULT, Erased::new(Json(result)));
            Ok(update.put_value(PREVIOUS, Erased::new(Json(saved))))
        }
    };
    let builder = [ARGUMENT, RESULT, PREVIOUS].into_iter().fold(
        EngineGraph::<Json>::builder().named(spec.name.clone(), 1),
        |builder, name| builder.channel(ChannelSpec::last::<Json>(name)),
    );
    let mut builder = builder
        .output([RESULT])
        .node_reading(node.clone(), [ARGUMENT, PREVIOUS], run)
        .entry(node.clone());
    let called = first_call(&spec.ops);
    if let Some((name, Spec::Graph(called))) =
        called.and_then(|name| Some((name, world.library.get(name)?)))
    {
        builder = builder.calls(node, &nested(name, called, &rules)?.graph);
    }
    let graph = builder.build()?;
    Ok(Built {
        graph,
        rules,
        output: None,
        before: Vec::new(),
        after: Vec::new(),
    })
}

/// The engine's form of a task.
pub(super) fn routine(graph: &str, task: &Task, rules: &Arc<Rules>) -> Routine<Json, Json> {
    let body = Arc::new(Body {
        label: format!("{graph}:{}", task.name),
        ops: task.ops.clone(),
        delay: None,
        rules: Arc::clone(rules),
    });
    let run = move |argument: Json, cx: Context| {
        let body = Arc::clone(&body);
        async move { Ok(Json(body.of_task(argument.0, cx).await?)) }
    };
    let mut policy = retries(task.retry.as_deref());
    if task.cache {
        policy = policy.cached(Cached::new(&rules.world.cache));
    }
    Routine::new(task.name.clone(), run).policy(policy)
}

/// What a body gave that must give a result.
pub(super) fn result(given: crate::ops::Return) -> Result<(Value, Value), Fault> {
    match given {
        crate::ops::Return::Result { value, save } => Ok((value, save)),
        _ => Ok((Value::Null, Value::Null)),
    }
}
