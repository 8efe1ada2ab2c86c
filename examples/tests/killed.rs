//! The program is killed at any moment, and goes on with what was saved.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};

use rusqlite::Connection;

use crate::program::{Home, PROJECT, Ran, kill_after, spawn};

/// Something that began: who does it, in which superstep, and what it is.
type Step<'a> = (&'a str, u32, &'a str);

fn steps(ran: &Ran) -> Vec<Step<'_>> {
    let parse = |line| {
        let (_, rest) = str::split_once(line, "superstep ")?;
        let (step, rest) = rest.trim_start().split_once("  ")?;
        let (who, doing) = rest.split_once(": ")?;
        Some((who, step.parse().ok()?, doing))
    };
    ran.progress()
        .into_iter()
        .map(|line| parse(line).unwrap())
        .collect()
}

/// The newest superstep of each agent.
fn newest<'a>(steps: &[Step<'a>]) -> BTreeMap<&'a str, u32> {
    let mut newest = BTreeMap::new();
    for &(who, step, _) in steps {
        newest
            .entry(who)
            .and_modify(|known: &mut u32| *known = step.max(*known))
            .or_insert(step);
    }
    newest
}

/// What began before the kill begins again only if it was in flight: part of its agent's newest superstep,
/// and, for a subagent, the coordinator did not stand behind the call of it.
fn assert_nothing_finished_ran_again(killed: &Ran, resumed: &Ran) {
    let (before, after) = (steps(killed), steps(resumed));
    for steps in [&before, &after] {
        assert_eq!(
            steps.iter().collect::<BTreeSet<_>>().len(),
            steps.len(),
            "{steps:#?}"
        );
    }
    let newest = newest(&before);
    let handed_over = before
        .iter()
        .find(|(_, _, doing)| doing.starts_with("task "));
    let surveyed = handed_over.is_some_and(|(_, step, _)| newest["coordinator"] > *step);
    for (who, step, doing) in after {
        let saved = newest.get(who).is_some_and(|newest| step < *newest);
        let known = surveyed && who != "coordinator";
        assert!(
            !saved && !known,
            "{who}: {doing} ran again\n{killed:#?}\n{resumed:#?}"
        );
    }
}

#[test]
fn killed_anywhere_it_goes_on() {
    let home = Home::new(PROJECT);
    let undisturbed = home.survey();
    let report = undisturbed.report();
    let lines = undisturbed.progress().len();
    let all: BTreeSet<_> = steps(&undisturbed).into_iter().collect();
    assert!((20..40).contains(&lines), "{undisturbed:#?}");
    let mut killed_for_good = 0;
    for line in 1..=lines {
        let killed = kill_after(home.command([home.dir()]), line);
        let resumed = home.go_on(killed.thread());
        assert_eq!(resumed.report(), report);
        assert_nothing_finished_ran_again(&killed, &resumed);
        let ran = [&killed, &resumed].map(steps).concat();
        assert!(ran.iter().all(|step| all.contains(step)), "{ran:#?}");
        killed_for_good += usize::from(killed.result("report").is_none());
    }
    // The last lines may be the last words of a process that has ended.
    assert!(killed_for_good > lines / 2, "{killed_for_good} of {lines}");
}

#[test]
fn killed_again_and_again_it_comes_to_its_end() {
    let home = Home::new(PROJECT);
    let report = home.survey().report();
    let mut ran = kill_after(home.command([home.dir()]), 1);
    let thread = ran.thread().to_owned();
    for lines in 2.. {
        let next = kill_after(home.command(["--thread", &thread]), lines);
        assert_nothing_finished_ran_again(&ran, &next);
        ran = next;
        if ran.result("report").is_some() {
            break;
        }
    }
    assert_eq!(home.go_on(&thread).report(), report);
}

#[test]
fn killed_before_there_is_a_thread() {
    let home = Home::new(PROJECT);
    home.survey();
    let lock = Connection::open(home.database()).unwrap();
    lock.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let mut child = spawn(&mut home.command([home.dir()]));
    // It is told its thread while it waits for the lock: not one line of progress comes before.
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    child.kill().unwrap();
    let killed = Ran::from(child.wait_with_output().unwrap());
    assert_eq!(killed.stderr, "");
    drop(lock);
    let thread = line.trim_start_matches("thread:").trim();
    let ran = home.go_on(thread);
    assert_eq!(
        home.plain(ran.error()),
        format!("there is no thread `{thread}` in HOME/out/threads.db")
    );
    assert_eq!(ran.stdout, "");
}

#[test]
fn of_two_that_go_on_at_once_none_spoils_the_report() {
    let home = Home::new(PROJECT);
    let report = home.survey().report();
    for lines in [1, 8, 12, 16] {
        let killed = kill_after(home.command([home.dir()]), lines);
        let both = [(), ()].map(|()| spawn(&mut home.command(["--thread", killed.thread()])));
        for child in both {
            let ran = Ran::from(child.wait_with_output().unwrap());
            match ran.status.code() {
                Some(0) => assert_eq!(ran.report(), report),
                _ => assert!(ran.error().contains("another writer"), "{ran:#?}"),
            }
        }
        assert_eq!(home.go_on(killed.thread()).report(), report);
    }
}
