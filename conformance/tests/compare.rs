//! Finding the first difference.

use serde_json::{Value, json};
use superstep_conformance::compare::compare;
use superstep_conformance::ids::{Kind, token};
use superstep_conformance::result::Outcome;

fn compared(expected: Value, got: Value) -> Option<String> {
    let outcomes = |results| serde_json::from_value::<Vec<Outcome>>(results).unwrap();
    let difference = compare(&outcomes(expected), outcomes(got)).unwrap();
    difference.map(|difference| difference.to_string())
}

fn output(value: Value) -> Value {
    json!({"do": "invoke", "output": value, "ran": {}})
}

fn raw() -> Value {
    json!({"do": "raw", "checkpoints": [{"id": token(Kind::Checkpoint, "only in the dump")}]})
}

#[test]
fn ids_and_the_order_of_keys_do_not_matter() {
    let side = |ids: [u32; 3]| {
        let ids = ids.map(|id| token(Kind::Checkpoint, id));
        let update = |id: &String| json!({"do": "update", "checkpoint": id});
        json!([
            update(&ids[0]),
            output(json!({"a": 1, "b": 2})),
            update(&ids[1]),
            update(&ids[2])
        ])
    };
    let mut other = side([8, 9, 8]);
    other[1] = output(json!({"b": 2, "a": 1}));
    assert_eq!(compared(side([1, 2, 1]), other), None);
    assert_eq!(
        compared(side([1, 2, 1]), side([8, 9, 9])).unwrap(),
        r#"action 3 (update) at `.checkpoint`: expected "C1", got "C2""#
    );
}

#[test]
fn the_first_difference_is_shown_where_it_is() {
    let cases = [
        (
            json!([output(json!({"l": [1, 2]}))]),
            json!([output(json!({"l": [1]}))]),
            "action 0 (invoke) at `.output.l[1]`: expected 2, got nothing",
        ),
        (
            json!([output(json!(1))]),
            json!([output(json!("1"))]),
            r#"action 0 (invoke) at `.output`: expected 1, got "1""#,
        ),
        (
            json!([output(json!(1))]),
            json!([]),
            r#"action 0 (invoke) at ``: expected {"do":"invoke","output":1,"ran":{}}, got nothing"#,
        ),
        (
            json!([{"compile_error": "InvalidGraph"}]),
            json!([output(json!(1))]),
            r#"action 0 (build) at `.compile_error`: expected "InvalidGraph", got nothing"#,
        ),
        (
            json!([output(json!(null))]),
            json!([{"do": "invoke", "ran": {}, "error": {"kind": "Node", "name": "x".repeat(500)}}]),
            &format!(
                r#"action 0 (invoke) at `.error`: expected nothing, got {{"kind":"Node","name":"{}…"#,
                "x".repeat(217)
            ),
        ),
    ];
    for (expected, got, difference) in cases {
        assert_eq!(compared(expected, got).unwrap(), difference);
    }
}

#[test]
fn dumps_are_optional() {
    let id = |raw: u32| json!({"do": "update", "checkpoint": token(Kind::Checkpoint, raw)});
    assert_eq!(compared(json!([raw(), id(1)]), json!([id(5)])), None);
    assert_eq!(compared(json!([id(1)]), json!([raw(), id(5)])), None);
    assert_eq!(
        compared(json!([raw(), output(json!(1))]), json!([output(json!(2))])).unwrap(),
        "action 1 (invoke) at `.output`: expected 1, got 2"
    );
}
