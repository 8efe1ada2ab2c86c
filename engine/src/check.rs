//! Whether stored threads open with a graph, tried before they have to.

use superstep_checkpoint::{Checkpointer, Header, threads};

use crate::error::RunError;
use crate::graph::Graph;
use crate::state::State;

/// What came of opening the threads of a store. See [`Graph::check`].
#[derive(Debug, Default)]
pub struct Checked {
    /// The threads that open, and whose state can be read.
    pub open: Vec<String>,
    /// Those that do not, and why.
    pub refused: Vec<(String, RunError)>,
    /// Those of other graphs, which were not tried.
    pub others: Vec<String>,
}

impl<S: State> Graph<S> {
    /// Opens all threads of this graph that are in a store, with its [migration](crate::Migration), down to the graphs nested in what waits there, and writes nothing.
    /// Run it on real data before a new version of a graph goes out.
    pub async fn check<C: Checkpointer + Clone + 'static>(
        &self,
        saver: &C,
    ) -> Result<Checked, RunError> {
        let mut checked = Checked::default();
        for (thread, places) in threads(saver).await? {
            let root = places.iter().find(|place| place.namespace.is_empty());
            let newest = match root {
                Some(root) => saver.list(root, None, 1).await?.pop(),
                None => None,
            };
            // A header that cannot be read is an error of the thread, whosever it is.
            let header = newest.and_then(|newest| Header::open(&newest.header).ok());
            if header.is_some_and(|header| !self.is_of(&header)) {
                checked.others.push(thread);
                continue;
            }
            match self.opens(saver, &thread).await {
                Ok(()) => checked.open.push(thread),
                Err(error) => checked.refused.push((thread, error)),
            }
        }
        Ok(checked)
    }

    fn is_of(&self, header: &Header) -> bool {
        self.core.is_called(&header.graph)
    }

    async fn opens<C: Checkpointer + Clone + 'static>(
        &self,
        saver: &C,
        thread: &str,
    ) -> Result<(), RunError> {
        let state = self.thread(saver, thread).state_nested().await?;
        state.read::<S>()?;
        Ok(())
    }
}
