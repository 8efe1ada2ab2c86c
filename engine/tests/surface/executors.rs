//! Tasks that run elsewhere than where the engine is.

use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use superstep::prelude::*;
use superstep::{Executor, InProcess, Task, TaskInput, TaskOutcome};

use super::{done, line, linked, log, nodes};

/// Writes down what it is given, as it could go over a wire, and runs it here after all.
#[derive(Clone, Debug, Default)]
struct Noting(Arc<Mutex<Vec<String>>>);

impl Executor for Noting {
    fn execute(&self, task: Task, cx: Context) -> BoxFuture<'static, TaskOutcome> {
        let input = match &task.input {
            TaskInput::State(fields) => fields.json().unwrap().to_string(),
            TaskInput::Payload(value) => format!("{value:?}"),
        };
        let (graph, version) = task.graph();
        let base = task.checkpoint.map_or(0, |id| id.0);
        let note = format!(
            "{graph} {version}: {} on {input} at {base}, step {}",
            task.node, task.step
        );
        self.0.lock().unwrap().push(note);
        InProcess.execute(task, cx)
    }
}

/// Does not run a task at all: it says what it led to.
#[derive(Debug)]
struct Elsewhere;

impl Executor for Elsewhere {
    fn execute(&self, task: Task, _: Context) -> BoxFuture<'static, TaskOutcome> {
        let result = TaskOutcome::Done(line(format!("{} elsewhere", task.node)));
        Box::pin(std::future::ready(result))
    }
}

#[tokio::test]
async fn an_executor_gets_tasks_as_data() {
    let noting = Noting::default();
    let graph = linked(nodes(&["a", "b"]), &["a", "b"])
        .named("pair", 3)
        .executor(noting.clone());
    let thread = graph
        .build()
        .unwrap()
        .thread(&MemoryCheckpointer::new(), "t");
    assert_eq!(
        done(thread.start(log(&["in"])).await),
        log(&["in", "a", "b"])
    );
    assert_eq!(
        *noting.0.lock().unwrap(),
        [
            r#"pair 3: a on {"lines":["in"]} at 2, step 1"#,
            r#"pair 3: b on {"lines":["in","a"]} at 3, step 2"#,
        ]
    );
}

#[tokio::test]
async fn an_executor_decides_what_running_means() {
    let graph = linked(nodes(&["a", "b"]), &["a", "b"]).executor(Elsewhere);
    let end = done(graph.build().unwrap().detached().start(log(&[])).await);
    assert_eq!(end, log(&["a elsewhere", "b elsewhere"]));
}
