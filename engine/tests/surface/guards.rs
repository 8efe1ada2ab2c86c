//! What must not happen: a watcher that changes a run, news of what was not stored, stored nonsense that is believed,
//! a panic that takes the run down.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use superstep::channels::{Key, Name};
use superstep::checkpoint::conformance::{Call, Fault, Faults, Watch, Watched};
use superstep::checkpoint::{CheckpointId, Checkpointer, Commit, Header, Place, Source};
use superstep::prelude::*;
use superstep::{Problem, Target};
use tokio::sync::Barrier;

use super::{Log, asking, done, line, linked, log, message, named, node, nodes};

const LAST: Key<u32> = Key::last("last");

async fn writes_last(_: Log, cx: Context) -> NodeResult {
    Ok(line(cx.node().to_string()).put(LAST, 1))
}

#[tokio::test]
async fn watching_a_run_does_not_change_how_it_ends() {
    let graph = nodes(&[])
        .channel(LAST.spec())
        .node(node("a"), writes_last)
        .node(node("b"), writes_last)
        .node(node("c"), asking)
        .entry(node("a"))
        .entry(node("b"))
        .entry(node("c"))
        .build()
        .unwrap();
    let store = MemoryCheckpointer::new();
    let alone = graph.thread(&store, "alone").start(log(&[])).await.unwrap();
    let watched = graph.thread(&store, "watched").start(log(&[]));
    let mut watched = watched.stream(Modes::VALUES | Modes::UPDATES);
    while watched.next().await.is_some() {}
    let watched = watched.outcome().await.unwrap();
    assert_eq!((alone.asks().len(), watched.asks().len()), (1, 1));
}

#[tokio::test]
async fn a_command_at_an_input_that_is_due_applies_the_input_first() {
    let store = MemoryCheckpointer::new();
    let thread = linked(nodes(&["a", "b"]), &["a", "b"])
        .build()
        .unwrap()
        .thread(&store, "t");
    done(thread.start(log(&["in"])).await);
    let input = thread.at(CheckpointId(1));
    let end = done(input.command(line("edit"), []).await);
    assert_eq!(end, log(&["in", "edit", "a", "b"]));
    let end = done(input.command(Update::new().goto(node("b")), []).await);
    assert_eq!(end, log(&["in", "a", "b", "b"]));
    assert_eq!(thread.state().await.unwrap().read::<Log>().unwrap(), end);
    assert!(thread.history(100).await.unwrap().len() > 8);
    // What does not fit leaves no trace.
    let before = thread.history(100).await.unwrap().len();
    let wrong = Update::new().put_value("nothing", superstep::channels::Value::new(1u32));
    message(input.command(wrong, []).await);
    assert_eq!(thread.history(100).await.unwrap().len(), before);
}

/// Lets two runs read a thread before either goes on.
struct Meeting(Barrier);

#[async_trait]
impl Watch for Meeting {
    async fn after(&self, call: &Call) {
        if let Call::Load(_) = call {
            self.0.wait().await;
        }
    }
}

#[tokio::test]
async fn what_is_not_stored_is_not_told() {
    let graph = linked(nodes(&["a"]), &["a"]).build().unwrap();
    let refuses = Faults::new(|call: &Call, _| match call {
        Call::Commit(..) => Fault::Fail,
        _ => Fault::None,
    });
    let thread = graph.thread(&Watched::new(MemoryCheckpointer::new(), refuses), "t");
    let run = thread.start(log(&["in"]));
    let mut told = run.stream(Modes::VALUES | Modes::CHECKPOINTS | Modes::TASKS);
    assert!(told.next().await.is_none());
    assert!(message(told.outcome().await).contains("a call that was to fail failed"));
}

/// A store that holds one checkpoint with this header, which nobody of ours has written.
async fn forged(step: i64, next: &[&str]) -> MemoryCheckpointer {
    let header = Header {
        source: Source::Loop,
        step,
        graph: "graph".into(),
        version: 1,
        next: next.iter().map(|name| name.to_string()).collect(),
        ran: Vec::new(),
        parents: Vec::new(),
        run: None,
        metadata: Default::default(),
        copy_of: None,
        task: None,
    };
    let commit = Commit {
        id: CheckpointId(1),
        born: None,
        parent: None,
        time: 0,
        header: header.seal().unwrap(),
        items: Vec::new(),
        tasks: Vec::new(),
    };
    let store = MemoryCheckpointer::new();
    store.commit(&Place::root("t"), vec![commit]).await.unwrap();
    store
}

#[tokio::test]
async fn a_forged_header_is_an_error_that_says_what_is_wrong() {
    let graph = linked(nodes(&["a", "b"]), &["a", "b"]).build().unwrap();
    for (step, next, wrong) in [
        (i64::MAX, &["a"][..], "no superstep has the number"),
        (i64::MIN, &["a"], "no superstep has the number"),
        (1, &["a", "a"], "a second task of node `a`"),
        (1, &["gone"], "node `gone`"),
    ] {
        let thread = graph.thread(&forged(step, next).await, "t");
        let error = thread.proceed().await.unwrap_err();
        let source = std::error::Error::source(&error).map(ToString::to_string);
        let text = format!("{error}: {}", source.unwrap_or_default());
        assert!(text.contains(wrong), "{text}");
    }
}

