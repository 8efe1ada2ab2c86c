//! Threads that an earlier version of a graph stored.

use insta::assert_snapshot;
use serde::{Deserialize, Serialize};
use superstep::channels::{ChannelSpec, Key};
use superstep::checkpoint::SqliteCheckpointer;
use superstep::prelude::*;
use superstep::{Migration, RunError};

use crate::process::block_on;

/// What the first release had.
mod first {
    use super::*;

    #[derive(Clone, Debug, Serialize, Deserialize)]
    pub(super) struct Line {
        pub(super) text: String,
    }

    pub(super) const LINES: Key<Vec<String>, Line> =
        Key::delta("lines", |all, line: Line| all.push(line.text));
    pub(super) const COUNT: Key<u32> = Key::last("count");
    pub(super) const COMMENT: Key<String> = Key::last("comment");
    pub(super) const DRAFT: Node<()> = Node::new("draft");
    pub(super) const PRINT: Node<u32> = Node::new("print");
    pub(super) const CHECK: Node<()> = Node::new("check");

    async fn draft(_: (), _: Context) -> NodeResult {
        let line = Line {
            text: "drafted".into(),
        };
        Ok(Update::new()
            .put(LINES, line)
            .put(COUNT, 1)
            .send(PRINT, 40)
            .send(PRINT, 41))
    }

    async fn print(number: u32, cx: Context) -> NodeResult {
        let more: u32 = cx.interrupt(&number).await;
        let text = format!("{number} and {more}");
        Ok(Update::new().put(LINES, Line { text }))
    }

    async fn check(_: (), _: Context) -> NodeResult {
        Ok(Update::new().put(COMMENT, "checked".to_owned()))
    }

    pub(super) fn graph() -> Graph<()> {
        Graph::<()>::builder()
            .named("letter", 1)
            .channel(LINES.spec())
            .channel(COUNT.spec())
            .channel(COMMENT.spec())
            .node(DRAFT, draft)
            .node(PRINT, print)
            .node(CHECK, check)
            .entry(DRAFT)
            .entry(CHECK)
            .join([DRAFT, CHECK], Node::<()>::new("late"))
            .node(Node::<()>::new("late"), |_: (), _: Context| async {
                Ok(Update::new())
            })
            .build()
            .unwrap()
    }
}

/// What the second release has: everything has another name, type or both.
mod second {
    use super::*;

    #[derive(Clone, Debug, Serialize, Deserialize)]
    pub(super) struct Paragraph {
        pub(super) text: String,
        pub(super) level: u8,
    }

    pub(super) const BODY: Key<Vec<String>, Paragraph> =
        Key::delta("body", |all, next: Paragraph| {
            all.push(format!("{} {}", next.level, next.text));
        });
    pub(super) const COUNT: Key<u64> = Key::last("count");
    pub(super) const TYPESET: Node<u64> = Node::new("typeset");
    pub(super) const OUTLINE: Node<()> = Node::new("outline");

    async fn typeset(number: u64, cx: Context) -> NodeResult {
        let more: u32 = cx.interrupt(&number).await;
        let text = format!("{number} or {more}");
        Ok(Update::new().put(BODY, Paragraph { text, level: 2 }))
    }

    async fn nothing(_: (), _: Context) -> NodeResult {
        Ok(Update::new())
    }

    pub(super) fn paragraph(old: first::Line) -> Paragraph {
        Paragraph {
            text: old.text,
            level: 1,
        }
    }

    pub(super) fn migration() -> Migration {
        Migration::new()
            .graph("letter")
            .channel("lines", "text")
            .channel("text", "body")
            .value("body", paragraph)
            .value("count", |old: u32| u64::from(old))
            .without_channel("comment")
            .node("draft", OUTLINE)
            .node("print", TYPESET)
            .payload(TYPESET, |old: u32| u64::from(old))
            .without_node("check")
            .without_node("late")
    }

