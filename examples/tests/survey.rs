//! What the program reports, and how it says so.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::program::{Home, PROJECT, Ran, spawn};
use crate::reading::{fact, places, put, scan};

/// All files below a directory, by path, by the plainest code there is.
fn walk(root: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap();
                files.insert(name.to_owned(), fs::read_to_string(&path).unwrap());
            }
        }
    }
    files
}

/// The rows of the table of the largest files.
fn largest(report: &str) -> Vec<(String, usize)> {
    let (_, section) = report.split_once("\n## Largest files\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|row| row.strip_prefix("| `"));
    rows.map(|row| {
        let (path, bytes) = row.trim_end_matches(" |").split_once("` | ").unwrap();
        (path.to_owned(), bytes.parse().unwrap())
    })
    .collect()
}

#[test]
fn reports_are_true_and_their_own() {
    let other = [
        ("README.txt", "Moons\n\nOf all planets.\n"),
        ("Makefile", "all:\n\techo TODO\n"),
        ("data/io.csv", "a,b\n1,2\n"),
        (
            "lib/a/b/c/orbit.c",
            "/* FIXME: round */\nint main;\n// nothing TODO\n",
        ),
    ];
    let mut reports = BTreeSet::new();
    for (files, name) in [(PROJECT, "Tides"), (other, "Moons")] {
        let home = Home::new(files);
        let report = home.survey().report();
        let files = walk(&home.dir());
        let mut sizes: Vec<_> = files
            .iter()
            .map(|(path, text)| (path.clone(), text.len()))
            .collect();
        sizes.sort_by_key(|(path, bytes)| (std::cmp::Reverse(*bytes), path.clone()));
        let readme = files
            .keys()
            .find(|path| path.starts_with("README"))
            .unwrap();
        assert!(
            report.contains(&format!("\n- `{readme}`: {name}\n")),
            "{report}"
        );
        assert_eq!(places(&report), scan(&files));
        assert_eq!(largest(&report), sizes);
        let facts = ["Files", "Bytes", "Lines of text", "TODO and FIXME"];
        let bytes = sizes.iter().map(|(_, bytes)| bytes).sum();
        let lines = files.values().map(|text| text.lines().count()).sum();
        assert_eq!(
            facts.map(|name| fact(&report, name)),
            [files.len(), bytes, lines, scan(&files).len()]
        );
        reports.insert(report);
    }
    assert_eq!(reports.len(), 2);
}

