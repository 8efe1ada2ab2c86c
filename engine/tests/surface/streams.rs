//! What a run tells while it runs.

use futures::StreamExt;
use superstep::prelude::*;
use superstep::{Part, RunStream, TaskInput};

use super::{Count, Log, asking, chain, done, line, linked, log, named, node, nodes};

fn told(part: &Part) -> String {
    let writes = |writes: &[(superstep::channels::Name, superstep::channels::Write)]| {
        let each = writes
            .iter()
            .map(|(name, write)| format!("{name}={:?}", write.value()));
        each.collect::<Vec<_>>().join(" ")
    };
    let text = match &part.event {
        Event::Values(fields) => format!("values {}", fields.json().unwrap()),
        Event::Update {
            node, writes: own, ..
        } => format!("update {node} {}", writes(own)),
        Event::Custom { node, value } => format!("custom {node} {value}"),
        Event::TaskStarted {
            node,
            input,
            triggers,
            step,
            ..
        } => {
            let input = match input {
                TaskInput::State(fields) => fields.json().unwrap().to_string(),
                TaskInput::Payload(value) => format!("{value:?}"),
            };
            format!("started {node} in step {step} by {triggers:?} on {input}")
        }
        Event::TaskEnded {
            node,
            writes: own,
            error,
            asks,
            ..
        } => {
            format!("ended {node} {} {error:?} asks {}", writes(own), asks.len())
        }
        Event::Checkpoint(snapshot) => {
            let due: Vec<_> = snapshot.tasks.iter().map(|task| &*task.node).collect();
            format!("checkpoint {} due {due:?}", snapshot.step)
        }
        Event::Paused(asks) => format!("paused {}", asks.len()),
        other => format!("{other:?}"),
    };
    match part.namespace.split(':').next() {
        Some("") | None => text,
        Some(sub) => format!("  [{sub}] {text}"),
    }
}

async fn log_of(mut stream: RunStream<Log>) -> (String, Result<Outcome<Log>, RunError>) {
    let mut lines = Vec::new();
    while let Some(part) = stream.next().await {
        lines.push(told(&part));
    }
    (lines.join("\n"), stream.outcome().await)
}

const TALK: Node<String> = Node::new("talk");

/// fan sends two payloads; talk emits; ask asks.
fn graph() -> Graph<Log> {
    let fan = |_: Log, _: Context| async {
        Ok(line("fan")
            .send(TALK, "one".into())
            .send(TALK, "two".into()))
    };
    let talk = |text: String, cx: Context| async move {
        cx.emit(&format!("saying {text}"));
        Ok(line(text))
    };
    let builder = Graph::<Log>::builder()
        .node(node("fan"), fan)
        .node(TALK, talk)
        .node(node("ask"), asking)
        .entry(node("fan"))
        .edge(TALK, node("ask"));
    builder.build().unwrap()
}

