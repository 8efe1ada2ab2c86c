//! How much is stored, as tables.

use superstep_checkpoint::{Checkpointer, Kind, threads};

use crate::Error;

/// Every thread in a line.
pub(crate) async fn threads_of(store: &dyn Checkpointer) -> Result<Vec<String>, Error> {
    Ok(threads(store).await?.into_keys().collect())
}

pub(crate) async fn print_threads(store: &dyn Checkpointer) -> Result<(), Error> {
    println!(
        "{:>11} {:>7} {:>12}  thread",
        "checkpoints", "graphs", "bytes"
    );
    for thread in threads_of(store).await? {
        let size = store.size(&thread).await?;
        println!(
            "{:>11} {:>7} {:>12}  {thread}",
            size.checkpoints(),
            size.namespaces(),
            size.bytes()
        );
    }
    Ok(())
}

pub(crate) async fn print(store: &dyn Checkpointer, thread: Option<String>) -> Result<(), Error> {
    let names = match thread {
        Some(thread) => vec![thread],
        None => threads_of(store).await?,
    };
    println!(
        "{:>8} {:>12}  {:<7} channel, graph, thread",
        "count", "bytes", "what"
    );
    for thread in names {
        for share in store.size(&thread).await?.shares {
            let what = match share.kind {
                Kind::Header => "header",
                Kind::Value => "value",
                Kind::Log => "writes",
                Kind::Task => "task",
            };
            println!(
                "{:>8} {:>12}  {what:<7} {}, {}, {thread}",
                share.count,
                share.bytes,
                or_dash(&share.channel),
                or_dash(&share.namespace)
            );
        }
    }
    Ok(())
}

fn or_dash(name: &str) -> &str {
    if name.is_empty() { "-" } else { name }
}
