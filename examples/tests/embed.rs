//! The program `embed`, run as a user runs it.

use std::fs;
use std::process::{Command, Stdio};

use insta::assert_snapshot;
use serde_json::{Value as JsonValue, json};
use tempfile::TempDir;

use crate::program::{Ran, kill_after, run};

const WORKFLOW: &str = include_str!("../workflows/expenses.json");
const TABLE: &str = include_str!("../workflows/expenses.csv");

/// A folder with the workflow and its table, in which the program is called.
struct Desk(TempDir);

impl Desk {
    fn new() -> Self {
        let desk = Desk(tempfile::tempdir().unwrap());
        desk.put("expenses.json", WORKFLOW);
        desk.put("expenses.csv", TABLE);
        desk
    }

    fn put(&self, file: &str, text: &str) {
        fs::write(self.0.path().join(file), text).unwrap();
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.0.path().join(file)).unwrap()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_embed"));
        command.arg("expenses.json").args(args);
        command.current_dir(self.0.path()).stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        run(self.command(args))
    }

    /// What a run shows that ends as it should.
    fn told(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.status.code(), Some(0), "{ran:#?}");
        ran.stdout
    }

    /// The error with which a run ends.
    fn refused(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.status.code(), Some(1), "{ran:#?}");
        let (_, error) = ran.stderr.split_once("error: ").unwrap();
        error.trim_end().to_owned()
    }
}

fn json_of(text: &str) -> JsonValue {
    serde_json::from_str(text).unwrap()
}

