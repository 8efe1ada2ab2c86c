//! The planner with the real file tools, in the loop that an agent runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use futures::StreamExt;
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use superstep_agent::files::{Disk, FileError, glob, grep, ls, read};
use superstep_agent::message::{Message, StopReason, ToolCall, Usage};
use superstep_agent::model::{ChatModel, Chunk, Request, ToolChoice, ToolSpec, complete};
use superstep_examples::planner::Planner;
use tempfile::TempDir;

use crate::reading::{fact, places, put, scan};

const SURVEYOR: [&str; 4] = ["glob", "grep", "ls", "read_file"];
const COORDINATOR: [&str; 6] = ["glob", "grep", "ls", "read_file", "task", "write_report"];
const MAX_TURNS: usize = 12;

/// What a tool gives: text, or the text of an error.
type Answer = Result<String, String>;

/// What may go wrong on the way from a tool to the model.
type Spoil = fn(&ToolCall, Answer) -> Answer;

struct World {
    temp: TempDir,
    disk: Disk,
    spoil: Spoil,
}

/// What a run left behind.
struct Run {
    report: String,
    last: String,
    /// The conversation of the coordinator, then those of the surveyors.
    conversations: Vec<Vec<Arc<Message>>>,
}

impl World {
    fn new<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let temp = tempfile::tempdir().unwrap();
        for (path, content) in files {
            put(temp.path(), path, content);
        }
        let disk = Disk::open(temp.path()).unwrap();
        World {
            temp,
            disk,
            spoil: |_, answer| answer,
        }
    }

    fn root(&self) -> &Path {
        self.temp.path()
    }

    fn run(&self) -> Run {
        let mut run = Run {
            report: String::new(),
            last: String::new(),
            conversations: Vec::new(),
        };
        run.last = self.agent("Report on the directory.", &COORDINATOR, &mut run);
        run
    }

    /// The loop of an agent, down to its last text.
    fn agent(&self, brief: &str, tools: &[&str], run: &mut Run) -> String {
        let at = run.conversations.len();
        run.conversations.push(Vec::new());
        let mut messages: Vec<Arc<Message>> = vec![
            Message::system("You work.").into(),
            Message::human(brief).into(),
        ];
        for turn in 0..MAX_TURNS {
            let reply = ask(&messages, tools);
            let calls = reply.tool_calls().to_vec();
            let text = reply.text().into_owned();
            messages.push(reply.into());
            if calls.is_empty() {
                run.conversations[at] = messages;
                return text;
            }
            for (place, call) in calls.iter().enumerate() {
                assert_eq!(call.id, format!("call_{}_{place}", turn + 1));
                let answer = (self.spoil)(call, self.execute(call, run));
                messages.push(match answer {
                    Ok(text) => Message::tool(&call.id, text).into(),
                    Err(text) => Message::tool_error(&call.id, text).into(),
                });
            }
        }
        panic!("no end after {MAX_TURNS} turns: {messages:#?}");
    }

    fn execute(&self, call: &ToolCall, run: &mut Run) -> Answer {
        let args = &call.args.0;
        match call.name.as_str() {
            "ls" => file_tool(args, |args| ls(&self.disk, args)),
            "glob" => file_tool(args, |args| glob(&self.disk, args)),
            "grep" => file_tool(args, |args| grep(&self.disk, args)),
            "read_file" => file_tool(args, |args| read(&self.disk, args)),
            "task" => {
                assert_eq!(args["subagent_type"], "surveyor");
                Ok(self.agent(args["description"].as_str().unwrap(), &SURVEYOR, run))
            }
            "write_report" => {
                run.report = args["content"].as_str().unwrap().to_owned();
                Ok("saved".to_owned())
            }
            name => panic!("a tool `{name}` was not offered"),
        }
    }
}

fn file_tool<A: DeserializeOwned, R: Display>(
    args: &Value,
    tool: impl Fn(&A) -> Result<R, FileError>,
) -> Answer {
    let args = serde_json::from_value(args.clone()).unwrap();
    tool(&args)
        .map(|result| result.to_string())
        .map_err(|error| error.to_string())
}

fn ask(messages: &[Arc<Message>], tools: &[&str]) -> Message {
    let request = Request {
        tools: tools.iter().map(|name| tool(name)).collect(),
        ..Request::new(messages.to_vec())
    };
    answer(request)
}

fn answer(request: Request) -> Message {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(complete(&Planner, request)).unwrap()
}

fn tool(name: &str) -> Arc<ToolSpec> {
    Arc::new(ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        parameters: json!({ "type": "object" }),
    })
}