#[tokio::test]
async fn a_panic_anywhere_in_a_node_is_that_tasks_failure() {
    fn at_once(_: Log, _: Context) -> std::future::Ready<NodeResult> {
        panic!("before the future")
    }
    let sibling = nodes(&["sibling"]).entry(node("sibling"));
    let graph = sibling
        .node(node("a"), at_once)
        .entry(node("a"))
        .build()
        .unwrap();
    let store = MemoryCheckpointer::new();
    let thread = graph.thread(&store, "t");
    let failed = message(thread.start(log(&[])).await);
    assert_eq!(failed, "node `a` failed: panicked: before the future");
    // The sibling's result is kept.
    assert_eq!(
        thread.state().await.unwrap().read::<Log>().unwrap(),
        log(&["sibling"])
    );

    let graph = nodes(&["a"])
        .entry(node("a"))
        .branch(node("a"), |_| -> Option<Target> { panic!("in the branch") })
        .build()
        .unwrap();
    let failed = message(graph.detached().start(log(&[])).await);
    assert_eq!(failed, "node `a` failed: panicked: in the branch");
}

#[tokio::test]
async fn a_panic_in_a_reducer_is_an_error_that_names_the_channel() {
    const SUM: Key<u32, u32> = Key::reduce("sum", |sum, part| {
        assert!(part < 10, "too much");
        *sum += part;
    });
    let adds = |_: Log, _: Context| async { Ok(Update::new().put(SUM, 10)) };
    let graph = nodes(&[])
        .channel(SUM.spec())
        .node(node("adds"), adds)
        .entry(node("adds"))
        .build()
        .unwrap();
    let thread = graph.thread(&MemoryCheckpointer::new(), "t");
    let error = thread.start(log(&[])).await.unwrap_err();
    let source = std::error::Error::source(&error).map(ToString::to_string);
    assert_eq!(error.to_string(), "the reducer of channel `sum` failed");
    assert_eq!(source.as_deref(), Some("panicked: too much"));
}

#[tokio::test]
async fn nodes_can_be_deferred_before_they_are_there_and_only_if_they_come() {
    let graph = nodes(&[])
        .defer(node("last"))
        .node(node("first"), named)
        .node(node("mid"), named)
        .node(node("last"), named)
        .entry(node("first"))
        .edge(node("first"), node("last"))
        .edge(node("first"), node("mid"))
        .build()
        .unwrap();
    let end = done(graph.detached().start(log(&[])).await);
    assert_eq!(end, log(&["first", "mid", "last"]));
    let slip = nodes(&["a"])
        .entry(node("a"))
        .defer(node("aa"))
        .build()
        .unwrap_err();
    assert_eq!(
        slip.problems,
        [Problem::UnknownDeferred(Name::Borrowed("aa"))]
    );
}

#[tokio::test]
async fn a_deferred_collector_waits_for_what_is_sent() {
    const WORK: Node<u32> = Node::new("work");
    let hand_out = |_: Log, _: Context| async {
        Ok((0..3).fold(line("out"), |update, part| update.send(WORK, part)))
    };
    let work = |part: u32, _: Context| async move { Ok(line(format!("part {part}"))) };
    let graph = nodes(&[])
        .node(node("out"), hand_out)
        .node(WORK, work)
        .node(node("collect"), named)
        .defer(node("collect"))
        .entry(node("out"))
        .edge(node("out"), node("collect"))
        .build()
        .unwrap();
    let end = done(graph.detached().start(log(&[])).await);
    assert_eq!(end, log(&["out", "part 0", "part 1", "part 2", "collect"]));
}

#[tokio::test]
async fn of_two_who_answer_at_once_one_is_refused_and_no_answer_is_lost() {
    let graph = nodes(&[])
        .node(node("a"), asking)
        .node(node("b"), asking)
        .entry(node("a"))
        .entry(node("b"))
        .build()
        .unwrap();
    let store = MemoryCheckpointer::new();
    let asks = graph.thread(&store, "t").start(log(&[])).await.unwrap();
    let asks = asks.asks().to_vec();
    let meeting = Watched::new(store.clone(), Meeting(Barrier::new(2)));
    let both = graph.thread(&meeting, "t");
    let (first, second) = tokio::join!(
        both.resume([asks[0].answer("one")]).into_future(),
        both.resume([asks[1].answer("two")]).into_future(),
    );
    let (winner, refused) = match (first, second) {
        (Ok(winner), Err(refused)) | (Err(refused), Ok(winner)) => (winner, refused),
        other => panic!("{other:?}"),
    };
    assert!(matches!(refused, RunError::ThreadConflict(_)), "{refused}");
    // The other question is the only one left, and it can be answered.
    let left = winner.asks().to_vec();
    assert_eq!(left.len(), 1);
    let thread = graph.thread(&store, "t");
    let end = done(thread.resume([left[0].answer("late")]).await);
    assert_eq!(
        end.lines
            .iter()
            .filter(|line| line.ends_with("late"))
            .count(),
        1
    );
    assert_eq!(end.lines.len(), 2);
}

