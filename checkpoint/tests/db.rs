//! The program `superstep-db`, run as its users run it.

use std::path::Path;
use std::process::{Command, Output};

use insta::assert_snapshot;
use superstep_checkpoint::{
    CheckpointId, Checkpointer, Commit, Header, Item, Place, Source, SqliteCheckpointer, frame,
};

fn header(step: i64, run: &str) -> Vec<u8> {
    let header = Header {
        source: Source::Loop,
        step,
        graph: "report".into(),
        version: 1,
        next: vec!["write".into()],
        ran: vec![],
        parents: vec![],
        run: Some(run.into()),
        metadata: Default::default(),
        copy_of: None,
        task: None,
    };
    header.seal().unwrap()
}

/// 1-2-3 with 4 on 2, and another thread.
async fn fill(path: &Path) {
    let store = SqliteCheckpointer::open(path).unwrap();
    let commit = |id: u64, parent: u64, text: &str| Commit {
        id: CheckpointId(id),
        born: None,
        parent: (parent > 0).then_some(CheckpointId(parent)),
        time: 1_700_000_000_000 + 1000 * id,
        header: header(id as i64 - 1, if id < 3 { "a" } else { "b" }),
        items: vec![(
            "text".into(),
            Item::Value(frame::encode("String", &text).unwrap()),
        )],
        tasks: vec![],
    };
    let tree = [
        commit(1, 0, "one"),
        commit(2, 1, "two"),
        commit(3, 2, "three"),
        commit(4, 2, "four"),
    ];
    store.commit(&Place::root("t"), tree.into()).await.unwrap();
    let secret = vec![commit(1, 0, "a secret that is to be forgotten")];
    store.commit(&Place::root("other"), secret).await.unwrap();
}

struct Db(tempfile::TempDir);

impl Db {
    async fn new() -> Self {
        let db = Db(tempfile::tempdir().unwrap());
        fill(&db.file()).await;
        db
    }

    fn file(&self) -> std::path::PathBuf {
        self.0.path().join("threads.db")
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let program = env!("CARGO_BIN_EXE_superstep-db");
        let mut command = Command::new(program);
        command
            .arg(self.file())
            .args(arguments)
            .current_dir(self.0.path());
        command.output().unwrap()
    }

    /// What it prints, with its exit code unless that is 0.
    fn says(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        let text = text.replace(&self.0.path().display().to_string(), "FOLDER");
        match output.status.code() {
            Some(0) => text.trim_end().to_owned(),
            code => format!("{}\nexit code {code:?}", text.trim_end()),
        }
    }
}

