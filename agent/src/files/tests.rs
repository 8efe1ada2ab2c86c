//! Every operation on real directories, with every hostile form of file and path.

use std::ffi::OsStr;
use std::fmt::{Debug, Display};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use schemars::schema_for;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

struct Fixture {
    temp: TempDir,
    disk: Disk,
}

impl Fixture {
    fn new(files: &[(&str, &[u8])]) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("root");
        fs::create_dir(&root).unwrap();
        for (path, content) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let disk = Disk::open(&root).unwrap();
        Self { temp, disk }
    }

    fn root(&self) -> PathBuf {
        self.temp.path().join("root")
    }

    fn outside(&self) -> PathBuf {
        self.temp.path().join("outside")
    }

    fn link(&self, target: impl AsRef<Path>, name: &str) {
        symlink(target, self.root().join(name)).unwrap();
    }
}

/// A tree with every kind of entry that may do harm.
fn hostile() -> Fixture {
    let fixture = Fixture::new(&[
        ("a.txt", b"one\ntwo x\n"),
        ("app/[...slug]/page.tsx", b"page\n"),
        ("back\\slash", b"x\n"),
        ("bin.dat", b"x\0y"),
        ("crlf.txt", b"x\r\ny\r\n"),
        ("empty.txt", b""),
        ("grün 🦀.txt", "ü x\n".as_bytes()),
        ("image.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
        ("latin.txt", b"caf\xe9 x\n"),
        ("new\nline.txt", b"x\n"),
        ("real/in.txt", b"inside x\n"),
        ("report..final.md", b"done"),
    ]);
    fs::write(fixture.root().join(OsStr::from_bytes(b"\xff.txt")), "x\n").unwrap();
    fs::create_dir(fixture.outside()).unwrap();
    fs::write(fixture.outside().join("secret.txt"), "secret x\n").unwrap();
    fixture.link("real", "in");
    fixture.link(fixture.root().join("real"), "in-abs");
    fixture.link("real/../a.txt", "in-file");
    fixture.link("../outside", "out");
    fixture.link(fixture.outside(), "out-abs");
    fixture.link("out/secret.txt", "out-file");
    fixture.link("..", "parent");
    fixture.link("/dev/zero", "zero");
    fixture.link("/proc/self/root", "proc");
    fixture.link("nowhere", "broken");
    fixture.link("loop", "loop");
    fixture.link("pong", "ping");
    fixture.link("ping", "pong");
    fixture.link(".", "self");
    let fifo = fixture.root().join("fifo");
    assert!(Command::new("mkfifo").arg(fifo).status().unwrap().success());
    fixture.link("fifo", "to-fifo");
    drop(UnixListener::bind(fixture.root().join("socket")).unwrap());
    fixture
}

/// What the model gets.
fn text<T: Display>(result: Result<T, FileError>) -> String {
    result.map_or_else(|error| error.to_string(), |value| value.to_string())
}

fn read_at(disk: &Disk, path: &str) -> String {
    text(read(
        disk,
        &ReadArgs {
            path: path.into(),
            ..Default::default()
        },
    ))
}

fn ls_at(disk: &Disk, path: &str) -> String {
    text(ls(
        disk,
        &LsArgs {
            path: path.into(),
            after: None,
        },
    ))
}

fn glob_at(disk: &Disk, path: &str) -> String {
    let args = GlobArgs {
        pattern: "*.txt".into(),
        path: path.into(),
        ..Default::default()
    };
    text(glob(disk, &args))
}

fn grep_at(disk: &Disk, path: &str) -> String {
    let args = GrepArgs {
        pattern: "x".into(),
        path: path.into(),
        ..Default::default()
    };
    text(grep(disk, &args))
}

fn write_at(disk: &Disk, path: &str) -> String {
    text(write(
        disk,
        &WriteArgs {
            path: path.into(),
            content: "new\n".into(),
            overwrite: true,
        },
    ))
}

fn stat_at(disk: &Disk, path: &str) -> String {
    let stat = VirtualPath::parse(path).and_then(|path| stat(disk, &path));
    stat.map_or_else(|error| error.to_string(), |stat| format!("{stat:?}"))
}

type Operation = fn(&Disk, &str) -> String;

#[test]
fn what_a_path_leads_to_decides_about_every_operation() {
    const OUTSIDE: &str =
        "`PATH` leads outside the root through a link: only files below `/` can be used";
    const BROKEN: &str =
        "`PATH` goes through a broken link: its target is missing, or leads back to the link";
    const MISSING: &str = "`PATH` does not exist: list its directory with ls, or search with glob";
    const DOTS: &str =
        "`PATH` is not a valid path: it holds `..`: write the path from the root `/`";
    const SPECIAL: &str = "`PATH` is a FIFO, socket or device: name a regular file";
    const NO_DIRECTORY: &str = "`PATH` is not a directory: name a directory, or read it as a file";

    let rows: &[(Operation, &str, &str)] = &[
        // Names that only look odd.
        (
            read_at,
            "/report..final.md",
            "`PATH`, lines 1-1 of 1:\n     1\tdone",
        ),
        (
            read_at,
            "app/./[...slug]//page.tsx/",
            "`/app/[...slug]/page.tsx`, lines 1-1 of 1:\n     1\tpage",
        ),
        (
            read_at,
            "//grün 🦀.txt",
            "`/grün 🦀.txt`, lines 1-1 of 1:\n     1\tü x",
        ),
        // Kinds of text.
        (read_at, "/empty.txt", "`PATH` is empty"),
        (
            read_at,
            "/crlf.txt",
            "`PATH`, lines 1-2 of 2:\n     1\tx\n     2\ty",
        ),
        (
            read_at,
            "/latin.txt",
            "`PATH`, lines 1-1 of 1:\n     1\tcaf\u{FFFD} x",
        ),
        (
            read_at,
            "/bin.dat",
            "`PATH` is not text: binary data, 3 bytes",
        ),
        (
            read_at,
            "/image.png",
            "`PATH` is not text: a PNG image, 16 bytes",
        ),
        (stat_at, "/image.png", "Stat { size: 16, lines: None }"),
        (stat_at, "/crlf.txt", "Stat { size: 6, lines: Some(2) }"),
        (
            stat_at,
            "/report..final.md",
            "Stat { size: 4, lines: Some(1) }",
        ),
        (stat_at, "/fifo", SPECIAL),
        // Links that stay inside.
        (
            read_at,
            "/in/in.txt",
            "`PATH`, lines 1-1 of 1:\n     1\tinside x",
        ),
        (
            read_at,
            "/in-abs/in.txt",
            "`PATH`, lines 1-1 of 1:\n     1\tinside x",
        ),
        (
            read_at,
            "/in-file",
            "`PATH`, lines 1-2 of 2:\n     1\tone\n     2\ttwo x",
        ),
        (
            read_at,
            "/self/self/self/in/in.txt",
            "`PATH`, lines 1-1 of 1:\n     1\tinside x",
        ),
        (ls_at, "/in", "entries of `PATH`: 1\nin.txt (9 bytes)"),
        (glob_at, "/in", "files that match: 1\n/in/in.txt (9 bytes)"),
        (
            glob_at,
            "/in-abs/in.txt",
            "files that match: 1\n/in-abs/in.txt (9 bytes)",
        ),
        (
            grep_at,
            "/in-abs",
            "lines that match: 1, files searched: 1\n/in-abs/in.txt:1: inside x",
        ),
        (
            grep_at,
            "/in-file",
            "lines that match: 1, files searched: 1\n/in-file:2: two x",
        ),
        (read_at, "/in/missing.txt", MISSING),
        // Links that leave.
        (read_at, "/out/secret.txt", OUTSIDE),
        (read_at, "/out-abs/secret.txt", OUTSIDE),
        (read_at, "/out-file", OUTSIDE),
        (read_at, "/parent/outside/secret.txt", OUTSIDE),
        (read_at, "/parent/root/a.txt", OUTSIDE),
        (read_at, "/self/self/out/secret.txt", OUTSIDE),
        (read_at, "/zero", OUTSIDE),
        (read_at, "/proc/etc/hostname", OUTSIDE),
        (ls_at, "/out", OUTSIDE),
        (glob_at, "/out-abs", OUTSIDE),
        (grep_at, "/out", OUTSIDE),
        (grep_at, "/out-file", OUTSIDE),
        (
            write_at,
            "/out/secret.txt",
            "`/out` leads outside the root through a link: only files below `/` can be used",
        ),
        (write_at, "/out-file", OUTSIDE),
        (
            write_at,
            "/out/new/deep.txt",
            "`/out/new` leads outside the root through a link: only files below `/` can be used",
        ),
        (
            write_at,
            "/out-abs/new.txt",
            "`/out-abs` leads outside the root through a link: only files below `/` can be used",
        ),
        // Links that lead nowhere.
        (read_at, "/broken", BROKEN),
        (read_at, "/loop", BROKEN),
        (ls_at, "/ping", BROKEN),
        (glob_at, "/loop/x", BROKEN),
        (grep_at, "/broken", BROKEN),
        (write_at, "/broken", BROKEN),
        (
            write_at,
            "/broken/x.txt",
            "`/broken` goes through a broken link: its target is missing, or leads back to the link",
        ),
        (write_at, "/loop", BROKEN),
        // Links to write through.
        (
            write_at,
            "/in-file",
            "`PATH` is a link: name a regular file",
        ),
        (write_at, "/in", "`PATH` is a link: name a regular file"),
        // The wrong kind of thing.
        (read_at, "/", "`PATH` is a directory: name a regular file"),
        (
            read_at,
            "/real",
            "`PATH` is a directory: name a regular file",
        ),
        (write_at, "/", "`PATH` is a directory: name a regular file"),
        (
            write_at,
            "/real/",
            "`/real` is a directory: name a regular file",
        ),
        (
            write_at,
            "/a.txt/b.txt",
            "`/a.txt` is not a directory: name a directory, or read it as a file",
        ),
        (read_at, "/a.txt/b.txt", MISSING),
        (ls_at, "/a.txt", NO_DIRECTORY),
        (ls_at, "/fifo", NO_DIRECTORY),
        (read_at, "/fifo", SPECIAL),
        (read_at, "/to-fifo", SPECIAL),
        (read_at, "/socket", SPECIAL),
        (grep_at, "/fifo", SPECIAL),
        (glob_at, "/socket", SPECIAL),
        (write_at, "/fifo", SPECIAL),
        // Paths of the host.
        (read_at, "/etc/passwd", MISSING),
        (ls_at, "/etc", MISSING),
        // Paths that are none.
        (read_at, "/../outside/secret.txt", DOTS),
        (read_at, "/a/../../x", DOTS),
        (ls_at, "..", DOTS),
        (glob_at, "real/..", DOTS),
        (grep_at, "/in/../a.txt", DOTS),
        (write_at, "../escape.txt", DOTS),
        (
            read_at,
            "/a.txt\0.png",
            "`/a.txt\\u{0}.png` is not a valid path: it holds a control character: use printable characters only",
        ),
        (
            read_at,
            "new\nline.txt",
            "`new\\nline.txt` is not a valid path: it holds a control character: use printable characters only",
        ),
        (
            write_at,
            "/a\u{2028}b",
            "`/a\\u{2028}b` is not a valid path: it holds a control character: use printable characters only",
        ),
        (
            read_at,
            "C:\\Windows",
            "`PATH` is not a valid path: it holds a backslash: separate names with `/`",
        ),
        (
            read_at,
            "C:/Windows",
            "`PATH` is not a valid path: it begins with a drive letter: paths begin at the root `/`",
        ),
        (
            write_at,
            "..\\..\\x",
            "`PATH` is not a valid path: it holds a backslash: separate names with `/`",
        ),
        (
            read_at,
            "~/.ssh/id_rsa",
            "`PATH` is not a valid path: it begins with `~`: there is no home directory, paths begin at the root `/`",
        ),
    ];
    let fixture = hostile();
    for (operation, path, expected) in rows {
        assert_eq!(
            operation(&fixture.disk, path),
            expected.replace("PATH", path),
            "{path}"
        );
    }
    let outside: Vec<_> = fs::read_dir(fixture.outside()).unwrap().collect();
    assert_eq!(outside.len(), 1);
    assert_eq!(
        fs::read(fixture.outside().join("secret.txt")).unwrap(),
        b"secret x\n"
    );
}

#[test]
fn a_long_path_is_refused_and_shown_in_part() {
    let fixture = Fixture::new(&[]);
    let shown = "a".repeat(200);
    assert_eq!(
        read_at(&fixture.disk, &"a".repeat(5000)),
        format!("`{shown}…` is not a valid path: it is longer than 4096 bytes")
    );
    assert_eq!(
        write_at(&fixture.disk, &"a".repeat(256)),
        format!("`{shown}…` is not a valid path: it holds a name of more than 255 bytes")
    );
    let longest = "a".repeat(255);
    assert_eq!(
        write_at(&fixture.disk, &longest),
        format!("wrote `/{longest}`, bytes: 4, lines: 1")
    );
}

#[test]
fn a_listing_shows_everything_and_opens_nothing() {
    insta::assert_snapshot!(ls_at(&hostile().disk, "."), @r"
    entries of `/`: 30
    a.txt (10 bytes)
    app/
    back\slash (name can not be used in a path)
    bin.dat (3 bytes)
    broken (broken link)
    crlf.txt (6 bytes)
    empty.txt (0 bytes)
    fifo (FIFO, socket or device)
    grün 🦀.txt (5 bytes)
    image.png (16 bytes)
    in -> /real/
    in-abs -> /real/
    in-file -> /a.txt (10 bytes)
    latin.txt (7 bytes)
    loop (broken link)
    new\nline.txt (name can not be used in a path)
    out (link that leads outside the root)
    out-abs (link that leads outside the root)
    out-file (link that leads outside the root)
    parent (link that leads outside the root)
    ping (broken link)
    pong (broken link)
    proc (link that leads outside the root)
    real/
    report..final.md (4 bytes)
    self -> /
    socket (FIFO, socket or device)
    to-fifo (FIFO, socket or device)
    zero (link that leads outside the root)
    �.txt (name can not be used in a path)
    ");
}

#[test]
fn a_search_goes_round_what_it_can_not_use_and_says_so() {
    let fixture = hostile();
    insta::assert_snapshot!(glob_at(&fixture.disk, "/"), @r"
    files that match: 6
    /a.txt (10 bytes)
    /crlf.txt (6 bytes)
    /empty.txt (0 bytes)
    /grün 🦀.txt (5 bytes)
    /latin.txt (7 bytes)
    /real/in.txt (9 bytes)
    not searched:
    /back\slash (name can not be used in a path)
    /broken (broken link)
    /fifo (FIFO, socket or device)
    /in -> /real/
    /in-abs -> /real/
    /loop (broken link)
    /new\nline.txt (name can not be used in a path)
    /out (link that leads outside the root)
    /out-abs (link that leads outside the root)
    /out-file (link that leads outside the root)
    /parent (link that leads outside the root)
    /ping (broken link)
    /pong (broken link)
    /proc (link that leads outside the root)
    /self -> /
    /socket (FIFO, socket or device)
    /to-fifo (FIFO, socket or device)
    /zero (link that leads outside the root)
    /�.txt (name can not be used in a path)
    ");
    let args = GrepArgs {
        pattern: "x".into(),
        ..Default::default()
    };
    let result = grep(&fixture.disk, &args).unwrap();
    let found = result
        .matches
        .iter()
        .map(|found| format!("{}:{}", found.path, found.line));
    assert_eq!(
        found.collect::<Vec<_>>(),
        [
            "/a.txt:2",
            "/crlf.txt:1",
            "/grün 🦀.txt:1",
            "/in-file:2",
            "/latin.txt:1",
            "/real/in.txt:1",
        ]
    );
    assert_eq!((result.files, result.more), (9, 0));
    let skipped: Vec<_> = result
        .skipped
        .entries
        .iter()
        .map(|(path, _)| path.as_str())
        .collect();
    assert_eq!(skipped[..3], ["/back\\slash", "/bin.dat", "/broken"]);
    assert_eq!(skipped.len() as u64 + result.skipped.more, 21);
}

#[test]
fn ignore_files_are_obeyed_unless_everything_is_wanted() {
    let fixture = Fixture::new(&[
        (".git/config", b"x\n"),
        (".github/w.yml", b"x\n"),
        (
            ".gitignore",
            b"\xEF\xBB\xBF*.log\n/target/\n!keep.log\n[broken\n",
        ),
        ("a.log", b"x\n"),
        ("keep.log", b"x\n"),
        ("src/.gitignore", b"gen.rs\n!debug.log\n"),
        ("src/debug.log", b"x\n"),
        ("src/deep/gen.rs", b"x\n"),
        ("src/gen.rs", b"x\n"),
        ("src/main.rs", b"x\n"),
        ("src/target/kept.rs", b"x\n"),
        ("target/out.rs", b"x\n"),
    ]);
    let find = |path: &str, ignored| {
        let args = GlobArgs {
            pattern: "**".into(),
            path: path.into(),
            ignored,
        };
        let result = glob(&fixture.disk, &args).unwrap();
        assert_eq!(
            result.skipped,
            Skipped {
                entries: vec![],
                more: 0
            }
        );
        let paths = result.files.into_iter().map(|file| file.path.to_string());
        paths.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        find("/", false),
        "/.github/w.yml /.gitignore /keep.log /src/.gitignore /src/debug.log /src/main.rs \
         /src/target/kept.rs"
    );
    assert_eq!(find("/src/deep", false), "");
    assert_eq!(find("/src/deep", true), "/src/deep/gen.rs");
    assert_eq!(find("/target", false), "/target/out.rs");
    assert_eq!(find("/.git", false), "/.git/config");
    assert_eq!(
        find("/", true),
        "/.git/config /.github/w.yml /.gitignore /a.log /keep.log /src/.gitignore \
         /src/debug.log /src/deep/gen.rs /src/gen.rs /src/main.rs /src/target/kept.rs \
         /target/out.rs"
    );
}

#[test]
fn an_ignore_file_out_of_measure_is_reported_and_the_search_goes_on() {
    let rules = "a\n".repeat(200_000);
    let fixture = Fixture::new(&[("d/.gitignore", rules.as_bytes()), ("d/a", b"x")]);
    let args = GlobArgs {
        pattern: "a".into(),
        ..Default::default()
    };
    let result = glob(&fixture.disk, &args).unwrap();
    insta::assert_snapshot!(result, @"
    files that match: 1
    /d/a (1 bytes)
    not searched:
    /d/.gitignore (can not be used: its rules were not applied)
    ");
}

#[test]
fn a_tree_too_deep_ends_at_once() {
    let fixture = Fixture::new(&[("top.txt", b"x\n")]);
    let deep: PathBuf = std::iter::repeat_n("d", 200).collect();
    fs::create_dir_all(fixture.root().join(deep)).unwrap();
    let args = GlobArgs {
        pattern: "*".into(),
        ..Default::default()
    };
    let result = glob(&fixture.disk, &args).unwrap();
    assert_eq!(result.files.len(), 1);
    assert_eq!(result.skipped.entries, [("/d".repeat(128), Kind::TooDeep)]);
}

#[test]
fn a_long_directory_is_listed_in_parts() {
    let fixture = Fixture::new(&[]);
    for number in 0..1_200 {
        fs::write(fixture.root().join(format!("{number:04}")), "").unwrap();
    }
    let mut names = Vec::new();
    let mut args = LsArgs::default();
    let mut ends = Vec::new();
    loop {
        let listing = ls(&fixture.disk, &args).unwrap();
        let text = listing.to_string();
        ends.push(text.lines().last().unwrap().to_owned());
        args.after = listing.entries.last().map(|entry| entry.name.clone());
        names.extend(listing.entries.into_iter().map(|entry| entry.name));
        if listing.more == 0 {
            break;
        }
    }
    assert_eq!(
        names,
        (0..1_200)
            .map(|number| format!("{number:04}"))
            .collect::<Vec<_>>()
    );
    assert_eq!(
        ends,
        [
            "(200 more: list again with after \"0999\")",
            "1199 (0 bytes)"
        ]
    );

    let args = GlobArgs {
        pattern: "*".into(),
        ..Default::default()
    };
    let result = glob(&fixture.disk, &args).unwrap();
    assert_eq!((result.files.len(), result.more), (1_000, 200));
    assert!(
        result
            .to_string()
            .ends_with("\n(200 more: narrow the pattern or the path)")
    );
}

#[test]
fn every_line_of_a_long_file_is_on_one_page() {
    let content: String = (1..=100_000)
        .map(|number| format!("line {number}\n"))
        .collect();
    let fixture = Fixture::new(&[("long.txt", content.as_bytes())]);
    let mut rows = Vec::new();
    let mut args = ReadArgs {
        path: "long.txt".into(),
        ..Default::default()
    };
    loop {
        let page = read(&fixture.disk, &args).unwrap();
        assert_eq!(page.lines, 100_000);
        assert!(page.to_string().len() < 80_000);
        rows.extend(page.rows);
        let Some(resume) = page.resume else { break };
        (args.offset, args.column) = (resume.offset, resume.column);
    }
    let expected = (1..=100_000).map(|number| Row {
        number,
        text: format!("line {number}"),
    });
    assert!(rows.into_iter().eq(expected));
}

#[test]
fn a_page_says_how_to_go_on() {
    let long = "é".repeat(50_000);
    let content = format!("short\n{long}\nend");
    let fixture = Fixture::new(&[("f", content.as_bytes())]);
    let page = |offset, limit, column| {
        let args = ReadArgs {
            path: "f".into(),
            offset,
            limit,
            column,
        };
        let text = text(read(&fixture.disk, &args));
        text.replace(&long, "LONG")
            .replace(&"é".repeat(100), "~")
            .replace('~', "")
    };
    let expected = [
        (
            (0, 1, 0),
            "`/f`, lines 1-1 of 3:\n     1\tshort\n(more follows: read on with offset 1)",
        ),
        (
            (0, 0, 0),
            "`/f`, lines 1-1 of 3:\n     1\tshort\n(more follows: read on with offset 1)",
        ),
        (
            (0, 9, 0),
            "`/f`, lines 1-1 of 3:\n     1\tshort\n(more follows: read on with offset 1)",
        ),
        (
            (1, 9, 0),
            "`/f`, lines 2-2 of 3:\n     2\téééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééé\n\
             (the line goes on: read on with offset 1 and column 63976)",
        ),
        (
            (1, 9, 99_998),
            "`/f`, lines 2-3 of 3, line 2 from byte 99998 on:\n     2\té\n     3\tend",
        ),
        ((1, 9, 200_000), "`/f`, lines 3-3 of 3:\n     3\tend"),
        ((2, 9, 3), "`/f` has 3 lines, and nothing follows there"),
        (
            (3, 9, 0),
            "`/f` ends before offset 3: its number of lines is 3",
        ),
        (
            (u64::MAX, usize::MAX, u64::MAX),
            "`/f` ends before offset 18446744073709551615: its number of lines is 3",
        ),
    ];
    for ((offset, limit, column), expected) in expected {
        assert_eq!(
            page(offset, limit, column),
            expected,
            "{offset} {limit} {column}"
        );
    }
}

#[test]
fn a_long_line_is_cut_around_its_match() {
    let line = format!("{}needle{}", "ä".repeat(500), "ö".repeat(500));
    let huge = format!("{}needle\nneedle\n", "y".repeat(2_500_000));
    let fixture = Fixture::new(&[("huge", huge.as_bytes()), ("long", line.as_bytes())]);
    let args = GrepArgs {
        pattern: "needle".into(),
        ..Default::default()
    };
    let result = grep(&fixture.disk, &args).unwrap();
    let around = |before: &str, left, after: &str, right| {
        format!("…{}needle{}…", before.repeat(left), after.repeat(right))
    };
    let texts: Vec<_> = result
        .matches
        .iter()
        .map(|found| (found.line, &*found.text))
        .collect();
    let expected = format!("…{}needle", "y".repeat(394));
    assert_eq!(
        texts,
        [
            (1, &*expected),
            (2, "needle"),
            (1, &around("ä", 50, "ö", 147))
        ]
    );
    assert_eq!((result.long_lines, result.more), (1, 0));
}

#[test]
fn patterns_are_literal_unless_asked_and_always_bounded() {
    let fixture = Fixture::new(&[("a.rs", b"a.b\na+b\nAXB\n"), ("b.txt", b"a.b\n")]);
    let search = |pattern: &str, regex, glob: Option<&str>| {
        let args = GrepArgs {
            pattern: pattern.into(),
            regex,
            glob: glob.map(Into::into),
            limit: 2,
            ..Default::default()
        };
        text(grep(&fixture.disk, &args))
    };
    insta::assert_snapshot!(search("a.b", false, None), @"
    lines that match: 2, files searched: 2
    /a.rs:1: a.b
    /b.txt:1: a.b
    ");
    insta::assert_snapshot!(search("^a.b$", true, None), @"
    lines that match: 3, files searched: 2
    /a.rs:1: a.b
    /a.rs:2: a+b
    (1 more: narrow the pattern or the path, or raise the limit)
    ");
    insta::assert_snapshot!(search("(?i)axb", true, Some("*.rs")), @"
    lines that match: 1, files searched: 1
    /a.rs:3: AXB
    ");
    insta::assert_snapshot!(search("none", false, None), @"lines that match: 0, files searched: 2");
    insta::assert_snapshot!(search("a(", true, None), @"`a(` is not a valid pattern: unclosed group");
    insta::assert_snapshot!(search("a{1000}{1000}", true, None), @"`a{1000}{1000}` is not a valid pattern: Compiled regex exceeds size limit of 10485760 bytes.");
    insta::assert_snapshot!(search("", false, None), @"`` is not a valid pattern: it is empty");
    insta::assert_snapshot!(search("a", false, Some("../*")), @"`../*` is not a valid pattern: it holds `..`: give the directory to search as path instead");
    assert!(search(&"(".repeat(4_000), true, None).contains("is not a valid pattern"));
}

#[test]
fn what_a_call_leaves_out_is_the_default() {
    fn filled<T: DeserializeOwned + Debug>(json: Value) -> String {
        format!("{:?}", serde_json::from_value::<T>(json).unwrap())
    }
    assert_eq!(
        filled::<LsArgs>(json!({})),
        format!("{:?}", LsArgs::default())
    );
    assert_eq!(
        filled::<ReadArgs>(json!({"path": ""})),
        format!("{:?}", ReadArgs::default())
    );
    assert_eq!(
        filled::<GlobArgs>(json!({"pattern": ""})),
        format!("{:?}", GlobArgs::default())
    );
    assert_eq!(
        filled::<GrepArgs>(json!({"pattern": ""})),
        format!("{:?}", GrepArgs::default())
    );
    let write = json!({"path": "", "content": ""});
    assert_eq!(
        filled::<WriteArgs>(write),
        format!("{:?}", WriteArgs::default())
    );
    let required = [
        schema_for!(LsArgs),
        schema_for!(ReadArgs),
        schema_for!(GlobArgs),
        schema_for!(GrepArgs),
        schema_for!(WriteArgs),
    ]
    .map(|schema| schema.get("required").cloned().unwrap_or_default());
    let expected = [
        json!(null),
        json!(["path"]),
        json!(["pattern"]),
        json!(["pattern"]),
        json!(["path", "content"]),
    ];
    assert_eq!(required, expected);
}

#[test]
fn a_file_is_written_whole_or_not_at_all() {
    let fixture = Fixture::new(&[("run.sh", b"old\n")]);
    let script = fixture.root().join("run.sh");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o750)).unwrap();
    let put = |path: &str, content: &str, overwrite| {
        let args = WriteArgs {
            path: path.into(),
            content: content.into(),
            overwrite,
        };
        text(write(&fixture.disk, &args))
    };
    assert_eq!(
        put("run.sh", "new\n", false),
        "`/run.sh` exists already: edit it, choose another path, or set overwrite to true"
    );
    assert_eq!(fs::read(&script).unwrap(), b"old\n");
    assert_eq!(
        put("run.sh", "new\r\nü", true),
        "wrote `/run.sh`, bytes: 7, lines: 2"
    );
    assert_eq!(fs::read(&script).unwrap(), "new\r\nü".as_bytes());
    assert_eq!(
        fs::metadata(&script).unwrap().permissions().mode() & 0o777,
        0o750
    );
    assert_eq!(
        put("a/b/c.txt", "", false),
        "wrote `/a/b/c.txt`, bytes: 0, lines: 0"
    );
    fixture.link("a", "to-a");
    assert_eq!(
        put("to-a/x/d.txt", "d", true),
        "wrote `/to-a/x/d.txt`, bytes: 1, lines: 1"
    );
    let args = GlobArgs {
        pattern: "*".into(),
        ..Default::default()
    };
    insta::assert_snapshot!(glob(&fixture.disk, &args).unwrap(), @"
    files that match: 3
    /a/b/c.txt (0 bytes)
    /a/x/d.txt (1 bytes)
    /run.sh (7 bytes)
    not searched:
    /to-a -> /a/
    ");
}

#[test]
fn of_many_writers_of_a_new_file_one_wins() {
    let fixture = Fixture::new(&[]);
    let results: Vec<_> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let disk = &fixture.disk;
                scope.spawn(move || {
                    let content = writer.to_string();
                    write(
                        disk,
                        &WriteArgs {
                            path: "d/f".into(),
                            content,
                            overwrite: false,
                        },
                    )
                })
            })
            .collect();
        writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .collect()
    });
    let winners: Vec<_> = (0..8).filter(|writer| results[*writer].is_ok()).collect();
    assert_eq!(winners.len(), 1, "{results:?}");
    assert_eq!(
        fs::read_to_string(fixture.root().join("d/f")).unwrap(),
        winners[0].to_string()
    );
    let lost = results
        .iter()
        .filter(|result| matches!(result, Err(FileError::Exists { .. })));
    assert_eq!(lost.count(), 7);
    assert_eq!(fs::read_dir(fixture.root().join("d")).unwrap().count(), 1);
}

/// The superuser may read everything, so the rows hold only for others.
#[test]
fn what_may_not_be_read_is_said_and_gone_round() {
    let fixture = Fixture::new(&[("a.txt", b"x\n"), ("d/b.txt", b"x\n"), ("e/c.txt", b"x\n")]);
    let root = fixture.root();
    for shut in ["a.txt", "d"] {
        fs::set_permissions(root.join(shut), fs::Permissions::from_mode(0o000)).unwrap();
    }
    if fs::read(root.join("a.txt")).is_ok() {
        return;
    }
    let denied = "can not be accessed: the file system denies permission";
    assert_eq!(
        read_at(&fixture.disk, "/a.txt"),
        format!("`/a.txt` {denied}")
    );
    assert_eq!(ls_at(&fixture.disk, "/d"), format!("`/d` {denied}"));
    assert_eq!(write_at(&fixture.disk, "/d/n"), format!("`/d/n` {denied}"));
    insta::assert_snapshot!(grep_at(&fixture.disk, "/"), @"
    lines that match: 1, files searched: 1
    /e/c.txt:1: x
    not searched:
    /a.txt (can not be read)
    /d (can not be read)
    ");
    fs::set_permissions(root.join("d"), fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_link_swapped_in_at_any_moment_leads_nowhere() {
    let fixture = Fixture::new(&[("d/f", b"inside")]);
    fs::create_dir(fixture.outside()).unwrap();
    fs::write(fixture.outside().join("f"), "secret").unwrap();
    let root = fixture.root();
    fixture.link("../outside", "link");
    let [place, kept, link] = ["d", "kept", "link"].map(|name| root.join(name));
    let stop = AtomicBool::new(false);
    let swaps = std::thread::scope(|scope| {
        let swapper = scope.spawn(|| {
            let mut swaps = 0;
            while !stop.load(Ordering::Relaxed) || swaps == 0 {
                // A writer may make the directory anew in between: then a step fails.
                let _ = fs::rename(&place, &kept);
                if fs::rename(&link, &place).is_ok() {
                    swaps += 1;
                    fs::rename(&place, &link).unwrap();
                }
                let _ = fs::remove_dir_all(&place);
                let _ = fs::rename(&kept, &place);
            }
            swaps
        });
        for _ in 0..2_000 {
            let seen = read_at(&fixture.disk, "/d/f") + &grep_at(&fixture.disk, "/d");
            assert!(!seen.contains("secret"), "{seen}");
            write_at(&fixture.disk, "/d/f");
        }
        stop.store(true, Ordering::Relaxed);
        swapper.join().unwrap()
    });
    assert!(swaps > 0);
    assert_eq!(fs::read(fixture.outside().join("f")).unwrap(), b"secret");
    assert_eq!(fs::read_dir(fixture.outside()).unwrap().count(), 1);
}

fn any_text() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof!["\n", "\r\n", "\r", "[ -~é🦀]{0,12}"].prop_map(String::into_bytes);
    let word = prop_oneof![
        8 => word,
        1 => prop::collection::vec(1u8..=255, 0..4),
        1 => (60_000usize..70_000).prop_map(|length| "é".repeat(length / 2).into_bytes()),
    ];
    prop::collection::vec(word, 0..30).prop_map(|words| words.concat())
}

/// The lines of a text, by the plainest code there is.
fn plain_lines(content: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(content);
    let mut lines: Vec<_> = text.split('\n').collect();
    let last = lines.pop().filter(|last| !last.is_empty());
    let ended = lines
        .into_iter()
        .map(|line| line.strip_suffix('\r').unwrap_or(line));
    ended.chain(last).map(str::to_owned).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pages_one_after_the_other_are_the_file(content in any_text(), limit in 1usize..6) {
        let fixture = Fixture::new(&[("f", &content)]);
        let mut lines: Vec<String> = Vec::new();
        let mut args = ReadArgs { path: "f".into(), limit, ..Default::default() };
        loop {
            let page = read(&fixture.disk, &args).unwrap();
            prop_assert!(page.to_string().chars().count() < 80_000);
            for row in page.rows {
                match lines.get_mut(row.number as usize - 1) {
                    Some(line) => line.push_str(&row.text),
                    None => lines.push(row.text),
                }
                prop_assert_eq!(row.number as usize, lines.len());
            }
            let Some(resume) = page.resume else { break };
            prop_assert!((resume.offset, resume.column) > (args.offset, args.column));
            (args.offset, args.column) = (resume.offset, resume.column);
        }
        prop_assert_eq!(lines, plain_lines(&content));
    }

    #[test]
    fn grep_finds_the_lines_that_hold_the_text(
        first in any_text(),
        second in any_text(),
        pattern in "[a-e.é]{1,2}",
        limit in 1usize..10,
    ) {
        let fixture = Fixture::new(&[("b/f", &first), ("a", &second)]);
        let args = GrepArgs { pattern: pattern.clone(), limit, ..Default::default() };
        let result = grep(&fixture.disk, &args).unwrap();
        let mut expected = Vec::new();
        for (path, content) in [("/a", &second), ("/b/f", &first)] {
            for (line, text) in (1u64..).zip(plain_lines(content)) {
                if text.contains(&pattern) {
                    expected.push((path.to_owned(), line));
                }
            }
        }
        prop_assert_eq!(result.matches.len() as u64 + result.more, expected.len() as u64);
        expected.truncate(limit);
        for found in &result.matches {
            prop_assert!(found.text.contains(&pattern));
        }
        let found: Vec<_> =
            result.matches.iter().map(|found| (found.path.to_string(), found.line)).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn a_path_that_is_taken_is_below_the_root(written in r"[a~./\\:\n ]{0,12}") {
        if let Ok(path) = VirtualPath::parse(&written) {
            prop_assert!(path.as_str().starts_with('/'));
            prop_assert!(path.names().all(|name| !["", ".", ".."].contains(&name)));
            prop_assert_eq!(&VirtualPath::parse(path.as_str()).unwrap(), &path);
            if let Some((parent, name)) = path.split() {
                prop_assert_eq!(parent.join(name).unwrap(), path.clone());
                prop_assert_eq!(path.below(&parent), Some(name));
            }
        }
    }
}