#[tokio::test]
async fn an_answer_counts_for_the_question_that_was_answered() {
    use std::sync::atomic::{AtomicU32, Ordering};
    let price = Arc::new(AtomicU32::new(5));
    let now = Arc::clone(&price);
    let pay = move |_: Log, cx: Context| {
        let price = now.load(Ordering::SeqCst);
        async move {
            let yes: bool = cx.interrupt(&format!("pay {price}?")).await;
            Ok(line(format!("{yes} to {price}")))
        }
    };
    let graph = nodes(&[])
        .node(node("pay"), pay)
        .entry(node("pay"))
        .build()
        .unwrap();
    let thread = graph.thread(&MemoryCheckpointer::new(), "t");
    let asks = thread.start(log(&[])).await.unwrap().asks().to_vec();
    price.store(5_000_000, Ordering::SeqCst);
    let again = thread.resume([asks[0].answer(true)]).await.unwrap();
    assert_eq!(again.asks()[0].payload.0, "pay 5000000?");
    let end = done(thread.resume([again.asks()[0].answer(false)]).await);
    assert_eq!(end, log(&["false to 5000000"]));
}

#[tokio::test]
async fn continuations_of_one_checkpoint_do_not_mix() {
    let store = MemoryCheckpointer::new();
    let thread = linked(nodes(&["a", "b"]), &["a", "b"])
        .build()
        .unwrap()
        .thread(&store, "t");
    done(thread.start(log(&["in"])).await);
    let at = thread.at(CheckpointId(3));
    assert_eq!(
        done(at.command(line("+5"), []).await),
        log(&["in", "a", "+5", "b"])
    );
    assert_eq!(
        done(at.command(line("+7"), []).await),
        log(&["in", "a", "+7", "b"])
    );
}

#[tokio::test]
async fn new_input_drops_deferred_nodes_too() {
    let failing = |_: Log, _: Context| async { Err::<Update, _>("no".into()) };
    let graph = nodes(&["a", "c", "d"])
        .node(node("fails"), failing)
        .defer(node("d"))
        .entry_branch(|log: Log| match log.lines.len() {
            1 => node("a"),
            _ => node("c"),
        })
        .edge(node("a"), node("d"))
        .edge(node("a"), node("fails"))
        .build()
        .unwrap();
    let thread = graph.thread(&MemoryCheckpointer::new(), "t");
    message(thread.start(log(&["one"])).await);
    assert_eq!(
        done(thread.start(log(&["two"])).await),
        log(&["one", "a", "two", "c"])
    );
}

/// Two types of one size: what one wrote must not be read as the other.
#[tokio::test]
async fn a_waiting_result_is_not_read_as_another_type() {
    const WAS: Key<u64> = Key::last("cents");
    const IS: Key<i64> = Key::last("cents");
    let with = |spec: ChannelSpec| {
        let pays = |_: Log, _: Context| async { Ok(Update::new().put(WAS, 1000)) };
        nodes(&[])
            .channel(spec)
            .node(node("pays"), pays)
            .node(node("asks"), asking)
            .entry(node("pays"))
            .entry(node("asks"))
            .build()
            .unwrap()
    };
    let store = MemoryCheckpointer::new();
    let asks = with(WAS.spec())
        .thread(&store, "t")
        .start(log(&[]))
        .await
        .unwrap();
    let later = with(IS.spec()).thread(&store, "t");
    let error = later
        .resume([asks.asks()[0].answer("x")])
        .await
        .unwrap_err();
    let source = std::error::Error::source(&error)
        .map(ToString::to_string)
        .unwrap_or_default();
    assert_eq!(
        format!("{error}: {source}"),
        "a stored write to channel `cents` cannot be read: \
         i64: what is stored is a `u64`, and no conversion leads from there"
    );
    assert!(with(WAS.spec()).thread(&store, "t").state().await.is_ok());
}

/// A type that bincode writes but cannot read.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
struct Skips {
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    number: u32,
}

#[tokio::test]
async fn a_value_that_would_not_come_back_is_refused_when_it_is_stored() {
    const SKIPS: Key<Skips> = Key::last("skips");
    let writes = |_: Log, _: Context| async { Ok(line("written").put(SKIPS, Skips::default())) };
    let graph = nodes(&[])
        .channel(SKIPS.spec())
        .node(node("writes"), writes)
        .entry(node("writes"))
        .build()
        .unwrap();
    let thread = graph.thread(&MemoryCheckpointer::new(), "t");
    let refused = thread.start(log(&["in"])).await.unwrap_err();
    let source = std::error::Error::source(&refused)
        .map(ToString::to_string)
        .unwrap_or_default();
    assert_eq!(
        refused.to_string(),
        "a write to channel `skips` cannot be stored"
    );
    assert!(source.contains("skip_serializing_if"), "{source}");
    assert_eq!(
        thread.state().await.unwrap().read::<Log>().unwrap(),
        log(&["in"])
    );
}
