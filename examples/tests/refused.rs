//! What the program cannot work with: one line says so.

use std::fs;

use rusqlite::Connection;

use crate::program::{Home, PROJECT};
use crate::reading::put;

#[test]
fn what_cannot_be_used_is_named() {
    let home = Home::new(PROJECT);
    put(
        &home.dir().with_file_name("another"),
        "README.md",
        "# Another\n",
    );
    put(&home.dir(), "file", "x");
    let thread = home.survey().thread().to_owned();
    let cases: &[&[&str]] = &[
        &["nowhere"],
        &["project/file"],
        &["project/file/below"],
        &["project", "--model", "nonsense"],
        &["project", "--model", "openai:"],
        &["project", "--model", "openai:x"],
        &["--thread", "unknown"],
        &["--thread", "../x"],
        &["--thread", ""],
        &["--thread", "a\nb"],
        &["another", "--thread", &thread],
        &["nowhere", "--thread", &thread],
    ];
    let said = cases.iter().map(|args| {
        let ran = home.run(*args);
        assert_eq!(ran.stdout, "");
        home.plain(ran.error()).replace(&thread, "THREAD")
    });
    let said: Vec<String> = said.collect();
    insta::assert_snapshot!(said.join("\n"), @"
    cannot open nowhere: No such file or directory (os error 2)
    cannot survey HOME/project/file: `HOME/project/file` failed: Not a directory (os error 20)
    cannot open project/file/below: Not a directory (os error 20)
    --model nonsense: expected openai:NAME
    --model openai:: expected openai:NAME
    the model: not allowed, check the key and the account: the environment variable OPENAI_API_KEY is not set
    there is no thread `unknown` in HOME/out/threads.db
    `../x` is no thread id: letters, digits, `-`, `_` and `.` only
    `` is no thread id: letters, digits, `-`, `_` and `.` only
    `a b` is no thread id: letters, digits, `-`, `_` and `.` only
    thread `THREAD` surveys HOME/project, not another
    cannot open nowhere: No such file or directory (os error 2)
    ");
    fs::remove_dir_all(home.dir()).unwrap();
    let gone = home.go_on(&thread);
    insta::assert_snapshot!(home.plain(gone.error()), @"cannot survey HOME/project: `HOME/project` failed: No such file or directory (os error 2)");
}

#[test]
fn a_path_that_is_not_utf8_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    let home = Home::new([]);
    let dir = home.dir().join(std::ffi::OsStr::from_bytes(b"bad\xff"));
    fs::create_dir(&dir).unwrap();
    insta::assert_snapshot!(home.plain(home.run([dir]).error()), @"the path of HOME/project/bad� is not UTF-8");
}

#[test]
fn a_place_that_is_no_directory_keeps_no_reports() {
    let home = Home::new(PROJECT);
    fs::write(home.out(), "a file").unwrap();
    insta::assert_snapshot!(home.plain(home.survey().error()), @"cannot make HOME/out: File exists (os error 17)");
    assert_eq!(fs::read(home.out()).unwrap(), b"a file");
}

#[test]
fn a_thread_is_looked_for_only_where_there_are_threads() {
    let home = Home::new(PROJECT);
    insta::assert_snapshot!(home.plain(home.go_on("x").error()), @"cannot open HOME/out: No such file or directory (os error 2)");
    assert!(!home.out().exists());
}

#[test]
fn a_locked_database_is_waited_for_and_then_named() {
    let home = Home::new(PROJECT);
    let asked = home.run(["project", "--ask"]);
    let lock = Connection::open(home.database()).unwrap();
    lock.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let (locked, answered) = std::thread::scope(|scope| {
        let new = scope.spawn(|| home.survey());
        let answered = home.run(["--thread", asked.thread(), "--answer", "yes"]);
        (new.join().unwrap(), answered)
    });
    for ran in [locked, answered] {
        assert_eq!(
            home.plain(ran.error()),
            "the run stopped: the checkpointer failed: HOME/out/threads.db is locked by another process"
        );
    }
    drop(lock);
    let answered = home.run(["--thread", asked.thread(), "--answer", "yes"]);
    assert_eq!(answered.report(), home.survey().report());
}

#[test]
fn what_is_no_database_is_named_and_left_alone() {
    let home = Home::new(PROJECT);
    let thread = home.survey().thread().to_owned();
    let whole = fs::read(home.database()).unwrap();
    let noise: Vec<u8> = (0..9_000_u32).map(|n| (n * n % 251) as u8).collect();
    let contents: [&[u8]; 6] = [
        &noise,
        b"a text\n",
        &"a longer text\n".repeat(100).into_bytes(),
        &whole[..1],
        &whole[..600],
        &whole[..whole.len() / 2],
    ];
    let mut said = Vec::new();
    for content in contents {
        fs::write(home.database(), content).unwrap();
        let error = home.plain(home.go_on(&thread).error());
        assert_eq!(home.plain(home.survey().error()), error);
        said.push(error);
        assert!(fs::read(home.database()).unwrap() == content);
    }
    fs::remove_file(home.database()).unwrap();
    fs::create_dir(home.database()).unwrap();
    said.push(home.plain(home.survey().error()));
    insta::assert_snapshot!(said.join("\n"), @"
    the database: HOME/out/threads.db is damaged: file is not a database
    the database: HOME/out/threads.db is damaged: it is too short for a SQLite database
    the database: HOME/out/threads.db is damaged: file is not a database
    the database: HOME/out/threads.db is damaged: it is too short for a SQLite database
    the database: HOME/out/threads.db is damaged: database disk image is malformed
    the database: HOME/out/threads.db is damaged: database disk image is malformed
    the database: opening HOME/out/threads.db failed: unable to open database file: HOME/out/threads.db
    ");
}

/// Damage somewhere in the file is either told of or did not matter.
#[test]
fn damage_is_told_of_or_harmless() {
    let home = Home::new(PROJECT);
    let first = home.survey();
    let whole = fs::read(home.database()).unwrap();
    let mut told = 0;
    for at in (0..whole.len()).step_by(1_500) {
        let mut damaged = whole.clone();
        let end = whole.len().min(at + 200);
        damaged[at..end].fill(0xa5);
        fs::write(home.database(), damaged).unwrap();
        let ran = home.go_on(first.thread());
        match ran.status.code() {
            Some(0) => assert_eq!(ran.report(), first.report()),
            _ => {
                ran.error();
                told += 1;
            }
        }
    }
    assert!(told > 0);
}

#[test]
fn options_that_do_not_go_together_are_refused() {
    let home = Home::new(PROJECT);
    for args in [
        &["project", "--answer", "yes"][..],
        &["--thread", "x", "--ask"],
        &["project", "--timeout", "0"],
        &["project", "--timeout", "901"],
        &["--thread", "x", "--answer", "maybe"],
    ] {
        let ran = home.run(args);
        assert_eq!(ran.status.code(), Some(2), "{ran:#?}");
        assert!(ran.stderr.starts_with("error: "), "{ran:#?}");
        assert!(!home.out().exists());
    }
}
