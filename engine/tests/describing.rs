//! Graphs in pictures and words, and why nodes ran.

use insta::assert_snapshot;
use serde_json::json;
use superstep::channels::{ChannelSpec, Json, Value};
use superstep::prelude::*;
use superstep::{Because, Warning};

const A: Node<Json> = Node::new("a");
const B: Node<Json> = Node::new("b \"quoted\"\\");
const C: Node<Json> = Node::new("c");
const D: Node<Json> = Node::new("d");
const PART: Node<Json> = Node::new("part");

fn nothing() -> superstep::GraphBuilder<Json> {
    [A, B, C, D, PART].into_iter().fold(
        Graph::<Json>::builder()
            .channel(
                ChannelSpec::reduce::<Vec<String>, _>("log", append)
                    .schema(json!({ "type": "array" })),
            )
            .channel(ChannelSpec::last::<Json>("x")),
        |builder, node| builder.node(node, |_: Json, _: Context| async { Ok(Update::new()) }),
    )
}

/// A graph with every way from node to node.
fn every_way() -> Graph<Json> {
    let inner = Graph::<Json>::builder()
        .node(A, |_: Json, _: Context| async { Ok(Update::new()) })
        .node(C, |_: Json, _: Context| async { Ok(Update::new()) })
        .sequence([A, C])
        .entry(A)
        .build()
        .unwrap();
    nothing()
        .named("every way", 3)
        .entry(A)
        .entry(B)
        .join([A, B], C)
        .branch_to(
            C,
            |Json(state): Json| [if state["x"].is_null() { "no" } else { "yes" }.to_owned()],
            [("no", D), ("yes", A)],
        )
        .leads_to(A, [PART])
        .subgraph(Node::<Json>::new("inside"), &inner)
        .edge(D, Node::<Json>::new("inside"))
        .tags(A, ["slow"])
        .metadata(A, "owner", "me")
        .input(["x"])
        .stop_before(["d"])
        .build()
        .unwrap()
}

