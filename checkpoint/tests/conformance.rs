//! The rules, on every checkpointer.

use superstep_checkpoint::{Checkpointer, MemoryCheckpointer, conformance};

async fn all_rules<C: Checkpointer>(make: impl AsyncFn(usize) -> C) {
    for (number, rule) in conformance::RULES.iter().enumerate() {
        println!("{rule}");
        conformance::check(rule, &make(number).await).await;
    }
}

#[tokio::test]
async fn memory_keeps_the_rules() {
    all_rules(async |_| MemoryCheckpointer::new()).await;
}

#[tokio::test]
async fn sqlite_keeps_the_rules() {
    let folder = tempfile::tempdir().unwrap();
    all_rules(async |number| {
        let path = folder.path().join(format!("{number}.db"));
        superstep_checkpoint::SqliteCheckpointer::open(path).unwrap()
    })
    .await;
}
