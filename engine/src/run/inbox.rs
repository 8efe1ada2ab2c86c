//! Storing results within tasks while the tasks run.

use std::future::poll_fn;
use std::task::Poll;

use tokio::sync::mpsc;

use super::Run;
use super::save::stored_task;
use crate::error::RunError;
use crate::journal::{Entry, Journal};
use crate::record::RecordState;

/// Where tasks hand in results that are to be stored before they go on.
#[derive(Debug)]
pub(super) struct Inbox {
    sender: mpsc::UnboundedSender<Entry>,
    entries: mpsc::UnboundedReceiver<Entry>,
}

enum Next<T> {
    Given(T),
    Entry(Entry),
    Cancelled,
}

impl Run {
    /// What tasks need to store results and to find those of earlier attempts.
    pub(super) fn journal(&mut self) -> Journal {
        if self.scope.saver.is_none() {
            return Journal::default();
        }
        let inbox = self.journal.get_or_insert_with(|| {
            let (sender, entries) = mpsc::unbounded_channel();
            Inbox { sender, entries }
        });
        let records = self.records.iter();
        let returned = |state: &RecordState| matches!(state, RecordState::Returned { .. });
        let known = records.filter(|(_, record)| returned(&record.state));
        let known = known.map(|(id, record)| (*id, record.clone())).collect();
        Journal::new(known, Some(inbox.sender.clone()))
    }

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
                let inbox = self.journal.as_mut();
                match inbox.map(|inbox| inbox.entries.poll_recv(cx)) {
                    Some(Poll::Ready(Some(entry))) => Poll::Ready(Next::Entry(entry)),
                    // The run holds a sender itself, so the queue does not end.
                    Some(_) | None => Poll::Pending,
                }
            });
            match next.await {
                Next::Given(given) => return Ok(Some(given)),
                Next::Cancelled => return Ok(None),
                Next::Entry(entry) => self.store_entry(entry).await?,
            }
        }
    }

    async fn store_entry(&mut self, entry: Entry) -> Result<(), RunError> {
        let mut entries = vec![entry];
        if let Some(inbox) = &mut self.journal {
            while let Ok(more) = inbox.entries.try_recv() {
                entries.push(more);
            }
        }
        let records = entries
            .iter()
            .map(|entry| stored_task(entry.id, u32::MAX, &entry.record));
        let records = records.collect::<Result<_, _>>()?;
        self.save_records(records).await?;
        for Entry { id, record, stored } in entries {
            self.records.insert(id, record);
            // Its task may be gone.
            let _ = stored.send(());
        }
        Ok(())
    }
}
