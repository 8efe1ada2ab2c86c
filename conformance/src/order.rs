//! The order of streamed events, freed of what may vary from run to run.
//!
//! What tasks of one superstep emit interleaves as it happens. Here events are put into lanes, one
//! per node, between the events whose place is certain.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

use crate::ids::{ids_in, masked};
use crate::result::Event;

/// The lane of questions: they surface at any time.
const INTERRUPT: &str = "__interrupt__";

/// Puts events into their normal order.
pub fn normal_order(events: Vec<Event>) -> Vec<Event> {
    let events = events.into_iter().map(Nested::outermost).collect();
    let ordered = order(events, &mut Ranks::default());
    ordered.into_iter().map(|nested| nested.event).collect()
}

/// Events between two fences, by lane. A fence is an event whose place is certain.
pub(crate) struct Segment<E> {
    pub(crate) lanes: BTreeMap<String, Lane<E>>,
    /// The fence behind them; none behind the last.
    pub(crate) fence: Option<E>,
}

/// What concerns one node.
pub(crate) struct Lane<E> {
    /// Nested events by the first part of their namespace, in the order they came.
    pub(crate) groups: Vec<(String, Vec<E>)>,
    /// The node's own events.
    pub(crate) own: Vec<E>,
    /// Whether own events of several tasks mix, so that their order means nothing.
    pub(crate) mixed: bool,
}

/// An event as a graph sees it that is nested in others.
#[derive(Clone, Debug)]
pub(crate) struct Nested {
    pub(crate) event: Event,
    /// Where its namespace, seen from that graph, starts.
    from: usize,
}

impl Nested {
    pub(crate) fn outermost(event: Event) -> Self {
        Nested { event, from: 0 }
    }

    fn namespace(&self) -> &str {
        self.event.ns.get(self.from..).unwrap_or_default()
    }

    /// The first part of the namespace; none if the event is the graph's own.
    fn first_part(&self) -> Option<&str> {
        self.namespace()
            .split('|')
            .next()
            .filter(|part| !part.is_empty())
    }

    fn role(&self) -> Role {
        role(&self.event)
    }

    fn lane(&self) -> String {
        let node = self.first_part().and_then(|part| part.split(':').next());
        node.map_or_else(|| own_lane(&self.event), str::to_owned)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Its place is certain.
    Fence,
    /// A task starts: certain too if it follows a fence.
    Start,
    /// A task's result.
    Finish,
    /// A question.
    Question,
    /// Something a task says while it runs.
    Remark,
}

fn role(event: &Event) -> Role {
    let data = &event.data;
    match event.mode.as_str() {
        "values" | "updates" if data.get(INTERRUPT).is_some() => Role::Question,
        "values" | "checkpoints" => Role::Fence,
        "updates" => Role::Finish,
        "tasks" if data.get("triggers").is_some() => Role::Start,
        "tasks" => Role::Finish,
        "debug" => match data.get("type").and_then(Value::as_str) {
            Some("checkpoint") => Role::Fence,
            Some("task") => Role::Start,
            _ => Role::Finish,
        },
        _ => Role::Remark,
    }
}

fn own_lane(event: &Event) -> String {
    let data = &event.data;
    let named = |key| data.get(key).and_then(Value::as_str);
    let lane = match event.mode.as_str() {
        _ if role(event) == Role::Question => Some(INTERRUPT),
        "updates" => data.as_object().and_then(|nodes| {
            nodes
                .keys()
                .map(String::as_str)
                .find(|key| *key != "__metadata__")
        }),
        "custom" => named("node"),
        "debug" => data.pointer("/payload/name").and_then(Value::as_str),
        _ => named("name"),
    };
    lane.unwrap_or_default().to_owned()
}

/// Cuts a graph's events at its fences and puts what is between into lanes.
pub(crate) fn segments(events: Vec<Nested>) -> Vec<Segment<Nested>> {
    let mut segments = Vec::new();
    let mut lanes = BTreeMap::<String, Lane<Nested>>::new();
    let mut after_fence = true;
    for event in events {
        let own = event.first_part().is_none();
        let certain = match event.role() {
            Role::Fence => true,
            Role::Start => after_fence,
            _ => false,
        };
        after_fence = own && certain;
        if after_fence {
            let fence = Some(event);
            segments.push(Segment {
                lanes: std::mem::take(&mut lanes),
                fence,
            });
        } else {
            lanes.entry(event.lane()).or_default().push(event);
        }
    }
    segments.push(Segment { lanes, fence: None });
    for segment in &mut segments {
        for (name, lane) in &mut segment.lanes {
            lane.mixed = name == INTERRUPT || lane.finishes_twice();
        }
    }
    segments
}

impl<E> Default for Lane<E> {
    fn default() -> Self {
        Lane {
            groups: Vec::new(),
            own: Vec::new(),
            mixed: false,
        }
    }
}

impl Lane<Nested> {
    fn push(&mut self, event: Nested) {
        let Some(part) = event.first_part().map(str::to_owned) else {
            return self.own.push(event);
        };
        let inner = Nested {
            from: event.from + part.len() + 1,
            event: event.event,
        };
        match self.groups.iter_mut().find(|(name, _)| *name == part) {
            Some((_, group)) => group.push(inner),
            None => self.groups.push((part, vec![inner])),
        }
    }

    /// Whether one mode shows the results of two tasks of this node.
    fn finishes_twice(&self) -> bool {
        let mut finishing = self.own.iter().filter(|event| event.role() == Role::Finish);
        let mut seen = Vec::new();
        finishing.any(|event| {
            let again = seen.contains(&&event.event.mode);
            seen.push(&event.event.mode);
            again
        })
    }
}

/// In which order ids first appear in fences: breaks ties between events that read the same.
#[derive(Clone, Default)]
struct Ranks(HashMap<String, usize>);

impl Ranks {
    fn note(&mut self, event: &Event) {
        for id in ids_in(&event.data) {
            let next = self.0.len();
            self.0.entry(id).or_insert(next);
        }
    }

    /// What an event is sorted by.
    fn key(&self, nested: &Nested) -> (String, Vec<usize>) {
        let event = &nested.event;
        let rank = |id| self.0.get(&id).copied().unwrap_or(usize::MAX);
        (
            masked(&json!({"data": event.data, "mode": event.mode})),
            ids_in(&event.data).into_iter().map(rank).collect(),
        )
    }
}

fn order(events: Vec<Nested>, ranks: &mut Ranks) -> Vec<Nested> {
    let segments = segments(events);
    for fence in segments.iter().filter_map(|segment| segment.fence.as_ref()) {
        ranks.note(&fence.event);
    }
    let mut ordered = Vec::new();
    for segment in segments {
        for lane in segment.lanes.into_values() {
            ordered.extend(order_lane(lane, ranks));
        }
        ordered.extend(segment.fence);
    }
    ordered
}

/// Nested events first, group by group, then the node's own.
fn order_lane(lane: Lane<Nested>, ranks: &Ranks) -> Vec<Nested> {
    let mut groups: Vec<_> = lane
        .groups
        .into_iter()
        .map(|(_, group)| order(group, &mut ranks.clone()))
        .collect();
    groups.sort_by_cached_key(|group| {
        group
            .iter()
            .map(|event| ranks.key(event))
            .collect::<Vec<_>>()
    });
    let mut own = lane.own;
    if lane.mixed {
        own.sort_by_cached_key(|event| ranks.key(event));
    }
    groups.into_iter().flatten().chain(own).collect()
}
