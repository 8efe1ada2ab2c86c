//! Running the tasks of one superstep.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use futures::future::BoxFuture;
use superstep_channels::Name;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::plan::{Path, Planned, rescue};
use super::route::route;
use super::trace::in_task_span;
use super::{Run, Stop};
use crate::ask::Ask;
use crate::context::{Context, Scope, poll_once};
use crate::error::{Failure, RunError, TaskError};
use crate::executor::TaskOutcome;
use crate::graph::Exits;
use crate::policy::perform;
use crate::record::{Done, RecordState, load_done};
use crate::update::Update;

/// A task and how it ended.
pub(super) struct Finished {
    pub(super) task: Planned,
    pub(super) ended: Ended,
    /// What it led to stood in the store already.
    pub(super) saved: bool,
    /// It was kept for an equal input.
    pub(super) kept: bool,
}

#[derive(Debug)]
pub(super) enum Ended {
    Done(Done),
    Asked(Vec<Ask>),
    /// A graph inside stopped at a breakpoint.
    Stopped(Vec<Name>),
    /// It ends the graph with an update of the graph around.
    Parent(Box<Update>),
    Failed(TaskError),
    /// It failed for good with this error, and its error handler runs in its place.
    Rescued(String),
}

/// A task whose superstep can be settled.
#[derive(Clone, Debug)]
pub(super) struct Settled {
    pub(super) task: Planned,
    pub(super) done: Done,
    /// Why it failed, if its error handler ran in its place. It leads nowhere then.
    pub(super) failed: Option<String>,
}