#[tokio::test]
async fn values_updates_and_custom_events_in_order() {
    let store = MemoryCheckpointer::new();
    let thread = graph().thread(&store, "t");
    let modes = Modes::VALUES | Modes::UPDATES | Modes::CUSTOM;
    let (first, outcome) = log_of(thread.start(log(&["in"])).stream(modes)).await;
    insta::assert_snapshot!(first, @r#"
    values {"lines":["in"]}
    update fan lines=["fan"]
    values {"lines":["in","fan"]}
    custom talk "saying one"
    update talk lines=["one"]
    custom talk "saying two"
    update talk lines=["two"]
    values {"lines":["in","fan","one","two"]}
    paused 1
    "#);
    let ask = &super::paused(outcome)[0];
    let (second, outcome) = log_of(thread.resume([ask.answer("ok")]).stream(modes)).await;
    insta::assert_snapshot!(second, @r#"
    values {"lines":["in","fan","one","two"]}
    update ask lines=["ask: ok"]
    values {"lines":["in","fan","one","two","ask: ok"]}
    "#);
    assert_eq!(done(outcome), log(&["in", "fan", "one", "two", "ask: ok"]));
}

#[tokio::test]
async fn tasks_and_checkpoints_in_order() {
    let store = MemoryCheckpointer::new();
    let thread = graph().thread(&store, "t");
    let modes = Modes::DEBUG;
    let (events, _) = log_of(thread.start(log(&["in"])).stream(modes)).await;
    insta::assert_snapshot!(events, @r#"
    checkpoint -1 due ["__start__"]
    checkpoint 0 due ["fan"]
    started fan in step 1 by ["branch:to:fan"] on {"lines":["in"]}
    ended fan lines=["fan"] None asks 0
    checkpoint 1 due ["talk", "talk"]
    started talk in step 2 by ["send"] on "one"
    started talk in step 2 by ["send"] on "two"
    ended talk lines=["one"] None asks 0
    ended talk lines=["two"] None asks 0
    checkpoint 2 due ["ask"]
    started ask in step 3 by ["branch:to:ask"] on {"lines":["in","fan","one","two"]}
    ended ask  None asks 1
    "#);
}

#[tokio::test]
async fn nested_graphs_are_told_of_where_asked_for() {
    let inner = chain(&["x", "y"]).build().unwrap();
    let builder = Graph::<Log>::builder()
        .subgraph(node("sub"), &inner)
        .node(node("end"), named);
    let graph = linked(builder, &["sub", "end"]).build().unwrap();
    let (events, _) = log_of(
        graph
            .detached()
            .start(log(&[]))
            .stream_nested(Modes::UPDATES),
    )
    .await;
    insta::assert_snapshot!(events, @r#"
      [sub] update x lines=["x"]
      [sub] update y lines=["y"]
    update sub lines=["x","y"]
    update end lines=["end"]
    "#);
    let (events, _) = log_of(graph.detached().start(log(&[])).stream(Modes::UPDATES)).await;
    insta::assert_snapshot!(events, @r#"
    update sub lines=["x","y"]
    update end lines=["end"]
    "#);
}

#[tokio::test]
async fn a_stream_that_is_dropped_leaves_a_thread_that_can_go_on() {
    let count = Count::default();
    let counted = count.clone();
    let builder = nodes(&["a", "c"]).node(node("b"), move |_: Log, _: Context| {
        let first = counted.one_more() == 1;
        async move {
            if first {
                std::future::pending::<()>().await;
            }
            Ok(line("b"))
        }
    });
    let graph = linked(builder, &["a", "b", "c"]).build().unwrap();
    let store = MemoryCheckpointer::new();
    let thread = graph.thread(&store, "t");
    let mut stream = thread.start(Log::default()).stream(Modes::UPDATES);
    let first = stream.next().await.unwrap();
    assert_eq!(told(&first), r#"update a lines=["a"]"#);
    // Now b runs, and waits for ever.
    assert!(futures::poll!(stream.next()).is_pending());
    drop(stream);
    assert_eq!(done(thread.proceed().await), log(&["a", "b", "c"]));
    assert_eq!(count.get(), 2);
}

#[tokio::test]
async fn an_outcome_can_be_had_without_the_events() {
    let thread = chain(&["a", "b"]).build().unwrap().detached();
    let stream = thread.start(Log::default()).stream(Modes::VALUES);
    assert_eq!(done(stream.outcome().await), log(&["a", "b"]));
}

#[tokio::test]
async fn a_reader_that_stops_stops_the_run() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let tick = move |_: Log, _: Context| {
        counted.fetch_add(1, Ordering::SeqCst);
        std::future::ready(Ok(line("tick")))
    };
    let graph = Graph::<Log>::builder()
        .node(node("tick"), tick)
        .entry(node("tick"))
        .branch(node("tick"), |log: Log| {
            (log.lines.len() < 1_000).then_some(node("tick"))
        })
        .build()
        .unwrap();
    let mut stream = graph.detached().start(log(&[])).stream(Modes::UPDATES);
    for read in 1..=3 {
        assert!(stream.next().await.is_some());
        assert_eq!(count.load(Ordering::SeqCst), read);
    }
    // Who wants the end only gets it at once.
    let end = done(stream.outcome().await);
    assert_eq!(end.lines.len(), 1_000);
}
