//! What a graph keeps when it runs inside another.

/// What a graph keeps when it runs inside another one. See [`GraphBuilder::nesting`](crate::GraphBuilder::nesting).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nesting {
    /// Each task that runs it has checkpoints of its own: a task that is taken up again goes on inside, another starts anew.
    #[default]
    PerCall,
    /// All tasks of the node share one history in the thread: the graph keeps its state from one call to the next.
    /// One of them may run it at a time. After the enclosing graph has gone back to an older checkpoint, it goes on from
    /// what it had kept by then.
    PerThread,
    /// Nothing is stored: a task that is taken up again starts it anew. It can still ask, and is answered.
    Unstored,
}