#[tokio::test]
async fn it_shows_what_is_there() {
    let db = Db::new().await;
    assert_snapshot!(db.says(&["threads"]), @"
    checkpoints  graphs        bytes  thread
              1       1           90  other
              4       1          247  t
    ");
    assert_snapshot!(db.says(&["history", "t"]), @"
    1 loop step 0 2023-11-14T22:13:21Z next write run a
    2 loop step 1 2023-11-14T22:13:22Z on 1 next write run a
    │ 4 loop step 3 2023-11-14T22:13:24Z on 2 next write run b
    3 loop step 2 2023-11-14T22:13:23Z on 2 next write run b
    ");
    assert_snapshot!(db.says(&["show", "t", "3"]), @r#"
    {
      "checkpoint": 3,
      "parent": 2,
      "time_ms": 1700000003000,
      "header": {
        "source": "loop",
        "step": 2,
        "graph": "report",
        "version": 1,
        "next": [
          "write"
        ],
        "ran": [],
        "parents": [],
        "run": "b",
        "metadata": {},
        "copy_of": null,
        "task": null
      },
      "channels": {
        "text": {
          "type": "String",
          "bytes": 6,
          "value": "three",
          "checkpoint": 3
        }
      },
      "waiting": []
    }
    "#);
    assert_snapshot!(db.says(&["size", "t"]), @"
    count        bytes  what    channel, graph, thread
        4          164  header  -, -, t
        4           83  value   text, -, t
    ");
    assert_snapshot!(db.says(&["verify"]), @"2 threads looked at, 0 damaged");
}

#[tokio::test]
async fn it_prunes_and_deletes_what_it_is_told() {
    let db = Db::new().await;
    assert_snapshot!(db.says(&["prune", "t", "--keep-last", "1", "--keep-heads", "--dry-run"]), @"t: 2 checkpoints would go");
    assert_snapshot!(db.says(&["prune", "t", "--older-than", "1h", "--keep-last", "2"]), @"t: 2 checkpoints gone, 247 bytes before and 125 now");
    assert_snapshot!(db.says(&["history", "t"]), @"
    3 loop step 2 2023-11-14T22:13:23Z on 2 next write run b
    4 loop step 3 2023-11-14T22:13:24Z on 2 next write run b
    ");
    assert_snapshot!(db.says(&["delete-runs", "t", "b"]), @"2 checkpoints removed");
    assert_snapshot!(db.says(&["prune"]), @"
    say what may go: --keep-last N, --older-than AGE, or both
    exit code Some(1)
    ");
    assert_snapshot!(db.says(&["prune", "nobody", "--keep-last", "1"]), @"
    there is no thread `nobody`
    exit code Some(1)
    ");
}

#[tokio::test]
async fn what_is_erased_leaves_no_byte_behind() {
    let db = Db::new().await;
    let secret = || {
        let bytes: Vec<u8> = std::fs::read_dir(db.0.path())
            .unwrap()
            .flat_map(|file| std::fs::read(file.unwrap().path()).unwrap())
            .collect();
        bytes.windows(8).any(|window| window == b"a secret")
    };
    assert!(secret());
    assert_snapshot!(db.says(&["erase", "other"]), @"other: erased");
    assert!(!secret());
    assert_snapshot!(db.says(&["threads"]), @"
    checkpoints  graphs        bytes  thread
              4       1          247  t
    ");
    assert_snapshot!(db.says(&["erase", "other"]), @"
    there is no thread `other`
    exit code Some(1)
    ");
}

#[tokio::test]
async fn threads_move_by_archive() {
    let db = Db::new().await;
    assert_snapshot!(db.says(&["export", "all.archive"]), @"2 threads in all.archive");
    assert_snapshot!(db.says(&["export", "all.archive"]), @"
    File exists (os error 17)
    exit code Some(1)
    ");
    assert_snapshot!(db.says(&["import", "all.archive"]), @"
    thread `other` exists already: a copy needs a name of its own
    exit code Some(1)
    ");
    db.says(&["erase", "t", "other"]);
    assert_snapshot!(db.says(&["import", "all.archive"]), @"2 threads stored");
    assert_snapshot!(db.says(&["threads"]), @"
    checkpoints  graphs        bytes  thread
              1       1           90  other
              4       1          247  t
    ");
}

#[tokio::test]
async fn what_it_does_not_know_it_refuses() {
    let db = Db::new().await;
    std::fs::remove_file(db.file()).unwrap();
    assert_snapshot!(db.says(&["threads"]), @"
    there is no file FOLDER/threads.db
    exit code Some(1)
    ");
    assert!(!db.file().exists(), "it makes no file");
    std::fs::write(
        db.file(),
        "no database, but long enough to be one ".repeat(40),
    )
    .unwrap();
    assert_snapshot!(db.says(&["threads"]), @"
    FOLDER/threads.db is damaged: file is not a database
    exit code Some(1)
    ");
}

#[tokio::test]
async fn damage_is_named_and_the_exit_code_says_so() {
    let db = Db::new().await;
    let connection = rusqlite::Connection::open(db.file()).unwrap();
    connection
        .execute("UPDATE items SET value = zeroblob(9) WHERE seq = 2", [])
        .unwrap();
    drop(connection);
    assert_snapshot!(db.says(&["verify"]), @"
    thread `t`: the value of channel `text` at checkpoint 2: the bytes are no frame: they do not start with C5 53
    2 threads looked at, 1 damaged
    exit code Some(3)
    ");
    assert_snapshot!(db.says(&["show", "t", "2"]).lines().filter(|line| line.contains("error")).collect::<String>(), @r#"      "error": "the bytes are no frame: they do not start with C5 53","#);
}

/// As somebody who may not write: the superuser may always.
#[cfg(unix)]
#[tokio::test]
async fn a_file_that_may_not_be_written_is_refused() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::os::unix::process::CommandExt as _;
    let db = Db::new().await;
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    // The program must be reachable for anybody.
    let program = db.0.path().join("superstep-db");
    std::fs::copy(env!("CARGO_BIN_EXE_superstep-db"), &program).unwrap();
    mode(&program, 0o755);
    mode(&db.file(), 0o444);
    mode(db.0.path(), 0o555);
    let mut command = Command::new(&program);
    command.arg(db.file()).arg("threads").current_dir("/");
    if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
        command.uid(65534).gid(65534);
    }
    let output = command.output().unwrap();
    mode(db.0.path(), 0o755);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("the file is read-only"), "{text}");
}

#[tokio::test]
async fn damage_in_one_thread_leaves_the_others() {
    let db = Db::new().await;
    let whole = std::fs::read(db.file()).unwrap();
    let at = whole
        .windows(8)
        .position(|window| window == b"a secret")
        .unwrap();
    let mut bytes = whole;
    bytes[at] ^= 1;
    std::fs::write(db.file(), bytes).unwrap();
    assert_snapshot!(db.says(&["verify"]), @"
    thread `other`: the value of channel `text` at checkpoint 1: the frame is damaged: its checksum does not fit
    2 threads looked at, 1 damaged
    exit code Some(3)
    ");
    assert_snapshot!(db.says(&["verify", "t"]), @"1 threads looked at, 0 damaged");
    let shown = db.says(&["show", "t"]);
    assert!(shown.contains("four"), "{shown}");
}
