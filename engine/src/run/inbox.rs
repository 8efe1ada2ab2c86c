//! Storing results within tasks while the tasks run.

use std::future::poll_fn;
use std::task::{self, Poll};

use tokio::sync::mpsc;

use super::Run;
use super::save::stored_task;
use crate::error::RunError;
use crate::journal::{Entry, Journal};

/// Where tasks hand in results that are to be stored before they go on.
#[derive(Debug)]
pub(super) struct Inbox {
    pub(super) journal: Journal,
    /// Nothing on a thread that is not stored.
    entries: Option<mpsc::UnboundedReceiver<Entry>>,
    sender: Option<mpsc::UnboundedSender<Entry>>,
}

impl Inbox {
    pub(super) fn new(stores: bool) -> Self {
        let (sender, entries) = stores.then(mpsc::unbounded_channel).unzip();
        Inbox {
            journal: Journal::new(sender.clone()),
            entries,
            sender,
        }
    }

    /// Where else something can be handed in.
    pub(super) fn sender(&self) -> Option<mpsc::UnboundedSender<Entry>> {
        self.sender.clone()
    }

    /// What was handed in since.
    fn rest(&mut self) -> Vec<Entry> {
        let mut rest = Vec::new();
        while let Some(Ok(entry)) = self.entries.as_mut().map(mpsc::UnboundedReceiver::try_recv) {
            rest.push(entry);
        }
        rest
    }

    fn poll(&mut self, cx: &mut task::Context<'_>) -> Poll<Option<Entry>> {
        match &mut self.entries {
            Some(entries) => entries.poll_recv(cx),
            None => Poll::Pending,
        }
    }
}

enum Next<T> {
    Given(T),
    Entry(Entry),
    Cancelled,
}

impl Run {
    /// Waits for something, and stores what tasks hand in meanwhile. Nothing if the run was cancelled before, and no nested
    /// run is left that saves what it has.
    pub(super) async fn storing<T>(
        &mut self,
        wanted: impl Future<Output = T>,
    ) -> Result<Option<T>, RunError> {
        let mut wanted = Box::pin(wanted);
        let (control, inside) = (self.scope.control.clone(), self.inside.clone());
        let mut cancelled = Box::pin(async move {
            control.cancelled().await;
            inside.empty().await;
        });
        loop {
            let next = poll_fn(|cx| {
                if let Poll::Ready(given) = wanted.as_mut().poll(cx) {
                    return Poll::Ready(Next::Given(given));
                }
                if cancelled.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Next::Cancelled);
                }
                match self.inbox.poll(cx) {
                    Poll::Ready(Some(entry)) => Poll::Ready(Next::Entry(entry)),
                    // The run holds a sender itself, so the queue does not end.
                    Poll::Ready(None) | Poll::Pending => Poll::Pending,
                }
            });
            match next.await {
                Next::Given(given) => return Ok(Some(given)),
                Next::Cancelled => return Ok(None),
                Next::Entry(entry) => self.take_in(entry).await?,
            }
        }
    }

    async fn take_in(&mut self, first: Entry) -> Result<(), RunError> {
        let (mut records, mut stored, mut caught_up) = (Vec::new(), Vec::new(), Vec::new());
        for entry in [first].into_iter().chain(self.inbox.rest()) {
            match entry {
                Entry::Result(id, record, reply) => {
                    records.push(stored_task(id, u32::MAX, &record)?);
                    stored.push(reply);
                }
                Entry::CatchUp(reply) => caught_up.push(reply),
            }
        }
        self.save_records(records).await?;
        if !caught_up.is_empty() {
            self.store_put_off().await?;
        }
        for reply in stored.into_iter().chain(caught_up) {
            // Its task may be gone.
            let _ = reply.send(());
        }
        Ok(())
    }
}
