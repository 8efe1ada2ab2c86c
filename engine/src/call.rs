//! Calling a routine, and keeping the result of a step.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

use futures::future::BoxFuture;
use superstep_channels::{Data, Name, Type, Value};
use superstep_checkpoint::{CacheKey, TaskId};

use crate::attempt::Attempt;
use crate::context::{Context, Parked};
use crate::error::{NodeError, TaskError};
use crate::event::{Event, Modes};
use crate::executor::TaskOutcome;
use crate::journal::inner_id;
use crate::policy::{Cached, attempts, call_key};
use crate::record::{Record, RecordState, TypedBytes};
use crate::routine::Routine;

/// Where a routine leaves its result for who called it.
#[derive(Default)]
struct Slot {
    result: Option<Result<Value, TaskError>>,
    caller: Option<Waker>,
}

impl Context {
    /// Runs a piece of the node once: its result is stored before this returns, and when the node runs again, after a
    /// question, a failure or a crash, it is handed out and `work` is dropped.
    ///
    /// Steps of a task are told apart by their order, so take them in the same order every time; one that
    /// has another name than what is stored in its place fails the task. An error of `work` is not stored.
    /// When the result is handed out `work` does not run, so it must not use the context to ask, to take steps, to call routines or
    /// to run graphs ([`TaskError::InStep`]): do that beside the step, or in a routine. Names that begin with `__` are the engine's.
    /// If the process dies between the side effect and the moment its result is stored, it happens again:
    /// use [`task`](Context::task) and the step's name as idempotency key where that matters.
    ///
    /// ```
    /// use superstep::prelude::*;
    ///
    /// async fn charge(amount: u32) -> Result<String, std::io::Error> {
    ///     Ok(format!("receipt for {amount}"))
    /// }
    /// async fn pay(_: (), cx: Context) -> NodeResult {
    ///     let receipt = cx.step("charge", charge(10)).await?;
    ///     let sent: bool = cx.interrupt(&receipt).await; // the charge is not repeated
    ///     Ok(Update::new())
    /// }
    /// ```
    pub async fn step<T: Data, E: Into<NodeError>>(
        &self,
        name: impl Into<Name>,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, NodeError> {
        let name = name.into();
        self.is_no_step_in_a_step("takes a step")?;
        if name.starts_with("__") {
            return Err(TaskError::BadName { name }.into());
        }
        let id = inner_id(self.task(), "step", self.next_step());
        if let Some(known) = self.scope().journal.find(id, &name, Type::of::<T>())? {
            return typed(known, &name);
        }
        let value = self.in_step(work).await.map_err(Into::into)?;
        self.scope().journal.store(id, &name, &value).await?;
        Ok(value)
    }

    /// Calls a routine as a task of its own, which starts at once. Its result or its failure is found where the call is awaited.
    ///
    /// Calls of a task are told apart by their order, so make them in the same order every time. A routine that asks
    /// pauses its caller; routines that run beside it get done and are stored before.
    pub fn call<A: Data, R: Data>(
        &self,
        routine: &Routine<A, R>,
        argument: A,
    ) -> BoxFuture<'static, Result<R, TaskError>> {
        let name = routine.name.clone();
        let refused = match name.starts_with("__") || name.contains(['|', ':']) {
            true => Err(TaskError::BadName { name: name.clone() }),
            false => self.is_no_step_in_a_step("calls a routine"),
        };
        if let Err(error) = refused {
            return Box::pin(async move { Err(error) });
        }
        let id = inner_id(self.task(), "call", self.next_call());
        match self.scope().journal.find(id, &name, Type::of::<R>()) {
            Err(error) => return Box::pin(async move { Err(error) }),
            Ok(Some(known)) => {
                return Box::pin(async move { typed(known, &name).map_err(TaskError::Node) });
            }
            Ok(None) => {}
        }
        let slot = Arc::new(Mutex::new(Slot::default()));
        let running = perform(
            self.clone(),
            id,
            routine.clone(),
            argument,
            Arc::clone(&slot),
        );
        self.start_call(Box::pin(running));
        Box::pin(async move {
            let result = poll_fn(|cx| {
                let mut slot = lock(&slot);
                match slot.result.take() {
                    Some(result) => Poll::Ready(result),
                    None => {
                        slot.caller = Some(cx.waker().clone());
                        Poll::Pending
                    }
                }
            });
            typed(result.await?, &name).map_err(TaskError::Node)
        })
    }
}

/// Runs a routine, tells about it, stores what it gives, and leaves it in the slot.
async fn perform<A: Data, R: Data>(
    caller: Context,
    id: TaskId,
    routine: Routine<A, R>,
    argument: A,
    slot: Arc<Mutex<Slot>>,
) {
    tell_started(&caller, id, &routine.name, &argument);
    let (outcome, cached) = match find_cached(&caller, &routine, &argument).await {
        Some(known) => (TaskOutcome::Done(known), true),
        None => (attempt_it(&caller, id, &routine, &argument).await, false),
    };
    let result = match outcome {
        TaskOutcome::Done(value) => {
            let stored = caller
                .scope()
                .journal
                .store_value(id, &routine.name, &value);
            let stored = stored.await;
            if !cached {
                keep_cached(&caller, &routine, &argument, &value).await;
            }
            tell_returned(&caller, id, &routine.name, &value, cached);
            stored.map(|()| value)
        }
        TaskOutcome::Asked(asks) => {
            tell_ended(&caller, id, &routine.name, None, asks.clone());
            caller.leave(Parked::Asks(asks));
            return;
        }
        TaskOutcome::Stopped(nodes) => {
            tell_ended(&caller, id, &routine.name, None, Vec::new());
            caller.leave(Parked::Stopped(nodes));
            return;
        }
        // A wrong answer is nobody's failure: its question stands, and nobody is to take it for something else.
        TaskOutcome::Failed(error @ TaskError::BadAnswer { .. }) => {
            let text = Some(error.to_string());
            tell_ended(&caller, id, &routine.name, text, Vec::new());
            caller.leave(Parked::Failed(error));
            return;
        }
        TaskOutcome::Failed(error) => {
            tell_ended(
                &caller,
                id,
                &routine.name,
                Some(error.to_string()),
                Vec::new(),
            );
            Err(error)
        }
    };
    let waker = {
        let mut slot = lock(&slot);
        slot.result = Some(result);
        slot.caller.take()
    };
    if let Some(waker) = waker {
        waker.wake();
    }
}

