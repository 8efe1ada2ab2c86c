//! Why the tasks of a checkpoint are due, worked out from what is stored.

use std::collections::BTreeMap;

use superstep_checkpoint::{CheckpointId, TaskId};

use super::edit::EDIT;
use super::log::LOG;
use super::plan::{Path, Planned};
use super::{Run, START};
use crate::error::RunError;
use crate::explanation::{Because, Change, Explanation, Reason};
use crate::graph::{ChannelIx, Exits};
use crate::record::{Done, Record, Routed};

/// A task of the superstep that made the checkpoint.
struct Ran {
    task: TaskId,
    node: String,
    done: Done,
}

impl Run {
    /// Says why the tasks of this checkpoint are due.
    pub(crate) async fn explain(&self) -> Result<Explanation, RunError> {
        self.not_empty()?;
        let ran = self.ran_before().await?;
        let mut changed = BTreeMap::<ChannelIx, Vec<(TaskId, String)>>::new();
        for one in &ran {
            for (channel, _) in &one.done.writes {
                let by = changed.entry(*channel).or_default();
                by.push((one.task, one.node.clone()));
                by.dedup();
            }
        }
        let due = self.due();
        Ok(Explanation {
            checkpoint: self.base.unwrap_or(CheckpointId(0)),
            changed: changed
                .into_iter()
                .map(|(at, by)| Change {
                    channel: self.core.channels[at].name().clone(),
                    by,
                })
                .collect(),
            due: due
                .iter()
                .map(|task| Reason {
                    task: task.id,
                    node: task.name.clone(),
                    because: self.because(task, &ran),
                })
                .collect(),
        })
    }

    /// The tasks that made this checkpoint, in canonical order.
    async fn ran_before(&self) -> Result<Vec<Ran>, RunError> {
        let (Some(saver), Some(base)) = (&self.scope.saver, self.base) else {
            return Ok(Vec::new());
        };
        let before = self.parent.unwrap_or(CheckpointId(0));
        let mut logs = self.logs_of(&**saver, base).await?;
        let mut ran = Vec::new();
        for task in saver.tasks(&self.place, before).await? {
            let record = Record::open(&task.record)?;
            if task.child != Some(base) || record.node == LOG {
                continue;
            }
            let edited = record.node == EDIT;
            let done = self.result(&record, |channel| {
                let logged = logs.get_mut(&channel)?;
                if edited {
                    logged.edits.next()
                } else {
                    logged.tasks.next()
                }
            })?;
            ran.extend(done.map(|done| Ran {
                task: task.id,
                node: record.node,
                done,
            }));
        }
        Ok(ran)
    }

    fn because(&self, due: &Planned, ran: &[Ran]) -> Vec<Because> {
        if let Path::Send(at, _) = due.path {
            let sends = ran.iter().flat_map(|one| {
                let sends = one.done.targets.iter();
                let sends = sends.filter(|target| matches!(target, Routed::Send(..)));
                sends.map(move |_| one)
            });
            let sender = sends.skip(at).take(1);
            return sender
                .map(|one| Because::Send {
                    task: one.task,
                    node: one.node.clone(),
                })
                .collect();
        }
        ran.iter().flat_map(|one| self.led(one, due)).collect()
    }

    /// In which ways a task led to a node.
    fn led(&self, one: &Ran, due: &Planned) -> Vec<Because> {
        let (task, node) = (one.task, one.node.clone());
        let nowhere = Exits::default();
        let exits = match self.core.node_at.get(node.as_str()) {
            Some(&at) => &self.core.nodes[at].exits,
            None if node == START => &self.core.entry,
            None => &nowhere,
        };
        let mut led = Vec::new();
        if exits.edges.contains(&due.node) {
            led.push(Because::Edge {
                task,
                node: node.clone(),
            });
        }
        let mut joins = exits.joins.iter();
        if joins.any(|&join| self.core.joins[join].target == due.node) {
            led.push(Because::Join {
                task,
                node: node.clone(),
            });
        }
        let mut targets = one.done.targets.iter();
        if targets.any(|target| matches!(target, Routed::Node(to) if *to == due.node)) {
            led.push(Because::Goto { task, node });
        }
        led
    }
}
