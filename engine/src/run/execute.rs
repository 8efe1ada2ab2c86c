//! Running the tasks of one superstep.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinSet};

use super::plan::Planned;
use super::route::route;
use super::{Run, Stop};
use crate::ask::Ask;
use crate::attempt::panic_text;
use crate::context::{Context, Scope, poll_once};
use crate::error::{Failure, RunError, TaskError};
use crate::executor::TaskOutcome;
use crate::record::{Done, RecordState, load_done};
use crate::update::Update;

/// A task and how it ended.
pub(super) struct Finished {
    pub(super) task: Planned,
    pub(super) ended: Ended,
    /// What it led to stood in the store already.
    saved: bool,
}

pub(super) enum Ended {
    Done(Done),
    Asked(Vec<Ask>),
    Failed(TaskError),
}

type Running = (usize, BoxFuture<'static, TaskOutcome>);

/// What is left of a task whose executor panicked or was shut down.
fn lost_task(lost: JoinError) -> TaskOutcome {
    let why = match lost.try_into_panic() {
        Ok(panic) => panic_text(&*panic),
        Err(cancelled) => cancelled.to_string(),
    };
    TaskOutcome::Failed(TaskError::Panicked(why))
}

impl Run {
    /// Runs the tasks concurrently on the same state and gives their results in canonical order.
    ///
    /// Every task is polled once right here; only those that wait are spawned. A superstep of tasks that
    /// never wait costs no spawn, and a single task that waits is awaited in place.
    /// While some tasks still run, the results of the others are saved.
    pub(super) async fn execute(&mut self, tasks: Vec<Planned>) -> Result<Vec<Finished>, RunError> {
        let mut results: Vec<Option<Finished>> = Vec::with_capacity(tasks.len());
        let mut waiting = Vec::with_capacity(tasks.len());
        let scope = Arc::new(self.scope_of_tasks());
        for (at, task) in tasks.iter().enumerate() {
            let known = self.hand_back(task)?;
            match &known {
                None => {
                    self.tell_started(task);
                    waiting.push((at, self.spawnable(task, &scope)));
                }
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
        self.save_unless_done(&results).await?;
        Ok(results)
    }

    fn scope_of_tasks(&self) -> Scope {
        Scope {
            parents: self.lineage(),
            ..self.scope.clone()
        }
    }

    fn spawnable(&self, task: &Planned, scope: &Arc<Scope>) -> BoxFuture<'static, TaskOutcome> {
        let task = self.task(task);
        let cx = Context::new(&task, Arc::clone(scope));
        self.core.executor.execute(task, cx)
    }

    /// The result of a task that finished before the run was taken up.
    fn hand_back(&mut self, task: &Planned) -> Result<Option<Finished>, RunError> {
        let Some(record) = self.records.get(&task.id) else {
            return Ok(None);
        };
        let RecordState::Done { writes, targets } = &record.state else {
            return Ok(None);
        };
        let done = load_done(&self.core, writes.clone(), targets.clone(), |_| None)?;
        Ok(Some(Finished {
            task: task.clone(),
            ended: Ended::Done(done),
            saved: true,
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
            results[at] = Some(self.finish(&tasks[at], future.await));
            return Ok(());
        }
        let runtime = Handle::try_current().map_err(|_| RunError::NoRuntime)?;
        let mut crew = JoinSet::new();
        let mut places = HashMap::new();
        for (at, future) in still {
            places.insert(crew.spawn_on(future, &runtime).id(), at);
        }
        while let Some(first) = crew.join_next_with_id().await {
            let mut batch = vec![first];
            while let Some(next) = crew.try_join_next_with_id() {
                batch.push(next);
            }
            for joined in batch {
                let (id, outcome) = joined.unwrap_or_else(|lost| (lost.id(), lost_task(lost)));
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
            TaskOutcome::Failed(error) => Ended::Failed(error),
            TaskOutcome::Done(update) => match self.route(task, update) {
                Ok(done) => Ended::Done(done),
                Err(error) => Ended::Failed(error),
            },
        };
        let finished = Finished {
            task: task.clone(),
            ended,
            saved: false,
        };
        self.tell_ended(&finished);
        finished
    }

    fn route(&self, task: &Planned, update: Update) -> Result<Done, TaskError> {
        let node = &self.core.nodes[task.node];
        route(&self.core, &self.cells, &node.exits, update)
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
            .all(|result| matches!(result.ended, Ended::Done(_)))
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
    ) -> Result<ControlFlow<Stop, Vec<(Planned, Done)>>, RunError> {
        let live = self.live_values(&results);
        let mut done = Vec::with_capacity(results.len());
        let (mut asks, mut failures) = (Vec::new(), Vec::new());
        for Finished { task, ended, .. } in results {
            match ended {
                Ended::Done(result) => done.push((task, result)),
                Ended::Asked(asked) => asks.extend(asked),
                Ended::Failed(error) => failures.push(Failure {
                    node: task.name.clone(),
                    task: task.id,
                    error,
                }),
            }
        }
        if !failures.is_empty() {
            return Err(RunError::Tasks(failures));
        }
        if asks.is_empty() {
            return Ok(ControlFlow::Continue(done));
        }
        self.tell_paused(&asks);
        self.tell_values_now(live);
        Ok(ControlFlow::Break(Stop::Paused(asks)))
    }
}