async fn attempt_it<A: Data, R: Data>(
    caller: &Context,
    id: TaskId,
    routine: &Routine<A, R>,
    argument: &A,
) -> TaskOutcome<Value> {
    let policy = Arc::clone(&routine.policy);
    let (caller, routine, argument) = (caller.clone(), routine.clone(), argument.clone());
    attempts(policy, id, move |number, watched| {
        let cx = caller.of_call(id, &routine.name, number, watched);
        let (run, argument) = (Arc::clone(&routine.run), argument.clone());
        let call = Box::new(move |cx| Ok(run.call(argument, cx)));
        let attempt: BoxFuture<'static, _> = Box::pin(Attempt::of(call, cx.clone()));
        (cx, attempt)
    })
    .await
}

async fn find_cached<A: Data, R: Data>(
    caller: &Context,
    routine: &Routine<A, R>,
    argument: &A,
) -> Option<Value> {
    let (cached, key) = cache_of(caller, routine, argument)?;
    let read = async {
        let found = cached
            .store
            .get(key)
            .await
            .map_err(|error| error.to_string())?;
        found
            .map(|bytes| read_cached(&bytes, Type::of::<R>()))
            .transpose()
    };
    match read.await {
        Ok(found) => found,
        Err(error) => {
            caller.tell_cache_failed(&routine.name, error);
            None
        }
    }
}

fn read_cached(bytes: &[u8], wanted: Type) -> Result<Value, String> {
    let record = Record::open(bytes).map_err(|error| error.to_string())?;
    let RecordState::Returned { value } = record.state else {
        return Err("what is kept is no result of a routine".into());
    };
    let read = value.read(|stored, bytes| match stored == wanted.name() {
        true => wanted.decode(bytes),
        false => Err(superstep_channels::CodecError {
            type_name: wanted.name().to_owned(),
            reason: format!("what is kept is a `{stored}`"),
        }),
    });
    read.map_err(|error| error.to_string())
}

async fn keep_cached<A: Data, R: Data>(
    caller: &Context,
    routine: &Routine<A, R>,
    argument: &A,
    value: &Value,
) {
    let Some((cached, key)) = cache_of(caller, routine, argument) else {
        return;
    };
    let keep = async {
        let value = TypedBytes::checked(value).map_err(|error| error.to_string())?;
        let record = Record::new(&*routine.name, RecordState::Returned { value });
        let bytes = record.seal().map_err(|error| error.to_string())?;
        let put = cached.store.put(key, bytes, cached.ttl);
        put.await.map_err(|error| error.to_string())
    };
    if let Err(error) = keep.await {
        caller.tell_cache_failed(&routine.name, error);
    }
}

fn cache_of<'a, A: Data, R>(
    caller: &Context,
    routine: &'a Routine<A, R>,
    argument: &A,
) -> Option<(&'a Cached, CacheKey)> {
    let cached = routine.policy.cached.as_ref()?;
    // An argument without a binary form has no key; its result is computed each time.
    let key = call_key(
        &caller.graph().name,
        &routine.name,
        cached,
        &Value::new(argument.clone()),
    )
    .ok()?;
    Some((cached, key))
}

fn typed<R: Data>(value: Value, name: &Name) -> Result<R, NodeError> {
    value.take().map_err(|other| {
        NodeError::from(TaskError::Journal {
            name: name.clone(),
            reason: format!("it is a `{}`", other.type_of().name()),
        })
    })
}

fn lock(slot: &Mutex<Slot>) -> std::sync::MutexGuard<'_, Slot> {
    // Held over single assignments only.
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

fn tell_started<A: Data>(caller: &Context, id: TaskId, name: &Name, argument: &A) {
    caller.tell(Modes::TASKS, || Event::Called {
        task: id,
        routine: name.clone(),
        argument: Value::new(argument.clone()),
        step: caller.superstep(),
    });
}

fn tell_returned(caller: &Context, id: TaskId, name: &Name, value: &Value, cached: bool) {
    caller.tell(Modes::UPDATES | Modes::TASKS, || Event::Returned {
        task: id,
        routine: name.clone(),
        value: value.clone(),
        cached,
        step: caller.superstep(),
    });
}

fn tell_ended(
    caller: &Context,
    id: TaskId,
    name: &Name,
    error: Option<String>,
    asks: Vec<crate::ask::Ask>,
) {
    caller.tell(Modes::TASKS, || Event::TaskEnded {
        task: id,
        node: name.clone(),
        writes: Vec::new(),
        error,
        asks,
        step: caller.superstep(),
    });
}