    pub(super) fn graph(migration: Migration) -> Graph<()> {
        Graph::<()>::builder()
            .named("document", 2)
            .channel(BODY.spec())
            .channel(COUNT.spec())
            .channel(ChannelSpec::last::<bool>("new"))
            .node(OUTLINE, nothing)
            .node(TYPESET, typeset)
            .entry(OUTLINE)
            .migrate(migration)
            .build()
            .unwrap()
    }
}

fn paused(folder: &std::path::Path) -> SqliteCheckpointer {
    let saver = SqliteCheckpointer::open(folder.join("threads")).unwrap();
    let outcome = block_on(first::graph().thread(&saver, "t").start(()).into_future());
    assert_eq!(outcome.unwrap().asks().len(), 2);
    saver
}

/// The values of a thread, and who waits.
async fn state(thread: &superstep::Thread<()>) -> String {
    let state = thread.state().await.unwrap();
    let next: Vec<_> = state.next().map(ToString::to_string).collect();
    format!("{} next {next:?}", state.values.json().unwrap())
}

#[test]
fn a_paused_thread_goes_on_with_the_next_release_of_its_graph() {
    let folder = tempfile::tempdir().unwrap();
    let saver = paused(folder.path());
    block_on(async {
        let graph = second::graph(second::migration());
        let thread = graph.thread(&saver, "t");
        assert_snapshot!(state(&thread).await, @r#"{"body":["1 drafted"],"count":1} next ["typeset", "typeset"]"#);
        // The questions of the old release are answered under the ids they were asked with.
        let asked: Vec<_> = thread.state().await.unwrap().asks().cloned().collect();
        assert_snapshot!(format!("{:?}", asked.iter().map(|ask| &ask.payload).collect::<Vec<_>>()), @r#"[Json(Number(40)), Json(Number(41))]"#);
        // One of them only: what finishes now waits at the old checkpoint.
        let outcome = thread.resume([asked[1].answer(5)]).await.unwrap();
        assert_eq!(outcome.asks().len(), 1);
        assert_snapshot!(state(&thread).await, @r#"{"body":["1 drafted","2 41 or 5"],"count":1} next ["typeset"]"#);
        let left = outcome.asks()[0].clone();
        thread.resume([left.answer(6)]).await.unwrap();
        assert_snapshot!(state(&thread).await, @r#"{"body":["1 drafted","2 40 or 6","2 41 or 5"],"count":1} next []"#);
        // The renamed channel is stored under its new name now, and grows there.
        thread
            .start(Update::new().put(
                second::BODY,
                second::Paragraph {
                    text: "more".into(),
                    level: 3,
                },
            ))
            .await
            .unwrap();
        assert_snapshot!(state(&thread).await, @r#"{"body":["1 drafted","2 40 or 6","2 41 or 5","3 more"],"count":1} next []"#);
        let history = thread.history(100).await.unwrap();
        let values: Vec<_> = history
            .iter()
            .rev()
            .map(|state| state.values.json().unwrap().to_string())
            .collect();
        assert_snapshot!(values.join("\n"), @r#"
            {"body":[]}
            {"body":[]}
            {"body":["1 drafted"],"count":1}
            {"body":["1 drafted","2 40 or 6","2 41 or 5"],"count":1}
            {"body":["1 drafted","2 40 or 6","2 41 or 5"],"count":1}
            {"body":["1 drafted","2 40 or 6","2 41 or 5","3 more"],"count":1}
            {"body":["1 drafted","2 40 or 6","2 41 or 5","3 more"],"count":1}
        "#);
    });
}

#[test]
fn a_thread_of_another_or_a_later_graph_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let saver = paused(folder.path());
    let error = |graph: Graph<()>| {
        let error = block_on(async { graph.thread(&saver, "t").state().await.unwrap_err() });
        assert!(matches!(
            error,
            RunError::OtherGraph { .. } | RunError::NewerGraph { .. } | RunError::Stored { .. }
        ));
        error.to_string()
    };
    assert_snapshot!(error(second::graph(Migration::new())), @r#"thread `t` was stored by graph `letter`, and this is `document`: if it was renamed, say so with `Migration::graph`"#);
    let older = Graph::<()>::builder()
        .named("letter", 0)
        .node(first::DRAFT, |_: (), _: Context| async {
            Ok(Update::new())
        })
        .entry(first::DRAFT);
    assert_snapshot!(error(older.build().unwrap()), @r#"thread `t` was stored by version 1 of graph `letter`, and this is version 0"#);
    assert_snapshot!(error(second::graph(Migration::new().graph("letter"))), @r#"the checkpoint names node `print`"#);
}

#[test]
fn a_migration_that_fits_nothing_is_refused() {
    let problems = Graph::<()>::builder()
        .node(second::OUTLINE, |_: (), _: Context| async {
            Ok(Update::new())
        })
        .entry(second::OUTLINE)
        .migrate(
            Migration::new()
                .channel("a", "b")
                .node("outline", second::OUTLINE)
                .value("c", |old: u32| u64::from(old))
                .payload(second::TYPESET, |old: u32| u64::from(old)),
        )
        .build()
        .unwrap_err();
    assert_snapshot!(problems, @r#"
    graph `graph` cannot be built:
    - the migration converts what is stored of `c`, which the graph does not have
    - the migration converts what is stored of `typeset`, which the graph does not have
    - the migration follows `a` to `b`, which the graph does not have
    - the migration says `outline` is a former name, but the graph has it, or the migration names it twice
    "#);
}

/// A paused thread of the first release, as this engine once stored it. It is never written anew: whatever changes, it must open.
const STORED: &[u8] = include_bytes!("fixtures/letter-1.db");

fn stored(folder: &std::path::Path) -> SqliteCheckpointer {
    std::fs::write(folder.join("threads"), STORED).unwrap();
    SqliteCheckpointer::open(folder.join("threads")).unwrap()
}

#[test]
fn a_file_that_was_stored_long_ago_opens_with_its_graph() {
    let folder = tempfile::tempdir().unwrap();
    let saver = stored(folder.path());
    block_on(async {
        let thread = first::graph().thread(&saver, "t");
        assert_snapshot!(state(&thread).await, @r#"{"lines":["drafted"],"count":1,"comment":"checked"} next ["print", "print"]"#);
        let asked: Vec<_> = thread.state().await.unwrap().asks().cloned().collect();
        let answers = asked.iter().map(|ask| ask.answer(7));
        thread.resume(answers).await.unwrap();
        assert_snapshot!(state(&thread).await, @r#"{"lines":["drafted","40 and 7","41 and 7"],"count":1,"comment":"checked"} next []"#);
        let history = thread.history(100).await.unwrap();
        assert_eq!(history.len(), 4);
    });
}

#[test]
fn a_file_that_was_stored_long_ago_opens_with_the_next_release_of_its_graph() {
    let folder = tempfile::tempdir().unwrap();
    let saver = stored(folder.path());
    block_on(async {
        let graph = second::graph(second::migration());
        let thread = graph.thread(&saver, "t");
        let asked: Vec<_> = thread.state().await.unwrap().asks().cloned().collect();
        let answers = asked.iter().map(|ask| ask.answer(7));
        thread.resume(answers).await.unwrap();
        assert_snapshot!(state(&thread).await, @r#"{"body":["1 drafted","2 40 or 7","2 41 or 7"],"count":1} next []"#);
    });
}

/// How the fixture was made: `cargo test -p superstep --test main -- --ignored stores_the_fixture`.
#[test]
#[ignore = "writes a fixture that is to stay as it is"]
fn stores_the_fixture() {
    let folder = tempfile::tempdir().unwrap();
    drop(paused(folder.path()));
    let database = rusqlite::Connection::open(folder.path().join("threads")).unwrap();
    database
        .execute_batch("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE; VACUUM;")
        .unwrap();
    drop(database);
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/letter-1.db");
    std::fs::copy(folder.path().join("threads"), fixture).unwrap();
}

#[test]
fn threads_are_tried_before_a_new_version_goes_out() {
    let folder = tempfile::tempdir().unwrap();
    let saver = paused(folder.path());
    block_on(async {
        let other = Graph::<()>::builder().named("other", 1);
        let other = other.node(second::OUTLINE, |(): (), _: Context| async {
            Ok(Update::new())
        });
        let other = other.entry(second::OUTLINE).build().unwrap();
        other
            .thread(&saver, "of another graph")
            .start(())
            .await
            .unwrap();
        let later = second::graph(second::migration());
        later
            .thread(&saver, "of the next version")
            .start(())
            .await
            .unwrap();
        let before = dumps(&saver).await;
        let told = |checked: superstep::Checked| {
            let refused = checked.refused.iter();
            let refused = refused.map(|(thread, error)| format!("{thread}: {error}"));
            let refused: Vec<_> = refused.collect();
            format!(
                "open {:?}, refused {refused:?}, others {:?}",
                checked.open, checked.others
            )
        };
        assert_snapshot!(told(first::graph().check(&saver).await.unwrap()), @r#"open ["t"], refused [], others ["of another graph", "of the next version"]"#);
        assert_snapshot!(told(later.check(&saver).await.unwrap()), @r#"open ["of the next version", "t"], refused [], others ["of another graph"]"#);
        // One that forgets the conversion of a value.
        let forgets = Migration::new()
            .graph("letter")
            .channel("lines", "text")
            .channel("text", "body");
        assert_snapshot!(told(second::graph(forgets).check(&saver).await.unwrap()), @r#"open ["of the next version"], refused ["t: the checkpoint names node `print`"], others ["of another graph"]"#);
        assert_eq!(dumps(&saver).await, before, "nothing is written");
    });
}

/// All that is stored.
async fn dumps(saver: &SqliteCheckpointer) -> Vec<superstep::checkpoint::StoredThread> {
    use superstep::checkpoint::Checkpointer as _;
    let mut dumps = Vec::new();
    for thread in superstep::checkpoint::threads(saver).await.unwrap().keys() {
        dumps.extend(saver.export(thread).await.unwrap());
    }
    dumps
}

#[test]
fn a_channel_is_stored_whole_or_as_its_writes_whenever_one_likes() {
    const SAY: Node<()> = Node::new("say");
    let plain = || {
        Graph::<()>::builder()
            .channel(ChannelSpec::reduce("log", append::<Vec<String>>))
            .node(SAY, |(): (), cx: Context| async move {
                let line = vec![format!("said in {}", cx.superstep())];
                Ok(Update::new().put_value("log", superstep::channels::Value::new(line)))
            })
            .entry(SAY)
    };
    let saver = MemoryCheckpointer::new();
    block_on(async {
        for policy in [
            None,
            Some(Snapshots::Never),
            Some(Snapshots::Every(2)),
            None,
            Some(Snapshots::Amortised),
            None,
        ] {
            let graph = match policy {
                Some(policy) => plain().as_delta("log", policy),
                None => plain(),
            };
            let thread = graph.build().unwrap().thread(&saver, "t");
            thread.start(()).await.unwrap();
            thread.start(()).await.unwrap();
        }
        let thread = plain().build().unwrap().thread(&saver, "t");
        let logs: Vec<usize> = thread
            .history(99)
            .await
            .unwrap()
            .iter()
            .rev()
            .map(|at| {
                at.values.json().unwrap()["log"]
                    .as_array()
                    .map_or(0, Vec::len)
            })
            .collect();
        // Three checkpoints a turn, of which the last has the line.
        let expected: Vec<usize> = (0..12).flat_map(|turn| [turn, turn, turn + 1]).collect();
        assert_eq!(logs, expected);
    });
    let problems = plain()
        .as_delta("nothing", Snapshots::Never)
        .build()
        .unwrap_err();
    assert_snapshot!(problems, @"
    graph `graph` cannot be built:
    - `nothing` is to be stored as its writes, but is no channel that folds
    ");
}
