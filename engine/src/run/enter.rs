//! How a run begins: with new input, or where the thread stands.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use superstep_checkpoint::{CheckpointId, Source, StoredTask, TaskId};

use super::apply::{Applied, Due, expire};
use super::plan::{Planned, task_id};
use super::route::route;
use super::save::stored_task;
use super::{Run, START};
use crate::ask::{Answer, Answered, AskId};
use crate::error::{AnswerError, RunError, stored};
use crate::event::{Event, Modes};
use crate::record::{Done, Record, RecordState, store_done};
use crate::update::Update;

/// What a caller brings to a run.
#[derive(Debug)]
pub(crate) enum Enter {
    /// New input; whatever was due before is dropped.
    Input(Update),
    /// Nothing new but answers and edits: the thread goes on.
    Go {
        /// Answers to open questions.
        answers: Vec<Answer>,
        /// An edit of the state.
        edit: Option<Update>,
        /// The checkpoint was named. With nothing new its tasks run anew and ask anew.
        addressed: bool,
    },
}

impl Run {
    /// Brings the run to its first superstep.
    pub(crate) async fn enter(&mut self, enter: Enter) -> Result<(), RunError> {
        match self.again(enter) {
            Enter::Input(input) => {
                self.metadata = (*self.scope.metadata).clone();
                self.begin(input).await
            }
            Enter::Go { .. } if self.base.is_none() => Err(RunError::NothingToDo {
                place: self.place.to_string(),
            }),
            Enter::Go {
                answers,
                edit,
                addressed,
            } => {
                self.passes_breakpoint = true;
                match addressed {
                    false => {}
                    true if answers.is_empty() && edit.is_none() => return self.replay().await,
                    true => self.reopen().await?,
                }
                let mut changed = self.accept(answers)?;
                // An older checkpoint, or a copy of one, may hold input that is due but not applied.
                let start_is_due = self.start_is_due.is_some();
                self.passes_breakpoint &= !start_is_due;
                if start_is_due {
                    self.hold(Modes::VALUES, |run| Event::Values(run.output()));
                }
                let start = self.start()?;
                if let Some(update) = edit {
                    changed.push(self.edit(update)?);
                }
                // Everything was checked before anything is stored.
                self.store(start).await?;
                self.save_records(changed).await?;
                if !start_is_due {
                    self.tell_values_now(Some(self.output()));
                }
                Ok(())
            }
        }
    }

    /// The same, unless the thread has this input already: a run that is started again under the same id goes on.
    fn again(&mut self, enter: Enter) -> Enter {
        let same = self.scope.run.is_some() && self.scope.run.as_deref() == self.run_id.as_deref();
        match enter {
            Enter::Input(_) if same => Enter::Go {
                answers: Vec::new(),
                edit: None,
                addressed: false,
            },
            Enter::Go { .. } => {
                // What goes on is the same run, whoever takes it up.
                if self.scope.run.is_none() {
                    self.scope.run = self.run_id.as_deref().map(Into::into);
                }
                enter
            }
            enter => enter,
        }
    }

    /// Takes new input: two checkpoints, one that holds the input as due, one with the input applied.
    /// They are stored together, so the input is stored once, and bad input leaves no trace.
    async fn begin(&mut self, input: Update) -> Result<(), RunError> {
        self.abandon();
        let core = Arc::clone(&self.core);
        let done = route(&core, &self.cells, &core.entry, input);
        let done = done.map_err(|error| self.not_in_graph(error))?;
        self.check_input(&done)?;
        self.start_is_due = Some(done);
        let waiting = self.commit(Source::Input, Vec::new())?;
        let applied = self.start()?;
        self.store(waiting.into_iter().chain(applied)).await
    }

    /// Whether the input writes nothing but what callers may write.
    fn check_input(&self, done: &Done) -> Result<(), RunError> {
        let mut channels = done.writes.iter().map(|(channel, _)| *channel);
        match channels.find(|channel| !self.core.takes(*channel)) {
            None => Ok(()),
            Some(channel) => Err(RunError::NotInput {
                graph: self.core.name.clone(),
                channel: self.core.channels[channel].name().clone(),
            }),
        }
    }

    /// Applies input that is due, as the result of the hidden start task.
    fn start(&mut self) -> Result<Option<superstep_checkpoint::Commit>, RunError> {
        let Some(done) = self.start_is_due.take() else {
            return Ok(None);
        };
        self.hold_input_checkpoint()?;
        let core = Arc::clone(&self.core);
        let mut tasks = Vec::new();
        self.ran = vec![START.into()];
        if self.scope.saver.is_some() {
            tasks.push(self.start_record(&done)?);
        }
        let written = self.apply(vec![Applied {
            node: None,
            on_state: false,
            exits: &core.entry,
            done,
        }])?;
        let put_off = self.stores_at_exit().then(|| tasks.first().cloned());
        let commit = self.commit(Source::Loop, tasks)?;
        if let Some(input) = put_off.flatten() {
            self.put_off_input(input);
        }
        self.hold_values(&written);
        Ok(commit)
    }

    /// What is stored of the hidden task that applies the input.
    pub(super) fn start_record(&self, done: &Done) -> Result<StoredTask, RunError> {
        // A log of several supersteps does not say what of it was the input's.
        let logged = !self.stores_at_exit();
        let record = Record::new(START, store_done(&self.core, done, logged)?);
        stored_task(task_id(self.moment(), START, None), 0, &record)
    }

