//! A thread handle that stays open reads its thread once, and still notices what others do to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use insta::assert_snapshot;
use serde_json::json;
use superstep::Thread;
use superstep::channels::{ChannelSpec, Json, Key, Snapshots, append};
use superstep::checkpoint::conformance::{Call, Watch, Watched};
use superstep::checkpoint::{Checkpointer, Place};
use superstep::prelude::*;

const LOG: Key<Vec<String>> = Key::delta_with("log", append, Snapshots::Never);
const SAY: Node<Json> = Node::new("say");

/// Counts the reads of a whole thread.
#[derive(Clone, Default)]
struct Loads(Arc<AtomicUsize>);

#[async_trait]
impl Watch for Loads {
    async fn after(&self, call: &Call) {
        if let Call::Load(_) = call {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Loads {
    fn take(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

/// Logs how often it ran in this run, and asks when it is told to.
fn graph() -> Graph<Json> {
    let say = |Json(state): Json, cx: Context| async move {
        let times = state["times"].as_u64().unwrap_or(0) + 1;
        if state["text"] == "ask" {
            let answer: String = cx.interrupt("what?").await;
            return Ok(Update::new().put(LOG, vec![answer]));
        }
        let text = state["text"].as_str().unwrap_or("");
        let update = Update::new().put(LOG, vec![format!("{text}{times}")]);
        Ok(update.put_value("times", superstep::channels::Value::new(Json(times.into()))))
    };
    Graph::<Json>::builder()
        .channel(LOG.spec())
        .channel(ChannelSpec::last::<Json>("text"))
        .channel(ChannelSpec::untracked::<Json>("times"))
        .node(SAY, say)
        .entry(SAY)
        .build()
        .unwrap()
}

async fn say(thread: &Thread<Json>, text: &str) -> String {
    let input = Json(json!({ "text": text }));
    match thread.start(input).await.unwrap() {
        Outcome::Done(state) => state.0["log"].to_string(),
        other => format!("{:?}", other.asks()),
    }
}

fn watched() -> (Watched<MemoryCheckpointer>, MemoryCheckpointer, Loads) {
    let (inner, loads) = (MemoryCheckpointer::new(), Loads::default());
    (Watched::new(inner.clone(), loads.clone()), inner, loads)
}

#[tokio::test]
async fn a_handle_reads_its_thread_once() {
    let (saver, _, loads) = watched();
    let thread = graph().thread(&saver, "t");
    say(&thread, "a").await;
    say(&thread, "b").await;
    loads.take();
    for text in ["c", "d", "e"] {
        say(&thread, text).await;
    }
    // A clone shares what the handle knows.
    let end = say(&thread.clone(), "f").await;
    assert_snapshot!(end, @r#"["a1","b1","c1","d1","e1","f1"]"#);
    assert_eq!(loads.take(), 0);
    let other = graph().thread(&saver, "t");
    assert_snapshot!(say(&other, "g").await, @r#"["a1","b1","c1","d1","e1","f1","g1"]"#);
    assert_eq!(loads.take(), 1);
}

#[tokio::test]
async fn a_handle_notices_another_writer() {
    let (saver, inner, loads) = watched();
    let (one, two) = (graph().thread(&saver, "t"), graph().thread(&saver, "t"));
    for _ in 0..3 {
        say(&one, "a").await;
        say(&two, "b").await;
    }
    assert_snapshot!(say(&one, "a").await, @r#"["a1","b1","a1","b1","a1","b1","a1"]"#);
    loads.take();
    // An edit by hand, by the handle itself.
    let edit = superstep::StateUpdate::new(Update::new().put(LOG, vec!["edit".into()]));
    one.update(edit.as_node(SAY)).await.unwrap();
    assert_snapshot!(say(&one, "c").await, @r#"["a1","b1","a1","b1","a1","b1","a1","edit","c1"]"#);
    // The newest checkpoint removed.
    let newest = one.state().await.unwrap().checkpoint.unwrap();
    inner.remove(&Place::root("t"), vec![newest]).await.unwrap();
    assert_snapshot!(say(&one, "d").await, @r#"["a1","b1","a1","b1","a1","b1","a1","edit","d1"]"#);
}

#[tokio::test]
async fn a_handle_notices_that_its_thread_was_begun_anew() {
    let (saver, _, _) = watched();
    let (one, two) = (graph().thread(&saver, "t"), graph().thread(&saver, "t"));
    say(&one, "a").await;
    say(&one, "b").await;
    two.delete().await.unwrap();
    // As many checkpoints as before.
    say(&two, "c").await;
    say(&two, "d").await;
    assert_snapshot!(say(&one, "e").await, @r#"["c1","d1","e1"]"#);
    one.delete().await.unwrap();
    assert_snapshot!(say(&one, "f").await, @r#"["f1"]"#);
}

#[tokio::test]
async fn what_a_run_leaves_open_is_read_again() {
    let (saver, _, loads) = watched();
    let thread = graph().thread(&saver, "t");
    say(&thread, "a").await;
    say(&thread, "b").await;
    let paused = thread.start(Json(json!({ "text": "ask" }))).await.unwrap();
    loads.take();
    let end = thread.resume([paused.asks()[0].answer("yes")]).await;
    assert_snapshot!(end.unwrap().done().unwrap().0["log"], @r#"["a1","b1","yes"]"#);
    assert_eq!(loads.take(), 1);
    // From an older checkpoint.
    let old = thread.history(9).await.unwrap()[3].checkpoint.unwrap();
    loads.take();
    say(&thread.at(old), "fork").await;
    assert_eq!(loads.take(), 1);
    assert_snapshot!(say(&thread, "on").await, @r#"["a1","b1","fork1","on1"]"#);
    assert_eq!(loads.take(), 0);
}

#[tokio::test]
async fn what_was_noted_with_a_run_stays_with_its_checkpoints() {
    let mut shown = Vec::new();
    for keeps in [true, false] {
        let saver = MemoryCheckpointer::new();
        let kept = graph().thread(&saver, "t");
        for (run, note) in [("r1", 1), ("r2", 2), ("r3", 3)] {
            let thread = if keeps {
                kept.clone()
            } else {
                graph().thread(&saver, "t")
            };
            let input = Json(json!({ "text": run }));
            let run = thread.start(input).id(run).metadata("note", note);
            run.await.unwrap();
        }
        let again = if keeps {
            kept
        } else {
            graph().thread(&saver, "t")
        };
        again.start(Json(json!({ "text": "last" }))).await.unwrap();
        let history = graph().thread(&saver, "t").history(99).await.unwrap();
        shown.push(
            history
                .iter()
                .map(|at| at.json().to_string())
                .collect::<Vec<_>>(),
        );
    }
    assert_eq!(shown[0], shown[1]);
}
