//! Updates, inputs and payloads that do not fit the graph.

use serde::{Deserialize, Serialize};
use serde_json::json;
use superstep::NodeError;
use superstep::channels::Value;
use superstep::checkpoint::CheckpointId;
use superstep::prelude::*;

use super::{Log, alone, done, line, log, message, named, node};

/// What the error says when the only node of a graph returns this update.
async fn refused(update: Update) -> String {
    let graph = alone(move |_: Log, _: Context| {
        let update = update.clone();
        async move { Ok(update) }
    });
    let store = MemoryCheckpointer::new();
    let thread = graph.thread(&store, "t");
    let refused = message(thread.start(log(&["input"])).await);
    // Nothing of the update is there, and the node is still due.
    let state = thread.state().await.unwrap();
    assert_eq!(state.read::<Log>().unwrap(), log(&["input"]));
    assert_eq!(state.next().collect::<Vec<_>>(), ["only"]);
    refused
}

#[tokio::test]
async fn an_update_that_names_what_is_not_there() {
    let goto = refused(line("x").goto(node("nowhere"))).await;
    insta::assert_snapshot!(goto, @"node `only` failed: its update or branch leads to `nowhere`, which is no node of this graph");
    let send = refused(line("x").send(Node::<String>::new("nowhere"), "payload".into())).await;
    assert_eq!(send, goto);
    let channel = refused(line("x").put_value("nothing", Value::new(1u32))).await;
    insta::assert_snapshot!(channel, @"node `only` failed: its update writes channel `nothing`, which this graph does not have");
}

#[tokio::test]
async fn an_update_of_the_wrong_type() {
    let put = refused(line("x").put_value("lines", Value::new("text".to_string()))).await;
    insta::assert_snapshot!(put, @"node `only` failed: channel `lines` takes `Vec<String>`, not `String`");
    let over = refused(line("x").overwrite_value("lines", Value::new(1u32))).await;
    insta::assert_snapshot!(over, @"node `only` failed: channel `lines` takes `Vec<String>`, not `u32`");
}

#[tokio::test]
async fn two_overwrites_of_one_channel() {
    let text = |text: &str| vec![text.to_string()];
    let twice = Update::new()
        .overwrite(Log::LINES, text("a"))
        .overwrite(Log::LINES, text("b"));
    let graph = alone(move |_: Log, _: Context| {
        let twice = twice.clone();
        async move { Ok(twice) }
    });
    let store = MemoryCheckpointer::new();
    let thread = graph.thread(&store, "t");
    let refused = message(thread.start(log(&["input"])).await);
    insta::assert_snapshot!(refused, @"channel `lines` was overwritten 2 times in one superstep; once is allowed");
    // The result is kept, for a graph that can take it; until then the superstep is told as one that is due.
    let state = thread.state().await.unwrap();
    assert_eq!(state.read::<Log>().unwrap(), log(&["input"]));
    assert_eq!(state.next().collect::<Vec<_>>(), ["only"]);
    assert_eq!(state.tasks[0].writes.as_ref().map(Vec::len), Some(2));
    assert_eq!(message(thread.proceed().await), refused);
    let before = thread.at(CheckpointId(2)).state().await.unwrap();
    assert_eq!(before.read::<Log>().unwrap(), log(&["input"]));
}

/// What the error says when a branch behind the only node returns this.
async fn branched<T: superstep::Targets + Clone + Send + Sync + 'static>(targets: T) -> String {
    let graph = Graph::<Log>::builder()
        .node(node("only"), named)
        .entry(node("only"))
        .branch(node("only"), move |_| targets.clone())
        .build()
        .unwrap();
    message(graph.detached().start(Log::default()).await)
}

#[tokio::test]
async fn a_branch_that_leads_nowhere_or_fails() {
    insta::assert_snapshot!(branched(node("nowhere")).await, @"node `only` failed: its update or branch leads to `nowhere`, which is no node of this graph");
    let payload = Node::<String>::new("elsewhere").with("payload".into());
    insta::assert_snapshot!(branched(vec![payload]).await, @"node `only` failed: its update or branch leads to `elsewhere`, which is no node of this graph");
    #[derive(Clone)]
    struct Fails;
    impl superstep::Targets for Fails {
        fn collect(self, _: &mut Vec<superstep::Target>) -> Result<(), NodeError> {
            Err("cannot decide".into())
        }
    }
    insta::assert_snapshot!(branched(Fails).await, @"node `only` failed: cannot decide");
}

