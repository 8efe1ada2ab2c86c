//! A graph that comes from a file: names, channels and ways exist at run time only.

use insta::assert_snapshot;
use serde::Deserialize;
use serde_json::{Value as JsonValue, json};
use superstep::channels::{Json, Value};
use superstep::checkpoint::SqliteCheckpointer;
use superstep::document::{Document, DocumentError, Registry};
use superstep::prelude::*;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fact {
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize)]
struct Into {
    into: String,
}

#[derive(Deserialize)]
struct Set {
    into: String,
    value: JsonValue,
}

#[derive(Deserialize)]
struct Is {
    who: String,
}

fn put(channel: &str, value: JsonValue) -> Update {
    Update::new().put_value(channel.to_owned(), Value::new(Json(value)))
}

fn registry() -> Registry {
    Registry::new()
        .kind("fact", |Fact { text }| {
            if text.is_empty() {
                return Err("a fact needs a text".into());
            }
            Ok(move |_: Json, _: Context| {
                let facts = json!([text]);
                async move { Ok(put("facts", facts)) }
            })
        })
        .kind("rate", |Nothing {}| {
            Ok(|Json(state): Json, _: Context| async move {
                let facts = state["facts"].as_array().map_or(0, Vec::len);
                Ok(put("score", json!(facts)))
            })
        })
        .kind("ask", |Into { into }| {
            Ok(move |Json(state): Json, cx: Context| {
                let into = into.clone();
                async move { Ok(put(&into, cx.interrupt::<Json>(&state).await.0)) }
            })
        })
        .kind("set", |Set { into, value }| {
            Ok(move |_: Json, _: Context| {
                let update = put(&into, value.clone());
                async move { Ok(update) }
            })
        })
        .condition("is", |Is { who }| {
            Ok(move |state: &JsonValue| state["applicant"] == who.as_str())
        })
}

fn load(text: &str) -> Result<Graph<Json>, DocumentError> {
    Document::from_json(text)?.build(&registry())
}

const LOAN: &str = include_str!("fixtures/loan.json");

#[tokio::test]
async fn it_runs_pauses_and_goes_on_in_a_program_that_loads_it_anew() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let store = SqliteCheckpointer::open(folder.path().join("threads.db")).unwrap();
        load(LOAN).unwrap().thread(&store, "loan 1")
    };
    let start = open().start(Json(json!({ "applicant": "Ada" })));
    let outcome = start.await.unwrap();
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

async fn decision(input: JsonValue) -> JsonValue {
    let thread = load(LOAN).unwrap().detached();
    let outcome = thread.start(Json(input)).await.unwrap();
    let state = outcome.done().map_or(JsonValue::Null, |state| state.0);
    state["decision"].clone()
}

#[tokio::test]
async fn branches_decide_by_what_is_built_in_and_by_what_is_registered() {
    let known = json!({ "applicant": "Bob", "facts": ["a customer since 1990"] });
    assert_eq!(decision(known).await, "approved");
    assert_eq!(decision(json!({ "applicant": "Grace" })).await, "approved");
    // It asks the officer.
    assert!(decision(json!({ "applicant": "Ada" })).await.is_null());
}

#[tokio::test]
async fn input_that_the_fold_refuses_is_an_error_that_names_the_channel() {
    let document = r#"{
        "name": "sum",
        "channels": { "total": { "rule": "reduce", "fold": "sum" } },
        "nodes": [{ "name": "rate", "kind": "rate" }],
        "entries": ["rate"]
    }"#;
    let thread = load(document).unwrap().detached();
    let error = thread
        .start(Json(json!({ "total": "much" })))
        .await
        .unwrap_err();
    assert_snapshot!(error, @"the reducer of channel `total` failed");
    let cause = std::error::Error::source(&error).unwrap();
    assert_snapshot!(cause, @"only numbers can be added, not a text");
}

