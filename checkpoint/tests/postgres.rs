//! PostgreSQL: the rules, and what only a server can get wrong. The tests start a server of their own in a temporary folder.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use superstep_checkpoint::store::MemoryStore;
use superstep_checkpoint::{
    CheckpointId, Checkpointer, Commit, Place, PostgresCheckpointer, SaveError, conformance,
};

use crate::server::{NEEDED, Server, unprivileged};
use crate::store::{answers, ops};

async fn store(server: &Server) -> PostgresCheckpointer {
    let url = server.database().await;
    PostgresCheckpointer::connect(&url).await.unwrap()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(future)
}

#[test]
fn postgres_keeps_the_rules() {
    let Some(server) = Server::shared() else {
        return;
    };
    block_on(async {
        for rule in conformance::RULES {
            println!("{rule}");
            conformance::check(rule, &store(&server).await).await;
        }
    });
}

#[test]
fn postgres_keeps_the_rules_of_stores() {
    let Some(server) = Server::shared() else {
        return;
    };
    block_on(async {
        for rule in conformance::STORE_RULES {
            println!("{rule}");
            conformance::check_store(rule, store(&server).await).await;
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn postgres_is_like_the_model(ops in crate::model::ops()) {
        if let Some(server) = Server::shared() {
            block_on(async {
                let models = crate::model::run(&store(&server).await, ops).await;
                drop(models);
            });
        }
    }

    #[test]
    fn postgres_answers_as_memory_does(batches in ops()) {
        if let Some(server) = Server::shared() {
            let memory = block_on(answers(MemoryStore::new(), batches.clone()));
            let postgres = block_on(async { answers(store(&server).await, batches).await });
            prop_assert_eq!(postgres, memory);
        }
    }
}

fn commit(number: u64) -> Commit {
    Commit {
        id: CheckpointId(number),
        born: None,
        parent: (number > 1).then_some(CheckpointId(number - 1)),
        time: number,
        header: number.to_string().into(),
        items: vec![],
        tasks: vec![],
    }
}

#[test]
fn of_many_racing_writers_one_wins_each_time() {
    let Some(server) = Server::shared() else {
        return;
    };
    block_on(async {
        let url = server.database().await;
        // They also make the tables at once.
        let stores = (0..4).map(|_| PostgresCheckpointer::connect(&url));
        let stores = futures::future::try_join_all(stores).await.unwrap();
        let place = Place::root("t");
        for number in 1..=25 {
            let commits = stores
                .iter()
                .map(|store| store.commit(&place, vec![commit(number)]));
            let ended = futures::future::join_all(commits).await;
            let won = ended.iter().filter(|ended| ended.is_ok()).count();
            assert_eq!(won, 1, "{ended:?}");
            for error in ended.into_iter().filter_map(Result::err) {
                assert!(matches!(error, SaveError::Conflict { .. }), "{error:?}");
            }
        }
        assert_eq!(stores[0].list(&place, None, 99).await.unwrap().len(), 25);
    });
}

#[test]
fn a_killed_server_keeps_what_was_acknowledged() {
    // One of its own: the others' must not die.
    let Some(server) = Server::start() else {
        return;
    };
    block_on(async {
        let store = store(&server).await;
        let place = Place::root("t");
        let mut number = 0;
        for _ in 0..3 {
            for _ in 0..10 {
                number += 1;
                store.commit(&place, vec![commit(number)]).await.unwrap();
            }
            server.kill();
            let error = store.load(&place, None).await.unwrap_err();
            assert!(matches!(error, SaveError::Backend { .. }), "{error:?}");
            server.up();
            // The same handle goes on: broken connections are not given out again.
            let loaded = store.load(&place, None).await.unwrap().unwrap();
            assert_eq!(loaded.id, CheckpointId(number));
        }
    });
}

/// A pooler in front of a server, which hands out connections by transaction.
struct Pooler<'a> {
    server: &'a Server,
    process: std::process::Child,
}

impl<'a> Pooler<'a> {
    fn start(server: &'a Server) -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
        let program = folders
            .map(|folder| folder.join("pgbouncer"))
            .find(|program| program.is_file());
        let Some(program) = program else {
            assert!(
                std::env::var_os(NEEDED).is_none(),
                "pgbouncer is not installed, and {NEEDED} is set"
            );
            let text = b"\n*** SKIPPED: pgbouncer is not installed, its test did not run ***\n";
            std::io::stderr().write_all(text).unwrap();
            return None;
        };
        let folder = server.folder().join("pooler");
        fs::create_dir(&folder).unwrap();
        let settings = format!(
            "[databases]\n* = host={}\n[pgbouncer]\nunix_socket_dir = {}\nlisten_addr =\n\
             auth_type = any\npool_mode = transaction\ndefault_pool_size = 2\nauth_file =\n",
            server.folder().display(),
            folder.display()
        );
        // Any user is taken for this one.
        let settings = settings.replace("* = host", "* = user=test host");
        let file = folder.join("settings.ini");
        fs::write(&file, settings).unwrap();
        let mut command = Command::new(program);
        command
            .args(["-q", file.to_str().unwrap()])
            .stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        if let Some((user, group)) = unprivileged() {
            chown(&folder, Some(user), Some(group)).unwrap();
            command.uid(user).gid(group);
        }
        let process = command.spawn().unwrap();
        Some(Pooler { server, process })
    }

    /// How to reach a database through it, once it answers.
    async fn reach(&self, url: &str) -> String {
        let direct = format!("host={}", self.server.folder().display());
        let url = url.replace(&direct, &format!("{direct}/pooler port=6432"));
        while tokio_postgres::connect(&url, tokio_postgres::NoTls)
            .await
            .is_err()
        {
            tokio::task::yield_now().await;
        }
        url
    }
}

impl Drop for Pooler<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn it_works_behind_a_pooler_that_hands_out_connections_by_transaction() {
    let Some(server) = Server::start() else {
        return;
    };
    let Some(pooler) = Pooler::start(&server) else {
        return;
    };
    block_on(async {
        for rule in conformance::RULES.iter().step_by(4) {
            println!("{rule}");
            let url = pooler.reach(&server.database().await).await;
            let store = PostgresCheckpointer::connect(&url).await.unwrap();
            conformance::check(rule, &store).await;
        }
        // More at once than the pooler has connections.
        let url = pooler.reach(&server.database().await).await;
        let store = PostgresCheckpointer::connect(&url).await.unwrap();
        let places: Vec<Place> = (0..20)
            .map(|number| Place::root(number.to_string()))
            .collect();
        let stored = places.iter().map(|place| async {
            for number in 1..=5 {
                store.commit(place, vec![commit(number)]).await?;
            }
            store.load(place, None).await
        });
        for loaded in futures::future::join_all(stored).await {
            assert_eq!(loaded.unwrap().unwrap().id, CheckpointId(5));
        }
    });
}

#[test]
fn a_newer_database_is_refused() {
    let Some(server) = Server::shared() else {
        return;
    };
    block_on(async {
        let url = server.database().await;
        PostgresCheckpointer::connect(&url).await.unwrap();
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        client
            .batch_execute("UPDATE superstep.version SET version = 9")
            .await
            .unwrap();
        let error = PostgresCheckpointer::connect(&url).await.unwrap_err();
        insta::assert_snapshot!(error, @"the PostgreSQL database is damaged: it has version 9, the newest known here is 1: open it with a newer release");
        let error = PostgresCheckpointer::connect("host=/nowhere user=x")
            .await
            .unwrap_err();
        assert!(matches!(error, SaveError::Backend { .. }), "{error:?}");
    });
}