#[test]
fn it_runs_asks_and_goes_on_in_another_process() {
    let desk = Desk::new();
    assert_eq!(
        desk.told(&["check"]),
        "ok: `expenses`, version 1, 9 nodes\n"
    );
    let asked = desk.run(&["run", "--thread", "may"]);
    assert_eq!(asked.status.code(), Some(3));
    assert_snapshot!(asked.stderr, @"
    superstep 1: read wrote rows
    superstep 2: add up wrote total
    superstep 2: find large wrote large
    superstep 3: sum it up wrote notes
    superstep 4: ask asks
    ");
    let (id, question) = asked.stdout.split_once(": ").unwrap();
    let id = id.trim_start_matches("question ");
    assert_snapshot!(question, @r#"
    {"question":"Shall this be paid?","total":1804.7,"large":[{"who":"Bob","what":"hotel","amount":412},{"who":"Grace","what":"projector","amount":1290}]}
    answer with: embed expenses.json answer --thread may --out embed JSON
    "#);
    assert_snapshot!(desk.told(&["why", "--thread", "may"]), @"
    `notes` was written by sum it up
    `ask` is due: `sum it up` decided so
    ");
    // A wrong answer is refused, and the question stays open.
    let error = desk
        .refused(&["answer", "--thread", "may", "7"])
        .replace(id, "ID");
    assert_snapshot!(error, @"the run stopped: node `ask` failed: the answer to question ID is not what the node takes: invalid type: integer `7`, expected a boolean");
    let state = desk.told(&["answer", "--thread", "may", &format!("{id}=true")]);
    assert_eq!(json_of(&state)["file"], "embed/may-report.txt");
    assert_snapshot!(desk.read("embed/may-report.txt"), @r#"
    To be paid.
    1804.7 in all, large ones: [{"who":"Bob","what":"hotel","amount":412},{"who":"Grace","what":"projector","amount":1290}]
    approved: true
    "#);
    assert_snapshot!(desk.told(&["history", "--thread", "may"]), @"
    8  loop    step  6  nothing is due
    7  loop    step  5  due: report
    6  loop    step  4  due: note the answer
    5  loop    step  3  due: ask
    4  loop    step  2  due: sum it up
    3  loop    step  1  due: add up, find large
    2  loop    step  0  due: read
    1  input   step -1  due: __start__
    ");
    let why = desk.told(&["why", "--thread", "may", "--checkpoint", "4"]);
    assert_snapshot!(why, @"
    `large` was written by find large
    `total` was written by add up
    `sum it up` is due: a join that `add up` made full, a join that `find large` made full
    ");
    assert_eq!(
        json_of(&desk.told(&["state", "--thread", "may"]))["next"],
        json!([])
    );
    assert_snapshot!(desk.refused(&["answer", "--thread", "may", "true"]), @"the run stopped: no question is open");
    assert_snapshot!(desk.refused(&["proceed", "--thread", "june"]), @"there is no run `june` in embed");
}

#[test]
fn a_no_is_a_no_and_little_is_passed_without_a_question() {
    let desk = Desk::new();
    desk.run(&["run", "--thread", "may"]);
    let state = desk.told(&["answer", "--thread", "may", "false"]);
    assert_eq!(json_of(&state)["file"], "embed/may-refusal.txt");
    desk.put("expenses.csv", "who,what,amount\nAda,train,84.5\n");
    let state = desk.told(&["run", "--thread", "june"]);
    assert_eq!(json_of(&state)["file"], "embed/june-report.txt");
    assert_snapshot!(desk.read("embed/june-report.txt"), @"
    To be paid.
    84.5 in all, large ones: []
    ");
}

#[test]
fn killed_anywhere_it_goes_on() {
    let desk = Desk::new();
    desk.put("expenses.csv", "who,what,amount\nAda,train,84.5\n");
    let undisturbed = desk.run(&["run", "--thread", "calm"]);
    let report = desk.read("embed/calm-report.txt");
    let lines = undisturbed.stderr.lines().count();
    assert_eq!(lines, 6, "{undisturbed:#?}");
    for line in 1..=lines {
        let thread = format!("killed-{line}");
        kill_after(desk.command(&["run", "--thread", &thread]), line);
        let end = json_of(&desk.told(&["proceed", "--thread", &thread]));
        assert_eq!(end["notes"], json!(["84.5 in all, large ones: []"]));
        assert_eq!(desk.read(&format!("embed/{thread}-report.txt")), report);
    }
}

#[test]
fn a_file_with_mistakes_is_refused_with_all_of_them() {
    let desk = Desk::new();
    let broken = WORKFLOW
        .replace(r#""file": "expenses.csv""#, r#""file": "../secret.csv""#)
        .replace(r#""kind": "sum""#, r#""kind": "product""#)
        .replace(r#""answer": "yes_or_no""#, r#""answer": "maybe""#)
        .replace(
            r#""any_row_over", "with": { "rows""#,
            r#""any_row_over", "with": { "row""#,
        )
        .replace(r#"["read", "add up"]"#, r#"["read", "add"]"#);
    desk.put("expenses.json", &broken);
    assert_snapshot!(desk.refused(&["check"]), @"
    expenses.json: the document is no graph:
    - at `nodes[0].with`: `../secret.csv`: a file is named by a path below the workflow's folder
    - at `nodes[1].kind`: `product` is no kind of node; known are: ask, keep, note, read_csv, set, sum, write_text
    - at `nodes[4].with.answer`: unknown variant `maybe`, expected one of `yes_or_no`, `text`, `number`
    - at `branches[0].when[0].if.call.with.row`: unknown field `row`, expected one of `rows`, `column`, `limit`
    - an edge leads to `add`, which is no node
    ");
    desk.put("expenses.json", "{");
    assert_snapshot!(desk.refused(&["run", "--thread", "may"]), @"
    expenses.json: the document is no graph:
    - EOF while parsing an object at line 1 column 1
    ");
}

#[test]
fn what_a_node_cannot_do_is_told_and_can_be_mended() {
    let desk = Desk::new();
    desk.put("expenses.csv", "who,what,amount\nAda,train,much\n");
    assert_snapshot!(desk.refused(&["run", "--thread", "may"]), @"the run stopped: node `add up` failed: row 1 has no number in column `amount`");
    desk.put("expenses.csv", TABLE);
    // The table was read before, and is not read again.
    assert_snapshot!(desk.refused(&["proceed", "--thread", "may"]), @"the run stopped: node `add up` failed: row 1 has no number in column `amount`");
    assert_eq!(desk.run(&["run", "--thread", "may"]).status.code(), Some(3));
    assert_snapshot!(desk.refused(&["run", "--thread", "../may"]), @"`../may` is no name: letters, digits, `-`, `_` and `.` only");
    assert_snapshot!(desk.refused(&["run", "--thread", "may", "--input", "[]"]), @"the input is an object with channels, not []");
    assert_snapshot!(desk.refused(&["run", "--thread", "july", "--input", r#"{"colour": 1}"#]), @"the run stopped: the input writes channel `colour`, which graph `expenses` does not have");
}

#[cfg(unix)]
#[test]
fn a_link_out_of_the_folder_is_not_followed() {
    let desk = Desk::new();
    let secret = tempfile::NamedTempFile::new().unwrap();
    let link = desk.0.path().join("expenses.csv");
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(secret.path(), &link).unwrap();
    assert_snapshot!(desk.refused(&["run", "--thread", "may"]), @"the run stopped: node `read` failed: `expenses.csv` leads out of the workflow's folder");
}

#[test]
fn it_is_drawn_in_three_languages() {
    let desk = Desk::new();
    assert_snapshot!(desk.told(&["draw"]), @r#"
    flowchart TD
        n0([start])
        n1["read"]
        n2["add up"]
        n3["find large"]
        n4{"sum it up"}
        n5["ask"]
        n6{"note the answer"}
        n7["pass"]
        n8["report"]
        n9["refuse"]
        n0 --> n1
        n1 --> n2
        n1 --> n3
        n2 -. join .-> n4
        n3 -. join .-> n4
        n4 -->|"any_row_over {#quot;rows#quot;:#quot;rows#quot;,#quot;column#quot;:#quot;amount#quot;,#quot;limit#quot;:1000}"| n5
        n4 -->|"else"| n7
        n5 --> n6
        n6 -->|"approved = true"| n8
        n6 -->|"else"| n9
        n7 --> n8
    "#);
    assert_snapshot!(desk.told(&["draw", "--form", "dot"]), @r#"
    digraph {
        compound=true;
        n0 [label="start", shape=oval];
        n1 [label="read", shape=box];
        n2 [label="add up", shape=box];
        n3 [label="find large", shape=box];
        n4 [label="sum it up", shape=diamond];
        n5 [label="ask", shape=box];
        n6 [label="note the answer", shape=diamond];
        n7 [label="pass", shape=box];
        n8 [label="report", shape=box];
        n9 [label="refuse", shape=box];
        n0 -> n1;
        n1 -> n2;
        n1 -> n3;
        n2 -> n4 [label="join", style=dotted];
        n3 -> n4 [label="join", style=dotted];
        n4 -> n5 [label="any_row_over {\"rows\":\"rows\",\"column\":\"amount\",\"limit\":1000}"];
        n4 -> n7 [label="else"];
        n5 -> n6;
        n6 -> n8 [label="approved = true"];
        n6 -> n9 [label="else"];
        n7 -> n8;
    }
    "#);
    let json = json_of(&desk.told(&["draw", "--form", "json"]));
    assert_eq!(json["name"], "expenses");
}
