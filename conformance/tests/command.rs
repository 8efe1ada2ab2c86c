//! The command line.

use std::process::Command;

use crate::directory;

fn golden(arguments: &[&str]) -> (Option<i32>, String, String) {
    let directory = directory();
    let arguments = arguments.iter().map(|argument| match *argument {
        "DIR" => directory.to_str().unwrap(),
        other => other,
    });
    let output = Command::new(env!("CARGO_BIN_EXE_golden"))
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap().trim_end().to_owned();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn the_selected_cases_are_counted_by_topic() {
    let (_, out, _) = golden(&["engine", "DIR", "--topic", "retry,cache"]);
    let count = |line: &str| -> usize {
        let numbers = line
            .split([' ', ','])
            .filter_map(|word| word.parse::<usize>().ok());
        numbers.sum()
    };
    let lines: Vec<&str> = out.lines().collect();
    let [.., cache, retry, raw, total] = lines.as_slice() else {
        panic!("{out}")
    };
    assert_eq!([count(cache), count(retry), count(total)], [2, 11, 13]);
    assert!(
        cache.starts_with("cache: ") && retry.starts_with("retry: "),
        "{out}"
    );
    assert!(raw.ends_with("results of `raw` actions skipped"), "{out}");
}

#[test]
fn a_selection_that_makes_no_sense_is_refused() {
    let usage = "usage: golden engine DIR [--topic T,...] [--case NAME]\n       golden results DIR --case NAME";
    let refused = |arguments: &[&str], message: &str| {
        assert_eq!(
            golden(arguments),
            (Some(2), String::new(), message.to_owned())
        );
    };
    refused(&[], usage);
    refused(&["engine"], usage);
    refused(&["engine", "DIR", "--case"], usage);
    refused(
        &["engine", "DIR", "--fast", "1"],
        &format!("unknown option `--fast`\n{usage}"),
    );
    refused(
        &["engine", "DIR", "--topic", "retry,weather"],
        "no case has the topic `weather`",
    );
    refused(
        &["engine", "DIR", "--case", "x"],
        &format!("no such case below {}", directory().display()),
    );
}
