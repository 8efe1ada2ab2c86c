//! Retries, time limits, kept results and error handlers of a case's nodes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use superstep::channels::Json;
use superstep::{
    Cached, Context, GraphBuilder, Node as EngineNode, NodeFailure, Policy, Retry, TaskError,
};

use super::body::Body;
use super::fault::{Fault, bare_name};
use super::rules::Rules;
use super::world::World;
use crate::spec::{self, Defaults, ErrorKind, Op, Refresh, RetryOn};

/// Adds what happens around a node.
pub(super) fn add(
    builder: GraphBuilder<Json>,
    graph: &str,
    node: &spec::Node,
    rules: &Arc<Rules>,
) -> GraphBuilder<Json> {
    let name = EngineNode::<Json>::named(node.name.clone());
    let builder = builder.policy(name.clone(), policy(node, &rules.world));
    match &node.error_handler {
        None => builder,
        Some(ops) => builder.on_error(name, handler(graph, &node.name, ops, rules)),
    }
}

/// Adds what happens around all nodes.
pub(super) fn add_defaults(
    mut builder: GraphBuilder<Json>,
    graph: &str,
    defaults: &Defaults,
    rules: &Arc<Rules>,
) -> GraphBuilder<Json> {
    if let Some(retry) = &defaults.retry {
        builder = builder.defaults(Policy::new().retry(engine_retry(retry)));
    }
    match &defaults.error_handler {
        None => builder,
        Some(ops) => builder.default_on_error(handler(graph, "__default__", ops, rules)),
    }
}

fn policy(node: &spec::Node, world: &World) -> Policy {
    let mut policy = retries(node.retry.as_deref());
    if node.cache {
        policy = policy.cached(Cached::new(&world.cache));
    }
    let Some(timeout) = &node.timeout else {
        return policy;
    };
    if let Some(ms) = timeout.run_ms {
        policy = policy.run_timeout(Duration::from_millis(ms));
    }
    match (timeout.idle_ms.map(Duration::from_millis), &timeout.refresh) {
        (None, _) => policy,
        (Some(limit), Refresh::Auto) => policy.idle_timeout(limit),
        (Some(limit), Refresh::Heartbeat) => policy.heartbeat_timeout(limit),
    }
}

pub(super) fn retries(retries: Option<&[spec::Retry]>) -> Policy {
    let retries = retries.unwrap_or_default().iter();
    retries.fold(Policy::new(), |policy, retry| {
        policy.retry(engine_retry(retry))
    })
}

/// Nothing waits between attempts.
fn engine_retry(retry: &spec::Retry) -> Retry {
    let kinds = match &retry.retry_on {
        RetryOn::Default => None,
        RetryOn::Kinds(kinds) => Some(kinds.clone()),
    };
    Retry::times(retry.max_attempts)
        .backoff(Duration::ZERO, 1.0, Duration::ZERO)
        .on(move |error| match &kinds {
            None => is_passing(error),
            Some(kinds) => kinds.iter().any(|kind| is(error, *kind)),
        })
}

/// What the reference takes for a failure that may pass: errors of its own kind, and what took too long.
fn is_passing(error: &TaskError) -> bool {
    match error {
        TaskError::TimedOut { .. } => true,
        _ => is(error, ErrorKind::Boom) || is(error, ErrorKind::Net),
    }
}

fn is(error: &TaskError, kind: ErrorKind) -> bool {
    let name = format!("{kind:?}");
    match error {
        // A failure inside a nested graph is that of the node around it.
        TaskError::Node(error) => match error.get_ref().downcast_ref::<Fault>() {
            Some(fault) => fault.to_string() == name,
            None => bare_name(&error.to_string()) == name,
        },
        _ => false,
    }
}

fn handler(
    graph: &str,
    node: &str,
    ops: &[Op],
    rules: &Arc<Rules>,
) -> impl Fn(Json, NodeFailure, Context) -> futures::future::BoxFuture<'static, superstep::NodeResult>
+ Send
+ Sync
+ 'static {
    let body = Arc::new(Body {
        label: format!("{graph}:{node}!handler"),
        ops: ops.to_vec(),
        delay: None,
        rules: Arc::clone(rules),
    });
    move |input, failure, cx| {
        let error = json!({ "node": failure.node, "kind": bare_name(&failure.error) });
        Box::pin(Arc::clone(&body).handle(input, error, cx))
    }
}