#[test]
fn everything_that_is_wrong_is_told_at_once_and_where() {
    let broken = r#"{
        "name": "broken",
        "channels": {
            "a": { "rule": "reduce" },
            "b": { "rule": "last", "fold": "sum" },
            "c": { "rule": "reduce", "fold": "product" },
            "d": { "rule": "topic", "fold": "append", "delta": true },
            "e": { "rule": "any", "many_writers": true }
        },
        "nodes": [
            { "name": "one", "kind": "fact", "with": { "text": 1 } },
            { "name": "two", "kind": "fact", "with": { "text": "" } },
            { "name": "three", "kind": "rate", "with": { "colour": "red" } },
            { "name": "four", "kind": "mail" },
            { "name": "five", "kind": "rate", "reads": ["x"], "leads_to": ["nine"] },
            { "name": "five", "kind": "rate" }
        ],
        "entries": ["one", "zero"],
        "edges": [["one", "ten"]],
        "joins": [{ "from": ["one", "eleven"], "to": "two" }],
        "branches": [
            { "from": "one", "when": [{ "if": { "equals": ["y", 1] }, "to": ["two", "twelve"] }], "else": "thirteen" },
            { "from": "two", "when": [{ "if": { "not": { "all": [{ "call": { "name": "is", "with": { "who": 1 } } }] } }, "to": "one" }] },
            { "from": "two", "when": [{ "if": { "call": { "name": "weather" } }, "to": "one" }] },
            { "from": "fourteen", "when": [{ "if": { "exists": "b" }, "to": [] }, { "if": { "exists": "b" }, "to": "one" }] }
        ],
        "input": ["z"],
        "stop_before": ["fifteen"]
    }"#;
    assert_snapshot!(load(broken).unwrap_err(), @"
    the document is no graph:
    - at `channels.a.fold`: a channel of this rule needs a fold
    - at `channels.b.fold`: a channel of this rule has no fold
    - at `channels.c.fold`: `product` is no fold; known are: append, concat, max, merge, min, sum
    - at `channels.d.delta`: only a `reduce` channel can be stored as its writes
    - at `channels.e.many_writers`: a channel of this rule takes many writers anyway
    - at `nodes[0].with.text`: invalid type: integer `1`, expected a string
    - at `nodes[1].with`: a fact needs a text
    - at `nodes[2].with.colour`: unknown field `colour`, there are no fields
    - at `nodes[3].kind`: `mail` is no kind of node; known are: ask, fact, rate, set
    - at `branches[0].when[0].if`: `y` is no channel
    - at `branches[1].when[0].if.not.all[0].call.with.who`: invalid type: integer `1`, expected a string
    - at `branches[2].when[0].if.call.name`: `weather` is no condition; known are: is
    - at `branches[3].when[1].if`: the same condition stands before it, so this one decides nothing
    - node `five` is declared twice
    - the entry `zero` is no node
    - an edge leads to `ten`, which is no node
    - an edge leads to `twelve`, which is no node
    - an edge leads to `thirteen`, which is no node
    - an edge leaves `fourteen`, which is no node
    - an edge leads to `nine`, which is no node
    - an edge leaves `eleven`, which is no node
    - `broken` uses channel `z`, which is not declared
    - a breakpoint names `fifteen`, which is no node
    - `five` uses channel `x`, which is not declared
    ");
}

#[test]
fn what_has_not_the_form_is_told_with_its_place() {
    let told = |text: &str| load(text).unwrap_err().to_string();
    assert_snapshot!(told("[]"), @"
    the document is no graph:
    - invalid length 0, expected struct Document with 12 elements at line 1 column 2
    ");
    assert_snapshot!(told(r#"{ "name": "a", "nodes": [] }"#), @"
    the document is no graph:
    - missing field `entries` at line 1 column 28
    ");
    assert_snapshot!(told(r#"{ "name": "a", "nodes": [], "entries": [], "edge": [] }"#), @"
    the document is no graph:
    - at `edge`: unknown field `edge`, expected one of `name`, `version`, `channels`, `nodes`, `entries`, `edges`, `joins`, `branches`, `input`, `output`, `stop_before`, `stop_after` at line 1 column 49
    ");
    assert_snapshot!(told(r#"{ "name": "a", "nodes": [{ "name": "b", "kind": "rate", "read": [] }], "entries": [] }"#), @"
    the document is no graph:
    - at `nodes[0].read`: unknown field `read`, expected one of `name`, `kind`, `with`, `reads`, `defer`, `leads_to`, `retry`, `run_timeout_ms`, `idle_timeout_ms`, `blocking`, `tags`, `metadata` at line 1 column 62
    ");
    assert_snapshot!(told(r#"{ "name": "a", "channels": { "c": { "rule": "newest" } }, "nodes": [], "entries": [] }"#), @"
    the document is no graph:
    - at `channels.c.rule`: unknown variant `newest`, expected one of `last`, `any`, `ephemeral`, `untracked`, `topic`, `reduce` at line 1 column 52
    ");
    assert_snapshot!(told(r#"{ "name": "a", "nodes": [], "entries": [], "branches": [{ "when": [{ "if": { "like": "c" }, "to": "b" }] }] }"#), @"
    the document is no graph:
    - at `branches[0].when[0].if`: unknown variant `like`, expected one of `exists`, `truthy`, `equals`, `greater`, `less`, `at_least`, `at_most`, `in`, `not`, `all`, `any`, `call` at line 1 column 83
    ");
    assert_snapshot!(told(r#"{ "name": "a", "nodes": [], "entries": [] } {}"#), @"
    the document is no graph:
    - trailing characters at line 1 column 45
    ");
    let deep = format!("{}{}", r#"{"not":"#.repeat(10_000), "}".repeat(10_000));
    let deep = format!(
        r#"{{ "name": "a", "nodes": [], "entries": [], "branches": [{{ "when": [{{ "if": {deep}, "to": "b" }}] }}] }}"#
    );
    assert!(told(&deep).contains("recursion limit exceeded at line 1 column 930"));
}

#[test]
fn a_document_reads_as_it_was_written() {
    let document = Document::from_json(LOAN).unwrap();
    let text = serde_json::to_string(&document).unwrap();
    assert_eq!(Document::from_json(&text).unwrap(), document);
}

#[test]
fn it_is_drawn_with_its_names() {
    assert_snapshot!(load(LOAN).unwrap().mermaid(), @r#"
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
        n3 -->|"score >= 3 or is {#quot;who#quot;:#quot;Grace#quot;}"| n5
        n3 -->|"else"| n4
    "#);
}