type Running = (usize, BoxFuture<'static, TaskOutcome>);

impl Run {
    /// Runs the tasks, and the error handlers of those that fail, and gives all results in canonical order.
    pub(super) async fn execute(&mut self, tasks: Vec<Planned>) -> Result<Vec<Finished>, RunError> {
        let results = self.run_tasks(tasks).await?;
        let results = self.rescue(results).await?;
        self.save_unless_done(&results).await?;
        Ok(results)
    }

    /// Runs the error handlers of tasks that failed for good. That they failed is saved first.
    async fn rescue(&mut self, results: Vec<Finished>) -> Result<Vec<Finished>, RunError> {
        let rescue = |finished: &Finished| match &finished.ended {
            Ended::Rescued(error) => rescue(&self.core, &finished.task, error),
            _ => None,
        };
        let handlers: Vec<Planned> = results.iter().filter_map(rescue).collect();
        if handlers.is_empty() {
            return Ok(results);
        }
        let mut results: Vec<Option<Finished>> = results.into_iter().map(Some).collect();
        self.save_finished(&mut results).await?;
        let mut handled = self.run_tasks(handlers).await?.into_iter();
        let mut all = Vec::with_capacity(results.len() + handled.len());
        for finished in results.into_iter().flatten() {
            let rescued = matches!(finished.ended, Ended::Rescued(_));
            all.push(finished);
            all.extend(rescued.then(|| handled.next()).flatten());
        }
        Ok(all)
    }

    /// Runs the tasks concurrently on the same state and gives their results in canonical order.
    ///
    /// Every task is polled once right here; only those that wait are spawned. A superstep of tasks that
    /// never wait costs no spawn, and a single task that waits is awaited in place.
    /// While some tasks still run, the results of the others are saved.
    async fn run_tasks(&mut self, tasks: Vec<Planned>) -> Result<Vec<Finished>, RunError> {
        let mut results: Vec<Option<Finished>> = Vec::with_capacity(tasks.len());
        let mut waiting = Vec::with_capacity(tasks.len());
        let scope = Arc::new(self.scope_of_tasks());
        for (at, task) in tasks.iter().enumerate() {
            let known = match self.hand_back(task)? {
                None => {
                    self.tell_started(task);
                    self.find_cached(task).await?
                }
                known => known,
            };
            match &known {
                None => waiting.push((at, self.spawnable(task, &scope))),
                Some(Finished {
                    ended: Ended::Done(done),
                    ..
                }) => self.tell_update(task, done, true),
                Some(_) => {}
            }
            results.push(known);
        }
        let mut still = Vec::new();
        for (at, mut future) in waiting {
            match poll_once(&mut future).await {
                Some(outcome) => results[at] = Some(self.finish(&tasks[at], outcome)),
                None => still.push((at, future)),
            }
        }
        self.wait(&tasks, still, &mut results).await?;
        let results: Vec<Finished> = results.into_iter().flatten().collect();
        self.keep_cached(&results).await?;
        Ok(results)
    }

    fn scope_of_tasks(&self) -> Scope {
        Scope {
            parents: self.lineage(),
            replays: self.replays,
            behind: self.behind(),
            inside: self.inside.clone(),
            remaining: self.options.limit.saturating_sub(self.taken),
            journal: self.inbox.journal.clone(),
            ..self.scope.clone()
        }
    }

    fn spawnable(&self, task: &Planned, scope: &Arc<Scope>) -> BoxFuture<'static, TaskOutcome> {
        let policy = &self.core.nodes[task.node].policy;
        let planned = task;
        let task = self.task(task);
        let scope = Arc::clone(scope);
        let run = match policy {
            None => {
                let cx = Context::new(&task, scope);
                self.core.executor.execute(task, cx)
            }
            Some(policy) => {
                let executor = Arc::clone(&self.core.executor);
                perform(Arc::clone(policy), executor, task, scope)
            }
        };
        in_task_span(planned, run)
    }

    /// The result of a task that finished before the run was taken up.
    fn hand_back(&mut self, task: &Planned) -> Result<Option<Finished>, RunError> {
        let Some(record) = self.records.get(&task.id) else {
            return Ok(None);
        };
        let ended = match &record.state {
            RecordState::Open | RecordState::Returned { .. } => return Ok(None),
            RecordState::Failed => Ended::Rescued(record.error.clone().unwrap_or_default()),
            RecordState::Done { writes, targets } => Ended::Done(load_done(
                &self.core,
                writes.clone(),
                targets.clone(),
                |_| None,
            )?),
        };
        Ok(Some(Finished {
            task: task.clone(),
            ended,
            saved: true,
            kept: false,
        }))
    }

    /// Waits for the tasks that did not finish at once.
    async fn wait(
        &mut self,
        tasks: &[Planned],
        mut still: Vec<Running>,
        results: &mut [Option<Finished>],
    ) -> Result<(), RunError> {
        if still.is_empty() {
            return Ok(());
        }
        self.save_finished(results).await?;
        if still.len() == 1
            && let Some((at, future)) = still.pop()
        {
            let Some(outcome) = self.storing(future).await? else {
                return Err(self.cancelled());
            };
            results[at] = Some(self.finish(&tasks[at], outcome));
            return Ok(());
        }
        let runtime = Handle::try_current().map_err(|_| RunError::NoRuntime)?;
        let mut crew = JoinSet::new();
        let mut places = HashMap::new();
        for (at, future) in still {
            places.insert(crew.spawn_on(future, &runtime).id(), at);
        }
        while !crew.is_empty() {
            let Some(first) = self.storing(crew.join_next_with_id()).await? else {
                self.save_finished(results).await?;
                return Err(self.cancelled());
            };
            let mut batch: Vec<_> = first.into_iter().collect();
            while let Some(next) = crew.try_join_next_with_id() {
                batch.push(next);
            }
            for joined in batch {
                let (id, outcome) = joined
                    .unwrap_or_else(|lost| (lost.id(), TaskOutcome::Failed(TaskError::lost(lost))));
                let at = places[&id];
                results[at] = Some(self.finish(&tasks[at], outcome));
            }
            if !crew.is_empty() {
                self.save_finished(results).await?;
            }
        }
        Ok(())
    }

    /// Turns an outcome into a result, and tells about it.
    fn finish(&self, task: &Planned, outcome: TaskOutcome) -> Finished {
        let ended = match outcome {
            TaskOutcome::Asked(asks) => Ended::Asked(asks),
            TaskOutcome::Stopped(nodes) => Ended::Stopped(nodes),
            TaskOutcome::Done(Update {
                parent: Some(update),
                ..
            }) => Ended::Parent(update),
            TaskOutcome::Failed(error) => self.failed(task, error),
            TaskOutcome::Done(update) => match self.route(task, update) {
                Ok(done) => Ended::Done(done),
                Err(error) => self.failed(task, error),
            },
        };
        let finished = Finished {
            task: task.clone(),
            ended,
            saved: false,
            kept: false,
        };
        self.tell_ended(&finished);
        finished
    }

    /// A failure, which the node's error handler takes if there is one. A wrong answer is not the node's: its question stands.
    fn failed(&self, task: &Planned, error: TaskError) -> Ended {
        let rescued = !matches!(error, TaskError::BadAnswer { .. })
            && !matches!(task.path, Path::Failure(..))
            && self.core.nodes[task.node].handler.is_some();
        match rescued {
            true => Ended::Rescued(error.to_string()),
            false => Ended::Failed(error),
        }
    }

    fn route(&self, task: &Planned, update: Update) -> Result<Done, TaskError> {
        let nowhere = Exits::default();
        let exits = match task.path {
            Path::Failure(..) => &nowhere,
            Path::State | Path::Send(..) => &self.core.nodes[task.node].exits,
        };
        route(&self.core, &self.cells, exits, update)
    }

    /// Saves what finished since the last time, while other tasks still run.
    async fn save_finished(&mut self, results: &mut [Option<Finished>]) -> Result<(), RunError> {
        let fresh = results.iter().enumerate();
        let fresh = fresh.filter_map(|(at, result)| Some((at, result.as_ref()?)));
        let fresh: Vec<_> = fresh.filter(|(_, result)| !result.saved).collect();
        self.save_results(fresh.iter().copied()).await?;
        for result in results.iter_mut().flatten() {
            result.saved = true;
        }
        Ok(())
    }

    /// Saves what is not saved yet if the superstep ends here, because a task asks or failed.
    async fn save_unless_done(&mut self, results: &[Finished]) -> Result<(), RunError> {
        if results
            .iter()
            .all(|result| matches!(result.ended, Ended::Done(_) | Ended::Rescued(_)))
        {
            return Ok(());
        }
        let fresh = results
            .iter()
            .enumerate()
            .filter(|(_, result)| !result.saved);
        self.save_results(fresh).await
    }

    /// The results if all tasks are done; otherwise the run stops here.
    pub(super) fn done_or_stop(
        &mut self,
        results: Vec<Finished>,
    ) -> Result<ControlFlow<Stop, Vec<Settled>>, RunError> {
        let live = self.live_values(&results);
        let mut done = Vec::with_capacity(results.len());
        let (mut asks, mut failures, mut stops) = (Vec::new(), Vec::new(), Vec::new());
        let mut parent: Option<(Name, Box<Update>)> = None;
        for Finished { task, ended, .. } in results {
            match ended {
                Ended::Done(result) => done.push(Settled {
                    task,
                    done: result,
                    failed: None,
                }),
                Ended::Rescued(error) => done.push(Settled {
                    task,
                    done: Done::default(),
                    failed: Some(error),
                }),
                Ended::Asked(asked) => asks.extend(asked),
                Ended::Stopped(nodes) => stops.extend(nodes),
                Ended::Parent(update) => {
                    parent = Some(match parent {
                        None => (task.name, update),
                        // Several tasks leave: the graph around takes what all of them say, in order.
                        Some((node, first)) => (node, Box::new(first.merge(*update))),
                    });
                }
                Ended::Failed(error) => failures.push(Failure {
                    node: task.name.clone(),
                    task: task.id,
                    error,
                }),
            }
        }
        if !asks.is_empty() {
            self.tell_paused(&asks);
        }
        if !failures.is_empty() {
            return Err(RunError::Tasks(failures));
        }
        if let Some((node, update)) = parent {
            return Ok(ControlFlow::Break(Stop::Parent { node, update }));
        }
        if asks.is_empty()
            && let Some(stop) = self.stop_at(stops)
        {
            return Ok(ControlFlow::Break(stop));
        }
        if asks.is_empty() {
            return Ok(ControlFlow::Continue(done));
        }
        self.tell_values_now(live);
        Ok(ControlFlow::Break(Stop::Paused(asks)))
    }
}
