//! Changes what may vary between two runs of a case: ids, the order of keys and questions, and how
//! events of different tasks interleave. Written without the code that undoes it.

use fastrand::Rng;
use serde_json::Value;
use superstep_conformance::result::{Event, Outcome};

/// The results as another run could have given them.
pub(crate) fn scrambled(results: &[Outcome], random: &mut Rng) -> Vec<Outcome> {
    let mut value = serde_json::to_value(results).unwrap();
    for result in value.as_array_mut().unwrap() {
        shuffle_questions(result, random);
        if let Some(events) = result.get_mut("events") {
            let list = serde_json::from_value(events.clone()).unwrap();
            *events = serde_json::to_value(interleaved(list, random)).unwrap();
        }
        shuffle_keys(result, random);
    }
    serde_json::from_str(&with_other_ids(&value.to_string(), random)).unwrap()
}

/// Gives every id, between its two marks, another text behind the letter of its kind.
fn with_other_ids(json: &str, random: &mut Rng) -> String {
    let mut known = std::collections::HashMap::new();
    let mut pieces = json.split('\u{E000}');
    let mut text = pieces.next().unwrap().to_owned();
    for piece in pieces {
        let (id, rest) = piece.split_once('\u{E001}').unwrap();
        let other = known
            .entry(id)
            .or_insert_with(|| format!("{:x}", random.u128(..)));
        text += &format!("\u{E000}{}{other}\u{E001}{rest}", &id[..1]);
    }
    text
}

fn shuffle_keys(value: &mut Value, random: &mut Rng) {
    match value {
        Value::Object(map) => {
            map.values_mut()
                .for_each(|value| shuffle_keys(value, random));
            let mut entries: Vec<_> = std::mem::take(map).into_iter().collect();
            random.shuffle(&mut entries);
            map.extend(entries);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| shuffle_keys(item, random)),
        _ => {}
    }
}

/// Questions that read the same keep their order: nothing tells which is which.
fn shuffle_questions(value: &mut Value, random: &mut Rng) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if let (true, Value::Array(questions)) = (key.contains("interrupt"), &mut *value) {
                    let payload = |question: &Value| question["value"].to_string();
                    let mut payloads: Vec<_> = questions.iter().map(payload).collect();
                    payloads.sort();
                    payloads.dedup();
                    if payloads.len() == questions.len() {
                        random.shuffle(questions);
                    }
                }
                shuffle_questions(value, random);
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| shuffle_questions(item, random)),
        _ => {}
    }
}

/// Swaps neighbours that could as well have come the other way round, many times over.
fn interleaved(mut events: Vec<Event>, random: &mut Rng) -> Vec<Event> {
    for _ in 0..events.len() * 6 {
        let second = random.usize(1..events.len().max(2));
        if second < events.len() && independent(&events, second) {
            events.swap(second - 1, second);
        }
    }
    events
}

/// Whether the order of an event and the one in front of it means nothing.
fn independent(events: &[Event], second: usize) -> bool {
    let (a, b) = (&events[second - 1], &events[second]);
    let (a_parts, b_parts) = (parts(a), parts(b));
    let depth = a_parts
        .iter()
        .zip(&b_parts)
        .take_while(|(a, b)| a == b)
        .count();
    let own = |event: &Event| parts(event).len() == depth;
    if [a, b]
        .into_iter()
        .any(|event| own(event) && (is_fence(event) || is_start(event)))
    {
        return false;
    }
    if !own(a) || !own(b) || lane(a) != lane(b) {
        return true;
    }
    lane(a) == "__interrupt__" || finishes_twice(events, second, &a_parts)
}

/// Whether, between the fences around it, one mode shows two results of the event's node.
fn finishes_twice(events: &[Event], at: usize, graph: &[&str]) -> bool {
    let of_graph: Vec<(usize, &Event)> = (0..)
        .zip(events)
        .filter(|(_, event)| parts(event) == graph)
        .collect();
    let here = of_graph.iter().position(|(index, _)| *index == at).unwrap();
    let segment = of_graph.split(|(_, event)| is_fence(event));
    let segment = segment
        .into_iter()
        .find(|segment| segment.iter().any(|one| *one == of_graph[here]));
    let mut modes: Vec<&str> = segment
        .unwrap()
        .iter()
        .filter(|(_, event)| lane(event) == lane(&events[at]) && is_finish(event))
        .map(|(_, event)| event.mode.as_str())
        .collect();
    modes.sort_unstable();
    modes.windows(2).any(|pair| pair[0] == pair[1])
}

fn parts(event: &Event) -> Vec<&str> {
    event
        .ns
        .split('|')
        .filter(|part| !part.is_empty())
        .collect()
}

fn asks(event: &Event) -> bool {
    event.data.get("__interrupt__").is_some()
}

fn is_fence(event: &Event) -> bool {
    match event.mode.as_str() {
        "values" => !asks(event),
        "checkpoints" => true,
        "debug" => event.data["type"] == "checkpoint",
        _ => false,
    }
}

fn is_start(event: &Event) -> bool {
    event.data.get("triggers").is_some() || event.data["type"] == "task"
}

fn is_finish(event: &Event) -> bool {
    let finished = event.data.get("result").is_some() || event.data["type"] == "task_result";
    event.mode == "updates" && !asks(event) || finished
}

fn lane(event: &Event) -> &str {
    let data = &event.data;
    match event.mode.as_str() {
        "values" | "updates" if asks(event) => "__interrupt__",
        "updates" => data
            .as_object()
            .unwrap()
            .keys()
            .find(|key| *key != "__metadata__")
            .unwrap(),
        "custom" => data["node"].as_str().unwrap(),
        "debug" => data["payload"]["name"].as_str().unwrap(),
        _ => data["name"].as_str().unwrap(),
    }
}