/// What a branch decides comes after what the update itself says.
#[tokio::test]
async fn a_branch_sees_the_own_writes_of_its_node_and_no_others() {
    let say = Node::<String>::new("say");
    let said = say.clone();
    let also_says = move |_: Log, cx: Context| {
        let update = line(cx.node().to_string()).send(said.clone(), format!("{} sent", cx.node()));
        async move { Ok(update) }
    };
    let builder = Graph::<Log>::builder()
        .node(node("a"), also_says.clone())
        .node(node("b"), also_says)
        .node(say.clone(), |text: String, _| async { Ok(line(text)) })
        .entry(node("a"))
        .entry(node("b"));
    let sees = move |log: Log| say.clone().with(format!("saw {}", log.lines.join(" ")));
    let graph = builder
        .branch(node("a"), sees.clone())
        .branch(node("b"), sees)
        .build()
        .unwrap();
    let end = done(graph.detached().start(log(&["in"])).await);
    let expected = ["in", "a", "b", "a sent", "saw in a", "b sent", "saw in b"];
    assert_eq!(end, log(&expected));
}

#[derive(State, Clone, Debug, Serialize, Deserialize)]
struct Needs {
    topic: String,
    other: Option<String>,
}

#[tokio::test]
async fn an_empty_channel_is_named_by_whoever_reads_it() {
    let reads = Node::<Needs>::new("reads");
    let graph = Graph::<Json>::builder()
        .channel(Needs::TOPIC.spec())
        .node(reads.clone(), |_: Needs, _| async { Ok(Update::new()) })
        .entry(reads)
        .build()
        .unwrap();
    let nothing = graph.detached().start(Update::new()).await;
    insta::assert_snapshot!(message(nothing), @"node `reads` failed: channel `topic` is empty: nothing has written it yet");
    let something = Update::new().put(Needs::TOPIC, "graphs".to_string());
    let Json(state) = done(graph.detached().start(something).await);
    assert_eq!(state, json!({ "topic": "graphs" }));
}

#[tokio::test]
async fn input_for_channels_that_are_not_there() {
    let graph = Graph::<Json>::builder()
        .named("dynamic", 1)
        .channel(Log::LINES.spec())
        .node(node("only"), named)
        .entry(node("only"))
        .build()
        .unwrap();
    let store = MemoryCheckpointer::new();
    let thread = graph.thread(&store, "t");
    let unknown = thread
        .start(Json(json!({ "nothing": 1, "lines": ["a"] })))
        .await;
    insta::assert_snapshot!(message(unknown), @"the input writes channel `nothing`, which graph `dynamic` does not have");
    let no_object = thread.start(Json(json!([1, 2]))).await;
    insta::assert_snapshot!(message(no_object), @"the input of graph `dynamic` is no JSON object, so it names no channels");
    let wrong_type = thread.start(Json(json!({ "lines": ["a"] }))).await;
    insta::assert_snapshot!(message(wrong_type), @"channel `lines` takes `Vec<String>`, not `Json`");
    // Bad input leaves no trace.
    assert_eq!(thread.state().await.unwrap().checkpoint, None);
}

#[tokio::test]
async fn a_payload_that_the_node_does_not_take() {
    let graph = Graph::<Log>::builder()
        .node(node("sends"), |_: Log, _: Context| async {
            Ok(Update::new().send(Node::<u32>::new("takes text"), 7))
        })
        .node(Node::<String>::new("takes text"), |text: String, _| async {
            Ok(line(text))
        })
        .entry(node("sends"))
        .build()
        .unwrap();
    insta::assert_snapshot!(message(graph.detached().start(Log::default()).await), @"node `takes text` failed: `takes text` holds `u32`, not `String`");
}
