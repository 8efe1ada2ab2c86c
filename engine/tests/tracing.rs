//! The spans of a run.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use insta::assert_snapshot;
use superstep::channels::Json;
use superstep::prelude::*;
use tracing_subscriber::layer::{Context as LayerContext, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

const CALL: Node<Json> = Node::new("call");
const A: Node<Json> = Node::new("a");
const B: Node<Json> = Node::new("b");

/// Notes each span that begins inside a run of this test's graph, with what stands in it, under those around it. It listens to the
/// whole process, since where one thread listens and others do not, those others switch spans off for all.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<String>>);

/// Marks the spans that are noted.
struct Noted;

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(
        &self,
        attributes: &tracing::span::Attributes<'_>,
        id: &tracing::span::Id,
        cx: LayerContext<'_, S>,
    ) {
        let depth = cx.span_scope(id).map_or(0, |scope| scope.count() - 1);
        let mut line = format!("{}{}", "  ".repeat(depth), attributes.metadata().name());
        attributes.record(
            &mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
                if field.name() != "id" {
                    let _ = write!(line, " {}={value:?}", field.name());
                }
            },
        );
        let Some(span) = cx.span(id) else { return };
        let noted = match span.parent() {
            Some(parent) => parent.extensions().get::<Noted>().is_some(),
            None => line.starts_with("run graph=traced "),
        };
        if noted {
            span.extensions_mut().insert(Noted);
            writeln!(self.0.lock().unwrap(), "{line}").unwrap();
        }
    }
}

#[tokio::test]
async fn spans_stand_inside_those_around_them() {
    let waits = |_: Json, _: Context| async {
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        Ok(Update::new())
    };
    let inner = Graph::<Json>::builder()
        .named("inner", 1)
        .node(A, waits)
        .node(B, waits)
        .entry(A)
        .entry(B)
        .build()
        .unwrap();
    let graph = Graph::<Json>::builder()
        .named("traced", 1)
        .subgraph(CALL, &inner)
        .entry(CALL)
        .build()
        .unwrap();
    let spans = Spans::default();
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(spans.clone()))
        .unwrap();
    graph
        .thread(&MemoryCheckpointer::new(), "t")
        .start(Update::new())
        .await
        .unwrap();
    let told = spans.0.lock().unwrap().clone();
    // The namespace has a task in it, whose id is long.
    let told: Vec<&str> = told
        .lines()
        .map(|line| line.split(":").next().unwrap())
        .collect();
    assert_snapshot!(told.join("\n"), @"
    run graph=traced thread=t namespace=
      save checkpoint=2
      superstep step=1 checkpoint=2
        task node=call
          run graph=inner thread=t namespace=call
            save checkpoint=2
            superstep step=1 checkpoint=2
              task node=a
              task node=b
              save checkpoint=3
        save checkpoint=3
    ");
}
