//! Graphs inside graphs.

use superstep::checkpoint::{Checkpointer, Place};
use superstep::prelude::*;

use super::{Count, Log, asking, done, line, linked, log, message, named, node, paused};

/// Three nodes: one that is counted, one that asks, one that writes its name.
fn inner(count: &Count) -> Graph<Log> {
    let count = count.clone();
    let counted = move |log: Log, cx: Context| {
        count.one_more();
        named(log, cx)
    };
    let builder = Graph::<Log>::builder()
        .named("inner", 1)
        .node(node("x"), counted)
        .node(node("y"), asking)
        .node(node("z"), named);
    linked(builder, &["x", "y", "z"]).build().unwrap()
}

/// The inner graph as a node, with a node before it and one behind it.
fn as_node(count: &Count) -> Graph<Log> {
    let builder = Graph::<Log>::builder()
        .node(node("before"), named)
        .subgraph(node("sub"), &inner(count))
        .node(node("behind"), named);
    linked(builder, &["before", "sub", "behind"])
        .build()
        .unwrap()
}

/// The same with a node that runs the inner graph itself, and counts how often it begins.
fn inside_a_node(count: &Count, begun: &Count) -> Graph<Log> {
    let (inner, begun) = (inner(count), begun.clone());
    let calls = move |state: Log, cx: Context| {
        begun.one_more();
        let inner = inner.clone();
        async move {
            let seen = state.lines.len();
            let end = cx.run(&inner, log(&["go"])).await?;
            Ok(line(format!("saw {seen}, got {}", end.lines.join("+"))))
        }
    };
    let builder = Graph::<Log>::builder()
        .node(node("before"), named)
        .node(node("sub"), calls)
        .node(node("behind"), named);
    linked(builder, &["before", "sub", "behind"])
        .build()
        .unwrap()
}

/// The checkpoints of the nested graph that asks.
async fn nested_checkpoints(store: &MemoryCheckpointer, ask: &Ask) -> usize {
    let place = Place {
        namespace: ask.namespace.as_str().into(),
        ..Place::root("t")
    };
    store.list(&place, None, 100).await.unwrap().len()
}

#[tokio::test]
async fn a_graph_as_a_node_pauses_and_goes_on_in_the_middle() {
    let count = Count::default();
    let store = MemoryCheckpointer::new();
    let thread = as_node(&count).thread(&store, "t");
    let asks = paused(thread.start(Log::default()).await);
    let task = thread.state().await.unwrap().tasks[0].id;
    assert_eq!(
        (&*asks[0].node, &asks[0].namespace),
        ("y", &format!("sub:{task}"))
    );
    // The input due, the input applied, x.
    assert_eq!(nested_checkpoints(&store, &asks[0]).await, 3);
    assert_eq!(
        thread.state().await.unwrap().asks().collect::<Vec<_>>(),
        [&asks[0]]
    );

    // Taken up without an answer it asks the same again, and the node that finished does not run again.
    assert_eq!(
        paused(as_node(&count).thread(&store, "t").proceed().await),
        asks
    );
    let end = done(
        as_node(&count)
            .thread(&store, "t")
            .resume([asks[0].answer("ok")])
            .await,
    );
    // Both graphs fold `lines`: the nested one begins with what was there, and all it has is appended.
    assert_eq!(end, log(&["before", "before", "x", "y: ok", "z", "behind"]));
    assert_eq!(count.get(), 1);
    assert_eq!(nested_checkpoints(&store, &asks[0]).await, 5);
}

#[tokio::test]
async fn a_graph_inside_a_node_pauses_that_node() {
    let (count, begun) = (Count::default(), Count::default());
    let store = MemoryCheckpointer::new();
    let thread = inside_a_node(&count, &begun).thread(&store, "t");
    let asks = paused(thread.start(Log::default()).await);
    assert_eq!(asks[0].payload.0, "y?");
    assert_eq!(nested_checkpoints(&store, &asks[0]).await, 3);
    let thread = inside_a_node(&count, &begun).thread(&store, "t");
    let end = done(thread.resume([asks[0].answer("ok")]).await);
    assert_eq!(end, log(&["before", "saw 1, got go+x+y: ok+z", "behind"]));
    // The node itself starts from the top, what had finished inside it does not.
    assert_eq!((begun.get(), count.get()), (2, 1));
}

#[tokio::test]
async fn two_runs_inside_a_node_keep_apart() {
    let count = Count::default();
    let inner = inner(&count);
    let graph = super::alone(move |_: Log, cx: Context| {
        let inner = inner.clone();
        async move {
            let first = cx.run(&inner, log(&["1"])).await?;
            let second = cx.run(&inner, log(&["2"])).await?;
            Ok(line(format!(
                "{} / {}",
                first.lines.join("+"),
                second.lines.join("+")
            )))
        }
    });
    let store = MemoryCheckpointer::new();
    let thread = graph.thread(&store, "t");
    let first = paused(thread.start(Log::default()).await);
    let second = paused(thread.resume([first[0].answer("one")]).await);
    assert_eq!(second[0].namespace, format!("{}|1", first[0].namespace));
    let end = done(thread.resume([second[0].answer("two")]).await);
    assert_eq!(end, log(&["1+x+y: one+z / 2+x+y: two+z"]));
    assert_eq!(count.get(), 2);
}

#[tokio::test]
async fn a_failure_inside_names_both_nodes() {
    let inner = super::alone(|_: Log, _: Context| async { Err("no luck".into()) });
    let graph = Graph::<Log>::builder()
        .subgraph(node("sub"), &inner)
        .entry(node("sub"));
    let graph = graph.build().unwrap();
    let error = message(graph.detached().start(Log::default()).await);
    insta::assert_snapshot!(error, @"node `sub` failed: node `only` failed: no luck");
}

#[tokio::test]
async fn a_wrong_answer_inside_leaves_the_question_open() {
    let count = Count::default();
    let store = MemoryCheckpointer::new();
    let thread = as_node(&count).thread(&store, "t");
    let asks = paused(thread.start(Log::default()).await);
    let wrong = message(thread.resume([asks[0].answer(7)]).await);
    let wrong = wrong.replace(&asks[0].id.to_string(), "ID");
    insta::assert_snapshot!(wrong, @"node `sub` failed: the answer to question ID is not what the node takes: invalid type: integer `7`, expected a string (node `y`)");
    assert_eq!(
        thread.state().await.unwrap().asks().collect::<Vec<_>>(),
        [&asks[0]]
    );
    done(thread.resume([asks[0].answer("ok")]).await);
    assert_eq!(count.get(), 1);
}

#[tokio::test]
async fn three_levels_answer_through() {
    let count = Count::default();
    let middle = as_node(&count);
    let outer = Graph::<Log>::builder()
        .subgraph(node("outer"), &middle)
        .entry(node("outer"));
    let store = MemoryCheckpointer::new();
    let thread = outer.build().unwrap().thread(&store, "t");
    let asks = paused(thread.start(Log::default()).await);
    assert_eq!(asks[0].namespace.split('|').count(), 2);
    let end = done(thread.resume([Answer::only("ok")]).await);
    assert_eq!(end.lines.iter().filter(|line| *line == "y: ok").count(), 1);
    assert_eq!(count.get(), 1);
}
