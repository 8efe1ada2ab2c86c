//! A checkpointer behind a pointer is one, so that which one it is can be chosen at run time.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{
    CheckpointId, Checkpointer, Commit, Head, Listed, Loaded, Place, SaveError, Seen, Size,
    StoredTask, StoredThread, Stretch,
};

#[async_trait]
impl<C: Checkpointer + ?Sized> Checkpointer for Arc<C> {
    async fn load(
        &self,
        place: &Place,
        at: Option<CheckpointId>,
    ) -> Result<Option<Loaded>, SaveError> {
        (**self).load(place, at).await
    }

    async fn head(&self, place: &Place) -> Result<Option<Head>, SaveError> {
        (**self).head(place).await
    }

    async fn list(
        &self,
        place: &Place,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> Result<Vec<Listed>, SaveError> {
        (**self).list(place, before, limit).await
    }

    async fn way(&self, place: &Place, from: CheckpointId) -> Result<Vec<Stretch>, SaveError> {
        (**self).way(place, from).await
    }

    async fn tasks(&self, place: &Place, base: CheckpointId) -> Result<Vec<StoredTask>, SaveError> {
        (**self).tasks(place, base).await
    }

    async fn logs(
        &self,
        place: &Place,
        id: CheckpointId,
    ) -> Result<Vec<(String, Vec<u8>)>, SaveError> {
        (**self).logs(place, id).await
    }

    async fn commit(&self, place: &Place, commits: Vec<Commit>) -> Result<(), SaveError> {
        (**self).commit(place, commits).await
    }

    async fn save_tasks(
        &self,
        place: &Place,
        seen: Seen,
        base: CheckpointId,
        tasks: Vec<StoredTask>,
    ) -> Result<(), SaveError> {
        (**self).save_tasks(place, seen, base, tasks).await
    }

    async fn copy_thread(&self, thread: &str, to: &str) -> Result<(), SaveError> {
        (**self).copy_thread(thread, to).await
    }

    async fn delete_thread(&self, thread: &str) -> Result<(), SaveError> {
        (**self).delete_thread(thread).await
    }

    async fn remove(&self, place: &Place, ids: Vec<CheckpointId>) -> Result<(), SaveError> {
        (**self).remove(place, ids).await
    }

    async fn places(&self, after: Option<&Place>, limit: usize) -> Result<Vec<Place>, SaveError> {
        (**self).places(after, limit).await
    }

    async fn export(&self, thread: &str) -> Result<Option<StoredThread>, SaveError> {
        (**self).export(thread).await
    }

    async fn import(&self, thread: &str, stored: StoredThread) -> Result<(), SaveError> {
        (**self).import(thread, stored).await
    }

    async fn size(&self, thread: &str) -> Result<Size, SaveError> {
        (**self).size(thread).await
    }
}
