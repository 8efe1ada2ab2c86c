//! Reading cases, strictly.

use serde_json::{Value, json};
use superstep_conformance::corpus::{Differences, parse};

use crate::{CASES, case};

#[test]
fn all_cases_are_read() {
    assert_eq!(CASES.len(), 586);
}

/// A case whose node has these operations, with other keys replaced at these places.
fn read(ops: Value, changes: &[(&str, Value)]) -> Result<(), String> {
    let mut case = json!({
        "name": "x", "topic": "t", "desc": "d",
        "spec": {
            "channels": {"k": {"kind": "last_value"}},
            "nodes": [{"name": "a", "ops": ops}],
            "edges": [["__start__", "a"]],
        },
        "script": [{"do": "clear_cache"}],
        "expected": [{"do": "clear_cache"}],
    });
    for (place, value) in changes {
        let (object, key) = place.rsplit_once('/').unwrap();
        case.pointer_mut(object).unwrap()[key] = value.clone();
    }
    parse("x", &case.to_string())
        .map(drop)
        .map_err(|error| error.to_string())
}

#[test]
fn what_is_not_known_is_an_error_that_names_the_place() {
    let ops = |ops| read(ops, &[]).unwrap_err();
    let place = |place, value| read(json!([]), &[(place, value)]).unwrap_err();
    assert_eq!(read(json!([{"op": "drain"}]), &[]), Ok(()));
    let errors = [
        (
            ops(json!([{"op": "drain"}, {"op": "jump"}])),
            "x: spec: nodes[0].ops[1].op: unknown variant `jump`",
        ),
        (
            ops(json!([{"op": "drain", "now": true}])),
            "x: spec: nodes[0].ops[0]: unknown field `now`",
        ),
        (
            ops(json!([{"op": "count"}])),
            "x: spec: nodes[0].ops[0]: missing field `counter`",
        ),
        (
            ops(json!([{"op": "set", "key": "k", "value": [{"$plus": []}]}])),
            "x: spec: nodes[0].ops[0]: `$plus`: unknown operator",
        ),
        (place("/hint", json!(1)), "x: hint: unknown field `hint`"),
        (
            place("/saver", json!("disk")),
            "x: saver: unknown variant `disk`",
        ),
        (
            place("/spec/channels/k/kind", json!("heap")),
            "x: spec: channels.k.kind: unknown variant `heap`",
        ),
        (
            place("/spec/channels/k/guard", json!(true)),
            "x: spec: channels.k: unknown field `guard`",
        ),
        (
            place("/spec/kind", json!("graph")),
            "x: spec: kind: unknown field `kind`",
        ),
        (
            place("/spec/nodes", json!([{"name": "a"}])),
            "x: spec: nodes[0]: a node has either `ops` or a `subgraph`",
        ),
        (
            place("/script", json!([{"do": "wait"}])),
            "x: script[0].do: unknown variant `wait`",
        ),
        (
            place("/script", json!([{"do": "state", "at": {"n": 1}}])),
            "x: script[0]: unknown variant `n`",
        ),
        (
            place(
                "/expected",
                json!([{"do": "update", "checkpoint": "C1", "more": 1}]),
            ),
            "x: expected: [0]: more: unknown field `more`",
        ),
        (
            place(
                "/expected",
                json!([{"do": "invoke", "ran": {}, "error": {"kind": "Odd"}}]),
            ),
            "x: expected: [0]: unknown variant `Odd`",
        ),
        (place("/expected", json!([])), "x: 0 results for 1 actions"),
        (
            place("/name", json!("y")),
            "x: the case in this file calls itself `y`",
        ),
    ];
    for (error, start) in errors {
        assert!(
            error.starts_with(start),
            "{error}\nshould start with\n{start}"
        );
    }
}

#[test]
fn every_listed_difference_names_a_case_and_its_actions() {
    let ours = Differences::ours().unwrap();
    for name in ours.names() {
        ours.apply(&mut case(name)).unwrap();
    }
}

#[test]
fn a_listed_difference_replaces_what_was_recorded() {
    let text = json!({
        "linear_three_steps": {
            "reason": "counts bodies differently",
            "results": {"0": {"do": "invoke", "output": {}, "ran": {"main:a": 2}}},
        },
        "invalid_no_entry": {"reason": "allowed", "expected": []},
    });
    let differences = Differences::parse(&text.to_string()).unwrap();
    let applied = |name| {
        let mut case = case(name);
        differences.apply(&mut case).unwrap();
        serde_json::to_value(&case.expected).unwrap()
    };
    let linear = applied("linear_three_steps");
    assert_eq!(
        linear[0],
        json!({"do": "invoke", "output": {}, "ran": {"main:a": 2}})
    );
    assert_eq!(
        linear[1],
        serde_json::to_value(&case("linear_three_steps").expected[1]).unwrap()
    );
    assert_eq!(applied("invalid_no_entry"), json!([]));
    assert_eq!(
        applied("interrupt_basic"),
        serde_json::to_value(case("interrupt_basic").expected).unwrap()
    );
}

#[test]
fn a_listed_difference_must_make_sense() {
    let ran = json!({"do": "invoke", "ran": {}});
    let cases = [
        (
            json!({"reason": " ", "expected": []}),
            "a: a difference needs a reason",
        ),
        (
            json!({"reason": "r"}),
            "a: has either `expected` or `results`",
        ),
        (
            json!({"reason": "r", "expected": [], "results": {"0": ran}}),
            "a: has either `expected` or `results`",
        ),
    ];
    for (entry, message) in cases {
        let error = Differences::parse(&json!({ "a": entry }).to_string()).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    let text = json!({"interrupt_basic": {"reason": "r", "results": {"99": ran}}}).to_string();
    let error = Differences::parse(&text)
        .unwrap()
        .apply(&mut case("interrupt_basic"))
        .unwrap_err();
    assert_eq!(error.to_string(), "interrupt_basic: has no action 99");
}
