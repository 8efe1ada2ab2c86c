//! When a run is stored.

/// When what a run does is stored, and so what a crash can take. Graphs that run inside a run follow it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Each superstep is stored before the next one begins, and each result of a task while its siblings still run.
    ///
    /// A crash takes nothing that was acknowledged: a task whose result was stored never runs again.
    #[default]
    Sync,
    /// Stored in order behind the run, which waits only when eight saves are outstanding, and at its end.
    ///
    /// A crash takes the saves that were outstanding: what is found afterwards is the thread as it was some supersteps ago,
    /// and their tasks run again. If a save fails, nothing after it is stored, and the run ends with that error.
    /// Events tell of supersteps that may not be stored yet. A run that is dropped leaves what it had handed over to be stored.
    /// It needs a Tokio runtime.
    Async,
    /// Stored once, when the run ends: done, paused, failed, at a limit or at a breakpoint. All its supersteps make one
    /// checkpoint, under whose id its events tell of each of them; results of an unfinished superstep are
    /// stored beside it. A graph inside the run is stored only if it did not get done; one that keeps
    /// [one history](crate::Nesting::PerThread) is stored at the end of each of its calls, and so is, before that, what it stands on.
    ///
    /// A crash, a run that is dropped, or a reducer that fails takes the whole run: the thread is found as it was before.
    Exit,
}
