//! The program asks before it writes, and is answered by another run of it.

use crate::program::{Home, PROJECT, Ran, kill_after, kill_at};

/// A thread that waits for an answer.
fn asking() -> (Home, Ran) {
    let home = Home::new(PROJECT);
    let ran = home.run([home.dir().as_os_str(), "--ask".as_ref()]);
    assert_eq!(ran.status.code(), Some(0), "{ran:#?}");
    assert!(!home.report_of(ran.thread()).exists());
    (home, ran)
}

impl Home {
    fn answer(&self, thread: &str, answer: &str) -> Ran {
        self.run(["--thread", thread, "--answer", answer])
    }
}

/// The question and how to answer it.
fn question(ran: &Ran) -> [&str; 2] {
    ["question", "answer"].map(|label| ran.result(label).unwrap())
}

#[test]
fn it_asks_and_says_how_to_answer() {
    let (home, asked) = asking();
    let thread = asked.thread();
    let shown = question(&asked).join("\n").replace(thread, "THREAD");
    insta::assert_snapshot!(home.plain(&shown), @"
    may `write_report` write 889 bytes to HOME/out/report-THREAD.md?
    repo_report --thread THREAD --out HOME/out --answer yes|no
    ");
    let again = home.go_on(thread);
    assert_eq!(question(&again), question(&asked));
    assert_eq!(again.status.code(), Some(0));
}

#[test]
fn yes_writes_the_report() {
    let (home, asked) = asking();
    let report = home.survey().report();
    let answered = home.answer(asked.thread(), "yes");
    assert_eq!(answered.report(), report);
    assert_eq!(answered.result("question"), None);
    let again = home.answer(asked.thread(), "no");
    insta::assert_snapshot!(again.error().replace(asked.thread(), "THREAD"), @"thread `THREAD` waits for no answer");
    assert_eq!(home.go_on(asked.thread()).report(), report);
}

#[test]
fn no_writes_nothing() {
    let (home, asked) = asking();
    let thread = asked.thread();
    let answered = home.answer(thread, "no");
    let later = home.go_on(thread);
    for ran in [&answered, &later] {
        assert_eq!(ran.status.code(), Some(0), "{ran:#?}");
        assert_eq!(ran.result("report"), Some("not written, as you wished"));
    }
    let again = home.answer(thread, "yes");
    insta::assert_snapshot!(again.error().replace(thread, "THREAD"), @"thread `THREAD` waits for no answer");
    assert!(!home.report_of(thread).exists());
}

#[test]
fn killed_after_the_answer_it_does_not_ask_again() {
    for (answer, written) in [("yes", true), ("no", false)] {
        let (home, asked) = asking();
        let thread = asked.thread();
        // The first line stands for the call that goes on with its answer.
        kill_after(home.command(["--thread", thread, "--answer", answer]), 1);
        let resumed = home.go_on(thread);
        assert_eq!(resumed.status.code(), Some(0), "{resumed:#?}");
        assert_eq!(resumed.result("question"), None);
        assert_eq!(home.report_of(thread).exists(), written);
    }
}

#[test]
fn an_answer_to_no_question_changes_nothing() {
    let home = Home::new(PROJECT);
    let killed = kill_at(home.command([home.dir()]), |line| {
        line.contains("coordinator: task")
    });
    let thread = killed.thread();
    let answered = home.answer(thread, "no");
    insta::assert_snapshot!(answered.error().replace(thread, "THREAD"), @"thread `THREAD` waits for no answer");
    assert!(answered.progress().is_empty());
    assert_eq!(home.go_on(thread).report(), home.survey().report());
}

#[test]
fn a_report_that_cannot_be_written_is_an_error() {
    let (home, asked) = asking();
    std::fs::create_dir(home.report_of(asked.thread())).unwrap();
    let answered = home.answer(asked.thread(), "yes");
    insta::assert_snapshot!(answered.error(), @"the agent ended without writing a report; it said: The report could not be written: `write_report` failed: Is a directory (os error 21)");
}
