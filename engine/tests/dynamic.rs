//! A graph that comes from a file: names, channels and edges exist at run time only.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value as JsonValue, json};
use superstep::channels::{ChannelSpec, Value, fold_with};
use superstep::checkpoint::SqliteCheckpointer;
use superstep::prelude::*;
use superstep::{BuildError, Update};

#[derive(Deserialize)]
struct File {
    name: String,
    channels: BTreeMap<String, Rule>,
    nodes: Vec<Step>,
    entries: Vec<String>,
    joins: Vec<Join>,
    edges: Vec<(String, String)>,
    branches: Vec<Branch>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Rule {
    Last,
    Append,
}

#[derive(Deserialize)]
struct Step {
    name: String,
    reads: Vec<String>,
    #[serde(flatten)]
    kind: Kind,
}

#[derive(Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Kind {
    /// Adds a text to the facts.
    Fact {
        text: String,
    },
    /// Counts the facts.
    Rate,
    /// Asks a person.
    Ask {
        writes: String,
    },
    Set {
        writes: String,
        text: String,
    },
}

#[derive(Deserialize)]
struct Join {
    from: Vec<String>,
    to: String,
}

#[derive(Deserialize)]
struct Branch {
    from: String,
    channel: String,
    at_least: u64,
    then: String,
    otherwise: String,
}

fn put(channel: &str, value: JsonValue) -> Update {
    Update::new().put_value(channel.to_owned(), Value::new(Json(value)))
}

async fn run(kind: Kind, Json(state): Json, cx: Context) -> NodeResult {
    Ok(match kind {
        Kind::Fact { text } => put("facts", json!([text])),
        Kind::Rate => put(
            "score",
            json!(state["facts"].as_array().map_or(0, Vec::len)),
        ),
        Kind::Ask { writes } => put(&writes, cx.interrupt::<Json>(&state).await.0),
        Kind::Set { writes, text } => put(&writes, json!(text)),
    })
}

impl Rule {
    fn spec(&self, name: String) -> ChannelSpec {
        match self {
            Rule::Last => ChannelSpec::last::<Json>(name),
            Rule::Append => ChannelSpec::reduce::<Json, Json>(name, fold_with(append_json)),
        }
    }
}

fn append_json(list: &mut Json, items: Json) -> Result<(), &'static str> {
    let JsonValue::Array(mut items) = items.0 else {
        return Err("only lists are appended");
    };
    match &mut list.0 {
        JsonValue::Array(list) => list.append(&mut items),
        empty => *empty = JsonValue::Array(items),
    }
    Ok(())
}

fn load(text: &str) -> Result<Graph<Json>, BuildError> {
    let file: File = serde_json::from_str(text).unwrap();
    let node = |name: &str| Node::<Json>::named(name.to_owned());
    let mut builder = Graph::<Json>::builder().named(file.name, 1);
    for (name, rule) in file.channels {
        builder = builder.channel(rule.spec(name));
    }
    for step in file.nodes {
        let kind = step.kind;
        let handler = move |state, cx| run(kind.clone(), state, cx);
        builder = builder.node_reading(node(&step.name), step.reads, handler);
    }
    for name in &file.entries {
        builder = builder.entry(node(name));
    }
    for (from, to) in &file.edges {
        builder = builder.edge(node(from), node(to));
    }
    for join in &file.joins {
        builder = builder.join(join.from.iter().map(|from| node(from)), node(&join.to));
    }
    for Branch {
        from,
        channel,
        at_least,
        then,
        otherwise,
    } in file.branches
    {
        builder = builder.branch(node(&from), move |Json(state): Json| {
            let enough = state[&channel]
                .as_u64()
                .is_some_and(|value| value >= at_least);
            node(if enough { &then } else { &otherwise })
        });
    }
    builder.build()
}

const LOAN: &str = include_str!("fixtures/loan.json");

#[tokio::test]
async fn it_runs_pauses_and_goes_on_in_a_program_that_loads_it_anew() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let store = SqliteCheckpointer::open(folder.path().join("threads.db")).unwrap();
        load(LOAN).unwrap().thread(&store, "loan 1")
    };
    let outcome = open()
        .start(Json(json!({ "applicant": "Ada" })))
        .await
        .unwrap();
    let asks = outcome.asks();
    // The node sees the channels that the file lets it see.
    let seen = json!({ "applicant": "Ada", "facts": ["credit is known", "income is known"] });
    assert_eq!(asks[0].payload.0, seen);
    let outcome = open().resume([asks[0].answer("refused")]).await.unwrap();
    let Outcome::Done(Json(state)) = outcome else {
        panic!("{outcome:?}")
    };
    let end = json!({
        "applicant": "Ada",
        "decision": "refused",
        "facts": ["credit is known", "income is known"],
        "score": 2,
    });
    assert_eq!(state, end);
    assert_eq!(open().state().await.unwrap().values.json().unwrap(), end);
}

#[tokio::test]
async fn the_branch_looks_at_the_state() {
    let thread = load(LOAN).unwrap().detached();
    let input = json!({ "applicant": "Bob", "facts": ["a customer since 1990"] });
    let outcome = thread.start(Json(input)).await.unwrap();
    let Outcome::Done(Json(state)) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(
        (&state["score"], &state["decision"]),
        (&json!(3), &json!("approved"))
    );
}

#[tokio::test]
async fn input_that_the_reducer_refuses_is_an_error_that_names_the_channel() {
    let thread = load(LOAN).unwrap().detached();
    let error = thread
        .start(Json(json!({ "facts": "no list" })))
        .await
        .unwrap_err();
    insta::assert_snapshot!(error, @"the reducer of channel `facts` failed");
    let cause = std::error::Error::source(&error).unwrap();
    insta::assert_snapshot!(cause, @"only lists are appended");
}

#[test]
fn a_file_with_mistakes_is_refused_with_all_of_them() {
    let broken = LOAN.replace(r#""to": "rate""#, r#""to": "rating""#);
    let broken = broken.replace(r#""reads": ["facts"]"#, r#""reads": ["fact"]"#);
    let error = load(&broken).unwrap_err();
    insta::assert_snapshot!(error, @"
    graph `loan` cannot be built:
    - an edge leads to `rating`, which is no node
    - `rate` uses channel `fact`, which is not declared
    ");
}

#[test]
fn it_is_drawn_with_its_names() {
    insta::assert_snapshot!(load(LOAN).unwrap().mermaid(), @r#"
    flowchart TD
        n0([start])
        n1["check income"]
        n2["check #quot;credit#quot;"]
        n3{"rate"}
        n4["officer"]
        n5["approve"]
        n0 --> n1
        n0 --> n2
        n1 -. join .-> n3
        n2 -. join .-> n3
    "#);
}
