//! What the run does, as it does it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use superstep::checkpoint::TaskId;
use superstep::{Event, Part, TaskInput};
use superstep_agent::message::ToolCall;

use crate::tell;

/// Follows a run's tasks and says on the error output which superstep runs, and which subagent does what.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// What each `task` call hands over, by the namespace of its nested run.
    parts: HashMap<String, String>,
    /// Supersteps with a task that ended well, each once, however many tasks it has.
    seen: BTreeSet<(Arc<str>, i64)>,
    /// Supersteps with a task that failed or asks.
    unfinished: BTreeSet<(Arc<str>, i64)>,
}

impl Progress {
    /// How many supersteps ran to their end: the outermost graph's, and all.
    pub(crate) fn supersteps(&self) -> (usize, usize) {
        let ended = || self.seen.difference(&self.unfinished);
        let outer = ended().filter(|(namespace, _)| namespace.is_empty());
        (outer.count(), ended().count())
    }

    pub(crate) fn follow(&mut self, part: &Part) {
        match &part.event {
            Event::TaskStarted {
                task,
                node,
                input,
                step,
                ..
            } => {
                let doing = self.doing(&part.namespace, *task, node, input);
                self.say(&part.namespace, *step, &doing);
            }
            Event::TaskEnded {
                node,
                error,
                asks,
                step,
                ..
            } => {
                let superstep = (Arc::clone(&part.namespace), *step);
                if error.is_some() || !asks.is_empty() {
                    self.unfinished.insert(superstep);
                } else {
                    self.seen.insert(superstep);
                }
                if let Some(error) = error {
                    self.say(&part.namespace, *step, &format!("{node} failed: {error}"));
                }
            }
            _ => {}
        }
    }

    fn doing(&mut self, namespace: &str, task: TaskId, node: &str, input: &TaskInput) -> String {
        let TaskInput::Payload(payload) = input else {
            return format!("{node} …");
        };
        let Some(call) = payload.get::<ToolCall>() else {
            return node.to_owned();
        };
        let text = short(&summary(call));
        if call.name == "task" {
            let separator = if namespace.is_empty() { "" } else { "|" };
            let nested = format!("{namespace}{separator}{node}:{task}");
            self.parts.insert(nested, label(&text));
        }
        format!("{} {text}", call.name)
    }

    fn say(&self, namespace: &str, step: i64, doing: &str) {
        let who = match self.parts.get(namespace) {
            Some(part) => format!("surveyor ({part})"),
            None if namespace.is_empty() => "coordinator".to_owned(),
            None => "surveyor".to_owned(),
        };
        tell::notice(format_args!("superstep {step:>3}  {who}: {doing}"));
    }
}

/// The argument that says most.
fn summary(call: &ToolCall) -> String {
    let argument = |name: &str| Some(call.args.0.get(name)?.as_str()?.to_owned());
    let pattern = argument("pattern").map(|pattern| format!("{pattern} "));
    let rest = ["path", "description"]
        .iter()
        .find_map(|name| argument(name));
    format!(
        "{}{}",
        pattern.unwrap_or_default(),
        rest.unwrap_or_default()
    )
}

/// What tells a part from the others: the first path that the text quotes, else its beginning.
fn label(text: &str) -> String {
    let quoted = text.split('`').nth(1).filter(|quoted| !quoted.is_empty());
    quoted.map_or_else(|| text.chars().take(32).collect(), str::to_owned)
}

/// The text on one line, cut where a terminal would wrap it.
fn short(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    let mut clean = line.chars().filter(|character| !character.is_control());
    let mut short: String = clean.by_ref().take(72).collect();
    if clean.next().is_some() {
        short.push('…');
    }
    short
}