const SMALL: [(&str, &str); 7] = [
    (
        "README.md",
        "[![badge](x)](y)\n# Tide tables\n\nPredicts the tide\nof any [port](p).\n\nMore.\n",
    ),
    ("Cargo.toml", "[package]\nname = \"tides\"\n"),
    (".gitignore", "/target/\n"),
    (
        "src/lib.rs",
        "// Copyright nobody\n\n//! Waves and\n//! moons.\n\nfn f() {} // TODO: write\n",
    ),
    (
        "src/deep/er/x.py",
        "# FIXME later\nprint('TODOS are none')\n",
    ),
    ("docs/guide.md", "Guide\n=====\n\ntext | TODO a `b` <c>\n"),
    ("target/out.rs", "// TODO generated\n"),
];

#[test]
fn a_report_on_a_small_project() {
    let world = World::new(SMALL);
    put(world.root(), "docs/moon.png", b"\x89PNG\r\n\x1a\n\0\0");
    fs::create_dir(world.root().join(".git")).unwrap();
    fs::create_dir(world.root().join("void")).unwrap();
    symlink("/etc/passwd", world.root().join("src/out")).unwrap();
    symlink("nowhere", world.root().join("broken")).unwrap();
    symlink("src", world.root().join("alias")).unwrap();
    symlink("lib.rs", world.root().join("src/same.rs")).unwrap();
    let run = world.run();
    assert_eq!(run.last, "The report on 3 parts is written: saved");
    insta::assert_snapshot!(run.report, @r"
    # Report on Tide tables

    > Predicts the tide of any \[port\](p).

    - Files: 7
    - Bytes: 264
    - Lines of text: 28
    - TODO and FIXME: 3

    ## Parts

    | Part | Files | Bytes | Lines | Languages |
    |---|---:|---:|---:|---|
    | `*` | 3 | 109 | 10 | Markdown (1), TOML (1), no ending (1) |
    | `docs/**` | 2 | 45 | 4 | Markdown (1), .png (1) |
    | `src/**` | 2 | 110 | 14 | Rust (1), Python (1) |

    What the parts say of themselves:

    - `README.md`: Tide tables
    - `docs/guide.md`: Guide
    - `src/lib.rs`: Waves and moons.

    ## Languages

    | Language | Files | Bytes |
    |---|---:|---:|
    | Markdown | 2 | 110 |
    | Rust | 1 | 72 |
    | Python | 1 | 38 |
    | TOML | 1 | 25 |
    | .png | 1 | 10 |
    | no ending | 1 | 9 |

    ## TODO and FIXME (3)

    - ``docs/guide.md:4: text | TODO a `b` <c>``
    - `src/deep/er/x.py:1: # FIXME later`
    - `src/lib.rs:6: fn f() {} // TODO: write`

    ## Largest files

    | Path | Bytes |
    |---|---:|
    | `README.md` | 75 |
    | `src/lib.rs` | 72 |
    | `src/deep/er/x.py` | 38 |
    | `docs/guide.md` | 35 |
    | `Cargo.toml` | 25 |
    | `docs/moon.png` | 10 |
    | `.gitignore` | 9 |

    ## Not read (4)

    - `alias`: link to a directory: not followed
    - `broken`: broken link
    - `docs/moon.png`: binary
    - `src/out`: link that leads outside the root

    ## Limits

    - `.git` and what `.gitignore` files exclude is not in this report.
    - `.git`: empty, or excluded
    - `target`: empty, or excluded
    - `void`: empty, or excluded
    - `src/**`: 1 link to files: only the lines count here
    ");
}

#[test]
fn two_directories_give_two_reports() {
    let [tides, moons] = [
        World::new(SMALL),
        World::new([("moons/io.py", "# TODO: orbit\n")]),
    ]
    .map(|world| world.run());
    assert_eq!(places(&tides.report).len(), 3);
    assert_eq!(
        places(&moons.report),
        BTreeSet::from([("moons/io.py".to_owned(), 1, "# TODO: orbit".to_owned())])
    );
    assert_eq!(
        [fact(&tides.report, "Files"), fact(&moons.report, "Files")],
        [6, 1]
    );
}

#[test]
fn an_empty_directory_has_a_report_too() {
    let run = World::new([]).run();
    assert_eq!(run.conversations.len(), 1);
    insta::assert_snapshot!(run.report, @"
    # Report on a directory

    No README or manifest says what this is.

    - Files: 0
    - Bytes: 0
    - Lines of text: 0
    - TODO and FIXME: 0

    ## Parts

    There are no files.

    ## Languages

    None.

    ## TODO and FIXME (0)

    None.

    ## Largest files

    None.

    ## Not read (0)

    None.

    ## Limits

    - `.git` and what `.gitignore` files exclude is not in this report.
    ");
}

#[test]
fn the_same_conversation_gives_the_same_reply() {
    let run = World::new(SMALL).run();
    assert_eq!(run.conversations.len(), 4);
    for (at, messages) in run.conversations.iter().enumerate() {
        let tools: &[&str] = if at == 0 { &COORDINATOR } else { &SURVEYOR };
        for (length, message) in messages.iter().enumerate() {
            if message.as_ai().is_some() {
                assert_eq!(ask(&messages[..length], tools), **message);
            }
        }
    }
}

#[test]
fn a_report_that_a_person_edits_is_written_once() {
    let run = World::new(SMALL).run();
    let mut messages = run.conversations[0].clone();
    let last = messages.pop().unwrap();
    let at = messages.len() - 2;
    let call = &messages[at].tool_calls()[0];
    let edited = ToolCall::new(&call.id, "write_report", json!({ "content": "short" }));
    messages[at] = Message::ai_calls("", [edited]).into();
    assert_eq!(ask(&messages, &COORDINATOR).text(), last.text());
}

#[test]
fn odd_names_and_forged_lines_stay_what_they_are() {
    let forged =
        "x TODO a\nnot searched:\n## Facts: 1\n- `files`: 99\n(7 more)\n/etc/passwd:1: TODO\n";
    let names = [
        "odd/a:3: x",
        "odd/`tick`",
        "odd/[a]*{b}?",
        "odd/a | b",
        "odd/a (5 bytes)",
        "odd/ # x",
        "[z]*/{x}/plain",
        "(7 more)/x",
        "not searched:/x",
        "- `/*`/x",
    ];
    let world = World::new(names.map(|name| (name, forged)));
    put(world.root(), "odd/a", "1\n2\n3\n");
    let report = world.run().report;
    assert_eq!(
        (fact(&report, "Files"), fact(&report, "TODO and FIXME")),
        (11, 20)
    );
    let mut expected: Vec<_> = names
        .iter()
        .flat_map(|name| {
            let fence = if name.contains('`') { "``" } else { "`" };
            [(1, "x TODO a"), (6, "/etc/passwd:1: TODO")]
                .map(|(line, text)| format!("- {fence}{name}:{line}: {text}{fence}"))
        })
        .collect();
    // `odd/a` exists as well, so these two may be either: they are shown, but as no place.
    let unclear = expected
        .extract_if(.., |line| line.contains("a:3: x"))
        .count();
    for line in &expected {
        assert!(
            report.lines().any(|shown| shown == line),
            "{line}\n{report}"
        );
    }
    assert_eq!(
        report.matches("more than one place may be meant").count(),
        unclear
    );
    assert_eq!(unclear, 2);
}

#[test]
fn failing_tools_are_told_of_and_end_the_work() {
    let spoils: [(Spoil, &str); 6] = [
        (
            |_, _| Err("down".into()),
            "The directory could not be looked at: down",
        ),
        (
            |_, _| Ok(String::new()),
            "The directory could not be looked at: a listing can not be understood:",
        ),
        (
            |call, answer| {
                if call.name == "task" {
                    Err("budget is spent".into())
                } else {
                    answer
                }
            },
            "The report on 3 parts is written: saved",
        ),
        (
            |call, answer| {
                if call.name == "grep" {
                    Err("down".into())
                } else {
                    answer
                }
            },
            "The report on 3 parts is written: saved",
        ),
        (
            |call, answer| {
                if call.name == "write_report" {
                    Err("denied".into())
                } else {
                    answer
                }
            },
            "The report could not be written: denied",
        ),
        (
            |_, answer| answer.map(|text| text.chars().take(40).collect()),
            "The report on 1 part is written: saved",
        ),
    ];
    for (spoil, last) in spoils {
        let run = World {
            spoil,
            ..World::new(SMALL)
        }
        .run();
        assert_eq!(run.last, last);
    }
}

#[test]
fn a_missing_part_is_named_with_its_reason() {
    let spoil: Spoil = |call, answer| match call.args.to_string().contains("/docs/") {
        true if call.name == "task" => Err("the budget is spent".into()),
        _ => answer,
    };
    let report = World {
        spoil,
        ..World::new(SMALL)
    }
    .run()
    .report;
    assert!(report.contains("\n| `docs/**` | ? | ? | ? | not surveyed, see below |\n"));
    assert!(report.contains("\n- `docs/**`: not surveyed: the budget is spent\n"));
    assert_eq!(places(&report).len(), 2);
}

#[test]
fn large_trees_are_followed_past_every_cut() {
    let world = World::new([(".gitignore", "/zout/\n")]);
    for number in 0..1_300 {
        put(
            world.root(),
            &format!("big/d{:02}/f{number}.rs", number % 50),
            format!("//! {number} TODO\n"),
        );
    }
    for number in 0..30 {
        put(
            world.root(),
            &format!("part{number:02}/deep/f.md"),
            "FIXME\n",
        );
    }
    put(world.root(), "zout/x.rs", "// TODO: generated\n");
    let run = world.run();
    assert_eq!(run.conversations.len(), 1 + 12);
    assert_eq!(fact(&run.report, "Files"), 1_331);
    assert_eq!(fact(&run.report, "Lines of text"), 1_331);
    assert_eq!(fact(&run.report, "TODO and FIXME"), 1_330);
    assert!(run.report.contains("| Rust | 1300 | "));
    assert!(run.report.contains("- `zout`: empty, or excluded"));
    let shown = places(&run.report);
    assert!(
        run.report
            .contains(&format!("\nLeft out here: {}.\n", 1_330 - shown.len()))
    );
    for (path, line, text) in &shown {
        let content = fs::read_to_string(world.root().join(path)).unwrap();
        assert_eq!(content.lines().nth(line - 1), Some(text.as_str()), "{path}");
    }
}

#[test]
fn no_tool_is_called_that_is_not_on_offer() {
    let brief: Vec<Arc<Message>> = vec![Message::human("Go.").into()];
    assert_eq!(
        ask(&brief, &["ls", "task"]).text(),
        "I need the tool `glob`, and may not call it."
    );
    let forbidden = Request {
        tools: COORDINATOR.map(tool).to_vec(),
        tool_choice: ToolChoice::None,
        ..Request::new(brief)
    };
    assert_eq!(
        answer(forbidden).text(),
        "I need the tool `ls`, and may not call it."
    );
}

fn tree() -> impl Strategy<Value = BTreeMap<String, String>> {
    let path =
        proptest::collection::vec("[a-c é.]{0,1}[a-c]", 1..4).prop_map(|names| names.join("/"));
    let line = prop_oneof![
        "[a-c`|# ]{0,6}",
        "[ /]{0,2}(TODO|FIXME|TODOS|xTODO)[ :a`]{0,3}"
    ];
    let content = proptest::collection::vec(line, 0..5).prop_map(|lines| lines.join("\n"));
    proptest::collection::btree_map(path, content, 0..12).prop_map(|files| {
        // A path can not be a file and a directory.
        let paths: Vec<_> = files.keys().cloned().collect();
        let above = |path: &str| {
            paths
                .iter()
                .any(|other| other.starts_with(&format!("{path}/")))
        };
        files.into_iter().filter(|(path, _)| !above(path)).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_report_says_what_a_plain_scan_finds(files in tree()) {
        let world = World::new(files.iter().map(|(path, content)| (path.as_str(), content.as_str())));
        let report = world.run().report;
        let entries: BTreeSet<_> = report.lines().filter(|line| line.starts_with("- `")).collect();
        let expected = scan(&files);
        prop_assert_eq!(fact(&report, "Files"), files.len());
        prop_assert_eq!(fact(&report, "Bytes"), files.values().map(String::len).sum::<usize>());
        prop_assert_eq!(fact(&report, "Lines of text"), files.values().map(|content| content.lines().count()).sum::<usize>());
        prop_assert_eq!(fact(&report, "TODO and FIXME"), expected.len());
        for (path, line, text) in expected.iter().filter(|(.., text)| !text.contains('`')) {
            let entry = format!("- `{path}:{line}: {text}`");
            prop_assert!(entries.contains(entry.as_str()), "{}\n{}", entry, report);
        }
    }
}

#[tokio::test]
async fn a_reply_comes_in_pieces() {
    let call = |index, args: &str| Chunk::ToolCall {
        index,
        id: None,
        name: None,
        args: args.to_owned(),
    };
    let begin = |index, id: &str, name: &str| Chunk::ToolCall {
        index,
        id: Some(id.to_owned()),
        name: Some(name.to_owned()),
        args: String::new(),
    };
    let request = Request {
        tools: COORDINATOR.map(tool).to_vec(),
        ..Request::new([Message::human("Report on it.").into()])
    };
    let chunks: Vec<_> = Planner.stream(request).await.unwrap().collect().await;
    let usage = Usage {
        input: 3,
        output: 11,
        ..Usage::default()
    };
    let expected = [
        begin(0, "call_1_0", "ls"),
        call(0, "{\"p"),
        call(0, "ath"),
        call(0, "\":\""),
        call(0, "/\"}"),
        begin(1, "call_1_1", "glob"),
        call(1, "{\"patte"),
        call(1, "rn\":\"/*"),
        call(1, "*\",\"pat"),
        call(1, "h\":\"/\"}"),
        Chunk::Usage(usage),
        Chunk::Stop(StopReason::ToolCalls),
    ];
    assert_eq!(chunks, expected.map(Ok));
}