    /// Drops what is due: the work of an earlier input that was not finished.
    fn abandon(&mut self) {
        let mut routing = self.routing.clone();
        let due: Vec<Due> = std::mem::take(&mut routing.due);
        let sends = std::mem::take(&mut routing.sends);
        routing.waiting.clear();
        if due.is_empty() && sends.is_empty() {
            return;
        }
        for (at, join) in self.core.joins.iter().enumerate() {
            let dropped = due.iter().any(|due| due.node == join.target);
            if dropped && routing.is_complete(&self.core, at) {
                routing.arrived[at].clear();
            }
        }
        let emptied = expire(&mut self.cells, self.core.transient.iter().copied());
        self.dirty.channels.extend(emptied);
        self.reroute(routing);
        self.records.clear();
    }

    /// Goes back to the checkpoint the run stands on: all its tasks run again, and the state is edited again as it was
    /// for them. A fork of the checkpoint gives the tasks new ids; only where the newest checkpoint is itself
    /// such a fork, nothing has gone on from it, and it serves as it is.
    async fn replay(&mut self) -> Result<(), RunError> {
        self.records.clear();
        self.inbox.journal.forget();
        self.scope.answers = Arc::default();
        self.replays = true;
        for edit in self.stored_results().await?.edits {
            self.take_edit(self.next_edit(), edit)?;
        }
        let edited = matches!(self.source, Source::Update | Source::Fork);
        let fork = if edited && self.base == self.newest {
            None
        } else {
            self.commit(Source::Fork, Vec::new())?
        };
        self.hold(Modes::VALUES, |run| Event::Values(run.output()));
        // Breakpoints behind an input count; it is the tasks that had been reached that are passed.
        self.passes_breakpoint &= self.start_is_due.is_none();
        let start = self.start()?;
        self.store(fork.into_iter().chain(start)).await
    }

    /// Opens again what was asked last by the tasks that went on from this checkpoint.
    /// How the state was edited for them stays with them. What graphs nested in them asked stays answered:
    /// those graphs have gone on since, and an answer would not reach them.
    async fn reopen(&mut self) -> Result<(), RunError> {
        let (Some(saver), Some(base)) = (&self.scope.saver, self.base) else {
            return Ok(());
        };
        // Newest last: if several branches went on from here, the latest counts.
        for task in saver.tasks(&self.place, base).await?.into_iter().rev() {
            let mut record = Record::open(&task.record)?;
            record
                .asks
                .retain(|ask| ask.namespace == *self.place.namespace);
            if task.child.is_some() && !record.asks.is_empty() {
                record
                    .answers
                    .retain(|(id, _)| record.asks.iter().all(|ask| ask.id != *id));
                record.state = RecordState::Open;
                self.records.entry(task.id).or_insert(record);
            }
        }
        self.use_answers();
        Ok(())
    }

    /// Gives answers to the tasks that asked, and stores them there before anything runs.
    fn accept(&mut self, answers: Vec<Answer>) -> Result<Vec<StoredTask>, RunError> {
        let tasks = self.plan_with_rescues();
        let mut open = self.open_asks(&tasks);
        let asked = open.len();
        let mut changed = HashSet::new();
        for answer in answers {
            let (task, id) = take_open(&mut open, asked, answer.id)?;
            let value = answer.json();
            let value = value.map_err(stored(format!("the answer to question {id}")))?;
            if let Some(record) = self.records.get_mut(&task) {
                record.answer(id, value);
                changed.insert(task);
            }
        }
        let mut records = Vec::new();
        for (task, position) in tasks.iter().zip(0..) {
            if changed.contains(&task.id)
                && let Some(record) = self.records.get(&task.id)
            {
                records.push(stored_task(task.id, position, record)?);
            }
        }
        self.use_answers();
        Ok(records)
    }

    /// The questions that tasks of this checkpoint wait on, in the order of the tasks.
    fn open_asks(&self, tasks: &[Planned]) -> Vec<(TaskId, AskId)> {
        let records = tasks
            .iter()
            .filter_map(|task| Some((task.id, self.records.get(&task.id)?)));
        let asks = records.flat_map(|(id, record)| record.open_asks().map(move |ask| (id, ask.id)));
        asks.collect()
    }

    /// Makes stored answers known to the tasks that run.
    pub(super) fn use_answers(&mut self) {
        let records = self.records.values();
        let open = records.filter(|record| !matches!(record.state, RecordState::Done { .. }));
        let mut known: HashMap<AskId, Answered> = open
            .flat_map(|record| record.answers.iter().cloned())
            .collect();
        if known.is_empty() {
            return;
        }
        known.extend(
            self.scope
                .answers
                .iter()
                .map(|(id, json)| (*id, json.clone())),
        );
        self.scope.answers = Arc::new(known);
    }

    /// The checkpoints of the enclosing graphs and of this one, for graphs nested in its tasks.
    pub(super) fn lineage(&self) -> Arc<[(String, CheckpointId)]> {
        let parents = &self.scope.parents;
        match self.base {
            None => Arc::clone(parents),
            Some(base) => {
                let own = (self.place.namespace.to_string(), base);
                parents.iter().cloned().chain([own]).collect()
            }
        }
    }
}

/// Takes the question that an answer is for out of the open ones.
fn take_open(
    open: &mut Vec<(TaskId, AskId)>,
    asked: usize,
    wanted: Option<AskId>,
) -> Result<(TaskId, AskId), AnswerError> {
    let at = match wanted {
        Some(id) => open
            .iter()
            .position(|(_, ask)| *ask == id)
            .ok_or(AnswerError::NotOpen(id))?,
        None if asked == 0 => return Err(AnswerError::NothingOpen),
        None if open.is_empty() => return Err(AnswerError::TooMany { open: asked }),
        None if open.len() > 1 => return Err(AnswerError::Ambiguous { open: open.len() }),
        None => 0,
    };
    Ok(open.remove(at))
}