#[test]
fn the_results_are_named() {
    let home = Home::new(PROJECT);
    let ran = home.survey();
    let thread = ran.thread();
    let steps = ran
        .progress()
        .iter()
        .filter(|line| line.contains("coordinator: "))
        .count();
    let shown = home.plain(&ran.stdout).replace(thread, "THREAD");
    let digits = |text: &str| {
        text.chars()
            .filter(char::is_ascii_digit)
            .collect::<String>()
    };
    let [stored, disk] = ["stored:   ", "; the database has "].map(|before| {
        let (_, after) = shown.split_once(before).unwrap();
        digits(after.split(' ').next().unwrap())
    });
    assert!(disk.parse::<u64>().unwrap() >= stored.parse::<u64>().unwrap());
    // Two calls go along with others of their superstep.
    assert_eq!(steps, 10 + 3);
    let shown = shown.replace(&stored, "N").replace(&disk, "N");
    insta::assert_snapshot!(shown, @"
    thread:   THREAD
    database: HOME/out/threads.db
    report:   HOME/out/report-THREAD.md
    ran:      10 supersteps now, 25 with the subagents' own; the thread stands at superstep 10
    stored:   N bytes in 33 checkpoints of 4 graphs; the database has N bytes on the disk
    ");
}

#[test]
fn odd_entries_are_told_of() {
    let home = Home::new([("src/lib.rs", "//! Odd.\n")]);
    let odd = home.dir().join("odd");
    put(&odd, "binary", b"\0\x01\x02TODO\n");
    put(&odd, "latin1.txt", b"caf\xe9 TODO\n");
    put(&odd, "long.txt", "x".repeat(200_000) + " TODO\n");
    put(&odd, "big.txt", "a line of text\n".repeat(350_000));
    let bad = std::ffi::OsStr::from_bytes(b"bad\xff.txt");
    fs::write(odd.join(bad), "// TODO: unnamed\n").unwrap();
    symlink("nowhere", odd.join("broken")).unwrap();
    symlink("loop", odd.join("loop")).unwrap();
    symlink("..", odd.join("up")).unwrap();
    symlink("/etc/passwd", odd.join("outside")).unwrap();
    let _socket = UnixListener::bind(odd.join("socket")).unwrap();
    let made = Command::new("mkfifo")
        .arg(odd.join("fifo"))
        .status()
        .unwrap();
    assert!(made.success());
    let report = home.survey().report();
    let (_, told) = report.split_once("\n## TODO and FIXME (2)\n").unwrap();
    let long = format!("…{} TODO`", "x".repeat(39));
    assert!(
        told.contains("\n- `odd/latin1.txt:1: caf\u{fffd} TODO`\n"),
        "{told}"
    );
    assert!(told.contains(&long), "{told}");
    let (_, told) = told.split_once("\n## Largest files\n").unwrap();
    insta::assert_snapshot!(told, @"

    | Path | Bytes |
    |---|---:|
    | `odd/big.txt` | 5250000 |
    | `odd/long.txt` | 200006 |
    | `odd/latin1.txt` | 10 |
    | `src/lib.rs` | 9 |
    | `odd/binary` | 8 |

    ## Not read (8)

    - `odd/bad�.txt`: name can not be used in a path
    - `odd/binary`: binary
    - `odd/broken`: broken link
    - `odd/fifo`: FIFO, socket or device
    - `odd/loop`: broken link
    - `odd/outside`: link that leads outside the root
    - `odd/socket`: FIFO, socket or device
    - `odd/up`: link to a directory: not followed

    ## Limits

    - `.git` and what `.gitignore` files exclude is not in this report.
    ");
}

#[test]
fn an_empty_directory_has_a_report() {
    let report = Home::new([]).survey().report();
    assert_eq!(fact(&report, "Files"), 0);
}

#[test]
fn runs_side_by_side_share_a_database() {
    let home = Home::new(PROJECT);
    let children: Vec<_> = (0..6)
        .map(|_| spawn(&mut home.command([home.dir()])))
        .collect();
    let reports = children.into_iter().map(|child| {
        let ran = Ran::from(child.wait_with_output().unwrap());
        (ran.thread().to_owned(), ran.report())
    });
    let reports: BTreeMap<_, _> = reports.collect();
    assert_eq!(reports.len(), 6);
    assert_eq!(reports.values().collect::<BTreeSet<_>>().len(), 1);
}

#[test]
fn a_thread_is_named_so_that_it_can_be_typed() {
    let home = Home::new(PROJECT);
    for name in ["海", "-x", "a b'c"] {
        let dir = home.dir().with_file_name(name);
        put(&dir, "README.md", "# Name\n");
        let first = home.run([Path::new("--"), &dir]);
        assert_eq!(home.go_on(first.thread()).report(), first.report());
    }
}

#[test]
fn a_reader_that_goes_away_stops_nothing() {
    let home = Home::new(PROJECT);
    let mut child = spawn(&mut home.command([home.dir()]));
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!(ran.status.code(), Some(0), "{ran:#?}");
    assert!(!ran.stderr.contains("panicked"), "{ran:#?}");
    let thread = line.trim_start_matches("thread:").trim();
    assert!(home.report_of(thread).is_file());

    let mut child = spawn(&mut home.command([home.dir()]));
    drop(child.stderr.take());
    assert!(
        Ran::from(child.wait_with_output().unwrap())
            .report()
            .contains("Tides")
    );
}

#[test]
fn results_that_cannot_be_told_are_an_error() {
    let home = Home::new(PROJECT);
    let mut command = home.command([home.dir()]);
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let ran = command.stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    let ran = Ran::from(ran.wait_with_output().unwrap());
    assert_eq!(
        ran.error(),
        "cannot write the results: No space left on device (os error 28)"
    );
}
