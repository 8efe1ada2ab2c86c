//! The normal form of results: two runs that differ in nothing that matters have the same.

use serde_json::Value;

use crate::ids;
use crate::order::normal_order;
use crate::result::{Done, Outcome};

/// The normal form of a case's results, whose ids are [tokens](ids::token): questions and events
/// in normal order, objects with sorted keys, ids as placeholders.
pub fn normal(outcomes: Vec<Outcome>) -> Result<Vec<Value>, serde_json::Error> {
    let ordered = outcomes
        .into_iter()
        .map(|outcome| serde_json::to_value(in_order(outcome)));
    let mut results = ordered.collect::<Result<Vec<_>, _>>()?;
    results.iter_mut().for_each(sort_questions);
    ids::number(&mut results);
    Ok(results)
}

fn in_order(mut outcome: Outcome) -> Outcome {
    if let Outcome::Done(done) = &mut outcome
        && let Done::Invoke {
            events: Some(events),
            ..
        } = &mut **done
    {
        events
            .iter_mut()
            .for_each(|event| sort_questions(&mut event.data));
        *events = normal_order(std::mem::take(events));
    }
    outcome
}

/// Sorts every list of questions by its masked text; those of a state by the task that asks.
fn sort_questions(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(sort_questions),
        Value::Object(map) => {
            map.values_mut().for_each(sort_questions);
            let asked = asked_by_tasks(map.get("tasks"));
            for key in ["interrupts", "__interrupt__"] {
                if let Some(Value::Array(questions)) = map.get_mut(key) {
                    questions.sort_by_cached_key(|question| {
                        let place = asked.iter().position(|id| Some(id) == question.get("id"));
                        (place, ids::masked(question))
                    });
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The ids of the questions of a state's tasks, in order.
fn asked_by_tasks(tasks: Option<&Value>) -> Vec<Value> {
    let tasks = tasks.and_then(Value::as_array).into_iter().flatten();
    let questions = tasks
        .filter_map(|task| task.get("interrupts")?.as_array())
        .flatten();
    questions
        .filter_map(|question| question.get("id").cloned())
        .collect()
}