#[test]
fn a_graph_is_drawn() {
    assert_snapshot!(every_way().mermaid(), @r#"
    flowchart TD
        n0([start])
        n1["a"]
        n2["b #quot;quoted#quot;\\"]
        n3{"c"}
        n4["d"]
        n5["part"]
        n6["inside"]
        n0 --> n1
        n0 --> n2
        n1 -. join .-> n3
        n1 -.-> n5
        n2 -. join .-> n3
        n3 -->|"no"| n4
        n3 -->|"yes"| n1
        n4 --> n6
    "#);
    assert_snapshot!(every_way().mermaid_nested(1), @r#"
    flowchart TD
        n0([start])
        n1["a"]
        n2["b #quot;quoted#quot;\\"]
        n3{"c"}
        n4["d"]
        n5["part"]
        subgraph n6["inside"]
            n6_0([start])
            n6_1["a"]
            n6_2["c"]
            n6_0 --> n6_1
            n6_1 --> n6_2
        end
        n0 --> n1
        n0 --> n2
        n1 -. join .-> n3
        n1 -.-> n5
        n2 -. join .-> n3
        n3 -->|"no"| n4
        n3 -->|"yes"| n1
        n4 --> n6
    "#);
    assert_snapshot!(every_way().dot_nested(1), @r#"
    digraph {
        compound=true;
        n0 [label="start", shape=oval];
        n1 [label="a", shape=box];
        n2 [label="b \"quoted\"\\", shape=box];
        n3 [label="c", shape=diamond];
        n4 [label="d", shape=box];
        n5 [label="part", shape=box];
        subgraph cluster_n6 {
            label="inside";
            n6_0 [label="start", shape=oval];
            n6_1 [label="a", shape=box];
            n6_2 [label="c", shape=box];
            n6_0 -> n6_1;
            n6_1 -> n6_2;
        }
        n0 -> n1;
        n0 -> n2;
        n1 -> n3 [label="join", style=dotted];
        n1 -> n5 [style=dotted];
        n2 -> n3 [label="join", style=dotted];
        n3 -> n4 [label="no"];
        n3 -> n1 [label="yes"];
        n4 -> n6_0 [lhead=cluster_n6];
    }
    "#);
}

#[test]
fn a_graph_is_told_in_json() {
    assert_snapshot!(serde_json::to_string(&every_way().to_json()).unwrap(), @r#"{"name":"every way","version":3,"channels":[{"name":"log","rule":"Reduce","value":"Vec<String>","update":"Vec<String>"},{"name":"x","rule":"LastValue","value":"Json","update":"Json"}],"nodes":[{"name":"a","reads":["log","x"],"deferred":false,"exits":{"edges":[],"joins":[{"to":"c","with":["a","b \"quoted\"\\"]}],"branches":0,"labels":[],"leads_to":["part"]},"handles_errors":false,"tags":["slow"],"metadata":{"owner":"me"}},{"name":"b \"quoted\"\\","reads":["log","x"],"deferred":false,"exits":{"edges":[],"joins":[{"to":"c","with":["a","b \"quoted\"\\"]}],"branches":0,"labels":[],"leads_to":null},"handles_errors":false,"tags":[],"metadata":{}},{"name":"c","reads":["log","x"],"deferred":false,"exits":{"edges":[],"joins":[],"branches":1,"labels":[{"label":"no","to":"d"},{"label":"yes","to":"a"}],"leads_to":null},"handles_errors":false,"tags":[],"metadata":{}},{"name":"d","reads":["log","x"],"deferred":false,"exits":{"edges":["inside"],"joins":[],"branches":0,"labels":[],"leads_to":null},"handles_errors":false,"tags":[],"metadata":{}},{"name":"part","reads":["log","x"],"deferred":false,"exits":{"edges":[],"joins":[],"branches":0,"labels":[],"leads_to":null},"handles_errors":false,"tags":[],"metadata":{}},{"name":"inside","reads":["log","x"],"deferred":false,"exits":{"edges":[],"joins":[],"branches":0,"labels":[],"leads_to":null},"handles_errors":false,"tags":[],"metadata":{},"graph":{"name":"graph","version":1,"channels":[],"nodes":[{"name":"a","reads":[],"deferred":false,"exits":{"edges":["c"],"joins":[],"branches":0,"labels":[],"leads_to":null},"handles_errors":false,"tags":[],"metadata":{}},{"name":"c","reads":[],"deferred":false,"exits":{"edges":[],"joins":[],"branches":0,"labels":[],"leads_to":null},"handles_errors":false,"tags":[],"metadata":{}}],"entry":{"edges":["a"],"joins":[],"branches":0,"labels":[],"leads_to":null},"input":null,"output":[],"nesting":"per_call","stop_before":[],"stop_after":[]}}],"entry":{"edges":["a","b \"quoted\"\\"],"joins":[],"branches":0,"labels":[],"leads_to":null},"input":["x"],"output":["log","x"],"nesting":"per_call","stop_before":["d"],"stop_after":[]}"#);
    assert_snapshot!(every_way().input_schema(), @r#"{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"every way","type":"object","properties":{"x":{"title":"Json"}},"additionalProperties":false}"#);
    assert_snapshot!(every_way().state_schema()["properties"], @r#"{"log":{"type":"array"},"x":{"title":"Json"}}"#);
}

#[test]
fn what_nothing_leads_to_is_a_warning() {
    assert_eq!(every_way().warnings(), []);
    let lonely = nothing()
        .entry(A)
        .join([A, D], C)
        .leads_to(A, [PART])
        .build()
        .unwrap();
    let warnings: Vec<_> = lonely.warnings().iter().map(Warning::to_string).collect();
    assert_snapshot!(warnings.join("\n"), @r#"
    nothing that is declared leads to `b "quoted"\`: only a goto, a send or a free branch can
    nothing that is declared leads to `d`: only a goto, a send or a free branch can
    the join into `c` waits for `d`, to which nothing that is declared leads
    "#);
}

#[tokio::test]
async fn a_node_that_goes_elsewhere_than_it_said_fails() {
    let elsewhere = |target: &'static str| {
        Graph::<Json>::builder()
            .node(A, move |_: Json, _: Context| async move {
                Ok(Update::new().goto(Node::<Json>::new(target)))
            })
            .node(C, |_: Json, _: Context| async { Ok(Update::new()) })
            .node(D, |_: Json, _: Context| async { Ok(Update::new()) })
            .entry(A)
            .leads_to(A, [C])
            .build()
            .unwrap()
    };
    assert!(elsewhere("c").detached().start(Update::new()).await.is_ok());
    let error = elsewhere("d")
        .detached()
        .start(Update::new())
        .await
        .unwrap_err();
    assert_snapshot!(error, @"node `a` failed: its update or branch leads to `d`, which is none of the nodes that it was said to lead to");
    let label = nothing()
        .entry(A)
        .branch_to(A, |_| ["maybe"], [("yes", C), ("no", D)])
        .build()
        .unwrap();
    assert_snapshot!(label.detached().start(Update::new()).await.unwrap_err(), @"node `a` failed: a branch gave the label `maybe`, and knows `yes`, `no`");
    let problems = nothing()
        .entry(A)
        .leads_to(A, [Node::<Json>::new("nowhere")])
        .branch_to(A, |_| ["x"], [("x", Node::<Json>::new("nothing"))])
        .tags(Node::<Json>::new("nobody"), ["t"])
        .build()
        .unwrap_err();
    assert_snapshot!(problems, @"
    graph `graph` cannot be built:
    - an edge leads to `nothing`, which is no node
    - an edge leads to `nowhere`, which is no node
    - an edge leaves `nobody`, which is no node
    ");
}

#[tokio::test]
async fn it_is_explained_why_a_node_ran() {
    let log =
        |text: &'static str| Update::new().put_value("log", Value::new(vec![text.to_owned()]));
    let graph = Graph::<Json>::builder()
        .channel(ChannelSpec::reduce::<Vec<String>, _>("log", append).as_delta(Snapshots::Every(9)))
        .node(A, move |_: Json, _: Context| async move {
            Ok(log("a")
                .goto(D)
                .send(PART, Json(json!(1)))
                .send(PART, Json(json!(2))))
        })
        .node(B, move |_: Json, _: Context| async move { Ok(log("b")) })
        .node(C, |_: Json, _: Context| async { Ok(Update::new()) })
        .node(D, |_: Json, _: Context| async { Ok(Update::new()) })
        .node(PART, |_: Json, _: Context| async { Ok(Update::new()) })
        .entry(A)
        .entry(B)
        .edge(B, D)
        .join([A, B], C)
        .build()
        .unwrap();
    let saver = MemoryCheckpointer::new();
    let thread = graph.thread(&saver, "t");
    thread.start(Update::new()).await.unwrap();
    let mut told = Vec::new();
    for state in thread.history(9).await.unwrap().iter().rev() {
        let explained = thread
            .at(state.checkpoint.unwrap())
            .explain()
            .await
            .unwrap();
        let changes = explained.changed.iter().map(|change| {
            let by: Vec<_> = change.by.iter().map(|(_, node)| node.as_str()).collect();
            format!("{} by {}", change.channel, by.join(", "))
        });
        told.extend(changes);
        told.extend(explained.due.iter().map(|due| {
            let because = due.because.iter().map(|because| match because {
                Because::Edge { node, .. } => format!("edge from {node}"),
                Because::Join { node, .. } => format!("join with {node}"),
                Because::Goto { node, .. } => format!("goto of {node}"),
                Because::Send { node, .. } => format!("sent by {node}"),
                _ => String::new(),
            });
            format!("{}: {}", due.node, because.collect::<Vec<_>>().join(", "))
        }));
    }
    assert_snapshot!(told.join("\n"), @r#"
    __start__: 
    a: edge from __start__
    b "quoted"\: edge from __start__
    log by a, b "quoted"\
    c: join with a, join with b "quoted"\
    d: goto of a, edge from b "quoted"\
    part: sent by a
    part: sent by a
    "#);
}
