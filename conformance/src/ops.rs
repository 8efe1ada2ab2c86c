//! The interpreter of a body's operations.

use std::error::Error;
use std::future::Future;

use serde_json::{Value, json};

use crate::expr::{Env, EvalError, Expr, SendTo, Val, each};
use crate::spec::{Calls, ErrorKind, ListItem, Op};

/// What a body can ask of the engine that runs it.
pub trait Host: Send {
    /// Asks, and gives the answer; the future stays pending while there is none.
    fn ask(&mut self, question: Value) -> impl Future<Output = Value> + Send;

    /// Emits an event of the node's own.
    fn custom(&mut self, value: Value);

    /// Runs a graph inside the node and gives its output.
    fn call(
        &mut self,
        graph: &str,
        input: Value,
    ) -> impl Future<Output = Result<Value, Failure>> + Send;

    /// Starts tasks with their arguments, all at once, and gives their results in order.
    fn tasks(
        &mut self,
        calls: Vec<(String, Value)>,
    ) -> impl Future<Output = Vec<Result<Value, Failure>>> + Send;

    /// Lets siblings finish first.
    fn sleep(&mut self, ms: u64) -> impl Future<Output = ()> + Send;

    /// Asks the run to stop in front of the next superstep.
    fn drain(&mut self);
}

/// What a body returns.
#[derive(Clone, Debug, PartialEq)]
pub enum Return {
    /// Writes, and where to go; nothing at all if both are empty.
    Command(Command),
    /// A command to the graph above, and nothing to this one.
    Parent(Command),
    /// A value as it is, be it valid or not.
    Value(Val),
    /// Several updates and commands.
    List(Vec<Item>),
    /// The result of a task or entry, and what is saved for the next run.
    Result {
        /// The result.
        value: Value,
        /// What is saved.
        save: Value,
    },
}

/// An item of a returned list.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// Writes alone, which the reference does not accept without a command beside them.
    Update(Val),
    /// A command.
    Command(Command),
}

/// Writes, and where to go.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Command {
    /// What is written, by key.
    pub writes: Vec<(String, Write)>,
    /// Where to go.
    pub goto: Vec<Target>,
}

/// What is written to a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// It goes through the channel's rule.
    Plain(Value),
    /// It becomes the channel's value.
    Overwrite(Value),
}

/// Where a command goes.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// To a node.
    Node(String),
    /// To a node, with an input of its own.
    Send(SendTo),
}

/// Why a body stopped before its end.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// It was told to fail.
    #[error("the body raised {0:?}")]
    Raised(ErrorKind),
    /// It cannot be interpreted.
    #[error(transparent)]
    Eval(#[from] EvalError),
    /// What it called failed.
    #[error("{kind}")]
    Called {
        /// The kind of the failure, as results name it.
        kind: String,
        /// The failure.
        source: Box<dyn Error + Send + Sync>,
    },
}

impl Failure {
    /// The name that results give it.
    pub fn kind(&self) -> String {
        match self {
            Failure::Raised(kind) => format!("{kind:?}"),
            Failure::Eval(_) => "TypeError".to_owned(),
            Failure::Called { kind, .. } => kind.clone(),
        }
    }
}

/// Performs operations in order and gives what the body returns.
pub async fn perform<H: Host>(ops: &[Op], mut env: Env, host: &mut H) -> Result<Return, Failure> {
    let mut gathered = Gathered::default();
    let mut blocks = vec![ops.iter()];
    while let Some(block) = blocks.last_mut() {
        match block.next() {
            None => {
                blocks.pop();
            }
            Some(Op::If {
                cond,
                then,
                otherwise,
            }) => {
                let chosen = if cond.holds(&env)? { then } else { otherwise };
                blocks.push(chosen.iter());
            }
            Some(op) => {
                if let Some(last) = last_word(op, &env)? {
                    return Ok(last);
                }
                if !gathered.takes(op, &env)? && !takes_inner(op, &mut env)? {
                    effect(op, &mut env, host).await?;
                }
            }
        }
    }
    Ok(gathered.into_return())
}

/// What the body returns if this operation ends it.
fn last_word(op: &Op, env: &Env) -> Result<Option<Return>, Failure> {
    Ok(Some(match op {
        Op::Return { value } => Return::Value(value.eval(env)?),
        Op::ReturnList { items } => Return::List(
            items
                .iter()
                .map(|item| list_item(item, env))
                .collect::<Result<_, _>>()?,
        ),
        Op::Ret { value, save } => {
            let value = value.json(env)?;
            let save = save
                .as_ref()
                .map_or(Ok(value.clone()), |save| save.json(env))?;
            Return::Result { value, save }
        }
        _ => return Ok(None),
    }))
}

fn list_item(item: &ListItem, env: &Env) -> Result<Item, EvalError> {
    Ok(match item {
        ListItem::Update(update) => Item::Update(update.eval(env)?),
        ListItem::Command(command) => Item::Command(Command::eval(
            command.update.as_ref(),
            command.goto.as_ref(),
            env,
        )?),
    })
}

/// What a body returns at its end.
#[derive(Default)]
struct Gathered {
    command: Command,
    parent: Option<Command>,
}

impl Gathered {
    /// Performs an operation that adds to what is returned; says whether it was one.
    fn takes(&mut self, op: &Op, env: &Env) -> Result<bool, EvalError> {
        match op {
            Op::Set { key, value } => {
                let write = Write::of(value.eval(env)?)?;
                let writes = &mut self.command.writes;
                writes.retain(|(known, _)| known != key);
                writes.push((key.clone(), write));
            }
            Op::Goto { to } => {
                for target in to {
                    flatten(target.eval(env)?, &mut self.command.goto)?;
                }
            }
            Op::Parent { update, goto } => {
                self.parent = Some(Command::eval(update.as_ref(), goto.as_ref(), env)?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn into_return(self) -> Return {
        match self.parent {
            Some(command) => Return::Parent(command),
            None => Return::Command(self.command),
        }
    }
}

/// Performs an operation that concerns the interpreter alone; says whether it was one.
fn takes_inner(op: &Op, env: &mut Env) -> Result<bool, Failure> {
    match op {
        Op::Let { var, value } => {
            let value = value.json(env)?;
            env.vars.insert(var.clone(), value);
        }
        Op::Count { counter } => {
            env.counters.bump(counter);
        }
        Op::Raise {
            kind,
            times,
            counter,
        } => {
            let reached = counter.as_ref().map(|counter| env.counters.bump(counter));
            if times.is_some() && reached.is_none() {
                return Err(EvalError::new("raise", "`times` without a `counter`").into());
            }
            if reached <= *times || times.is_none() {
                return Err(Failure::Raised(*kind));
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Performs an operation that needs the engine.
async fn effect<H: Host>(op: &Op, env: &mut Env, host: &mut H) -> Result<(), Failure> {
    let (var, value) = match op {
        Op::Interrupt { value, var } => (var, host.ask(value.json(env)?).await),
        Op::Call { graph, input, var } => (var, host.call(graph, input.json(env)?).await?),
        Op::Task { task, arg, var } => (var, one_task(task, arg, env, host).await?),
        Op::TryTask { task, arg, var } => {
            let result = match one_task(task, arg, env, host).await {
                Ok(value) => json!({ "ok": value }),
                Err(failure) => json!({ "error": failure.kind() }),
            };
            (var, result)
        }
        Op::Tasks { calls, var } => {
            let results = host.tasks(prepared(calls, env)?).await;
            (var, results.into_iter().collect::<Result<Value, _>>()?)
        }
        Op::Custom { value } => {
            host.custom(value.json(env)?);
            return Ok(());
        }
        Op::Sleep { ms } => {
            host.sleep(*ms).await;
            return Ok(());
        }
        Op::Drain {} => {
            host.drain();
            return Ok(());
        }
        other => return Err(EvalError::new("a body", format!("{other:?}")).into()),
    };
    env.vars.insert(var.clone(), value);
    Ok(())
}

async fn one_task<H: Host>(
    task: &str,
    arg: &Expr,
    env: &Env,
    host: &mut H,
) -> Result<Value, Failure> {
    let results = host.tasks(vec![(task.to_owned(), arg.json(env)?)]).await;
    let result = results.into_iter().next();
    result.unwrap_or_else(|| Err(EvalError::new("task", "a call without a result").into()))
}

fn prepared(calls: &Calls, env: &Env) -> Result<Vec<(String, Value)>, EvalError> {
    let (items, call) = &calls.each;
    each("$each", items.json(env)?, env, |env| {
        Ok((call.task.clone(), call.arg.json(env)?))
    })
}

impl Command {
    /// The command of an update and a goto, either of which may be missing or null.
    pub fn eval(update: Option<&Expr>, goto: Option<&Expr>, env: &Env) -> Result<Self, EvalError> {
        let mut command = Command::default();
        if let Some(update) = update {
            command.writes = writes(update.eval(env)?)?;
        }
        if let Some(goto) = goto {
            flatten(goto.eval(env)?, &mut command.goto)?;
        }
        Ok(command)
    }
}

/// The writes of an update: an object, or null for none.
pub fn writes(update: Val) -> Result<Vec<(String, Write)>, EvalError> {
    match update {
        Val::Json(Value::Null) => Ok(Vec::new()),
        Val::Json(Value::Object(map)) => Ok(map
            .into_iter()
            .map(|(key, value)| (key, Write::Plain(value)))
            .collect()),
        Val::Object(entries) => entries
            .into_iter()
            .map(|(key, value)| Ok((key, Write::of(value)?)))
            .collect(),
        other => Err(EvalError::new("an update", format!("{other:?}"))),
    }
}

impl Write {
    fn of(value: Val) -> Result<Self, EvalError> {
        match value {
            Val::Json(value) => Ok(Write::Plain(value)),
            Val::Overwrite(value) => Ok(Write::Overwrite(value)),
            other => Err(EvalError::new("a key", format!("{other:?}"))),
        }
    }
}

/// Adds the targets in a value: a name, a send, or lists of them; null is none.
pub fn flatten(value: Val, targets: &mut Vec<Target>) -> Result<(), EvalError> {
    match value {
        Val::Json(Value::Null) => {}
        Val::Json(Value::String(name)) => targets.push(Target::Node(name)),
        Val::Send(send) => targets.push(Target::Send(send)),
        Val::Json(Value::Array(items)) => {
            for item in items {
                flatten(Val::Json(item), targets)?;
            }
        }
        Val::List(items) => {
            for item in items {
                flatten(item, targets)?;
            }
        }
        other => return Err(EvalError::new("goto", format!("{other:?}"))),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use serde_json::json;

    use super::*;
    use crate::expr::Counters;

    /// Answers `r1`, `r2`, ..; its tasks give their argument back, but for `bad`.
    #[derive(Default)]
    struct Recorder {
        seen: Vec<Value>,
        asked: u64,
    }

    impl Host for Recorder {
        async fn ask(&mut self, question: Value) -> Value {
            self.seen.push(json!({ "ask": question }));
            self.asked += 1;
            json!(format!("r{}", self.asked))
        }

        fn custom(&mut self, value: Value) {
            self.seen.push(json!({ "custom": value }));
        }

        async fn call(&mut self, graph: &str, input: Value) -> Result<Value, Failure> {
            self.seen.push(json!({ "call": graph }));
            Ok(input)
        }

        async fn tasks(&mut self, calls: Vec<(String, Value)>) -> Vec<Result<Value, Failure>> {
            self.seen.push(json!({ "tasks": calls }));
            let result = |(task, arg): (String, Value)| match task.as_str() {
                "bad" => Err(Failure::Raised(ErrorKind::Net)),
                _ => Ok(arg),
            };
            calls.into_iter().map(result).collect()
        }

        async fn sleep(&mut self, ms: u64) {
            self.seen.push(json!({ "sleep": ms }));
        }

        fn drain(&mut self) {
            self.seen.push(json!("drain"));
        }
    }

    fn run(ops: Value, env: Env) -> (Result<Return, String>, Vec<Value>) {
        let ops: Vec<Op> = serde_json::from_value(ops).unwrap();
        let mut host = Recorder::default();
        let result = block_on(perform(&ops, env, &mut host));
        (result.map_err(|failure| failure.kind()), host.seen)
    }

    fn env() -> Env {
        Env::new(json!({"x": 1}), Counters::default())
    }

    fn result(ops: Value) -> Result<Return, String> {
        run(ops, env()).0
    }

    fn writes(writes: &[(&str, Value)]) -> Vec<(String, Write)> {
        let write = |(key, value): &(&str, Value)| ((*key).to_owned(), Write::Plain(value.clone()));
        writes.iter().map(write).collect()
    }

    #[test]
    fn a_body_returns_what_it_set_and_where_it_goes() {
        let ops = json!([
            {"op": "let", "var": "v", "value": {"$get": "x"}},
            {"op": "set", "key": "a", "value": 0},
            {"op": "set", "key": "b", "value": {"$overwrite": []}},
            {"op": "set", "key": "a", "value": {"$var": "v"}},
            {"op": "goto", "to": ["n", [["m"]]]},
            {"op": "goto", "to": [{"$send": {"node": "w", "arg": 1, "timeout_ms": 5}}]},
        ]);
        let send = SendTo {
            node: "w".to_owned(),
            arg: json!(1),
            timeout_ms: Some(5),
        };
        let command = Command {
            writes: vec![
                ("b".to_owned(), Write::Overwrite(json!([]))),
                ("a".to_owned(), Write::Plain(json!(1))),
            ],
            goto: vec![
                Target::Node("n".to_owned()),
                Target::Node("m".to_owned()),
                Target::Send(send),
            ],
        };
        assert_eq!(result(ops), Ok(Return::Command(command)));
        assert_eq!(result(json!([])), Ok(Return::Command(Command::default())));
    }

    #[test]
    fn a_command_to_the_parent_drops_the_rest() {
        let ops = json!([
            {"op": "set", "key": "a", "value": 0},
            {"op": "parent", "update": {"k": 1}, "goto": null},
        ]);
        let command = Command {
            writes: writes(&[("k", json!(1))]),
            goto: vec![],
        };
        assert_eq!(result(ops), Ok(Return::Parent(command)));
    }

    #[test]
    fn a_return_ends_the_body_wherever_it_stands() {
        let ops = json!([
            {"op": "if", "cond": {"$get": "x"}, "then": [{"op": "return", "value": 5}]},
            {"op": "raise", "kind": "Boom"},
        ]);
        assert_eq!(result(ops), Ok(Return::Value(Val::Json(json!(5)))));
        let ops = json!([{"op": "return_list", "items": [
            {"update": {"k": 1}},
            {"command": {"update": {"k": 2}, "goto": "n"}},
        ]}]);
        let items = vec![
            Item::Update(Val::Json(json!({"k": 1}))),
            Item::Command(Command {
                writes: writes(&[("k", json!(2))]),
                goto: vec![Target::Node("n".to_owned())],
            }),
        ];
        assert_eq!(result(ops), Ok(Return::List(items)));
    }

    #[test]
    fn the_result_is_saved_unless_told_otherwise() {
        let both = |value, save| Ok(Return::Result { value, save });
        assert_eq!(
            result(json!([{"op": "ret", "value": 1}])),
            both(json!(1), json!(1))
        );
        let ops = json!([{"op": "ret", "value": 1, "save": null}]);
        assert_eq!(result(ops), both(json!(1), json!(null)));
        let ops = json!([{"op": "ret", "value": 1, "save": 2}]);
        assert_eq!(result(ops), both(json!(1), json!(2)));
    }

    #[test]
    fn the_host_is_asked_in_order() {
        let ops = json!([
            {"op": "interrupt", "value": "q", "var": "a"},
            {"op": "if", "cond": {"$eq": [{"$var": "a"}, "r1"]}, "then": [
                {"op": "interrupt", "value": {"$var": "a"}, "var": "b"},
            ]},
            {"op": "sleep", "ms": 3},
            {"op": "custom", "value": {"$var": "b"}},
            {"op": "call", "graph": "g", "input": {"i": 1}, "var": "c"},
            {"op": "task", "task": "t", "arg": 4, "var": "d"},
            {"op": "try_task", "task": "bad", "arg": 4, "var": "e"},
            {"op": "try_task", "task": "t", "arg": 4, "var": "f"},
            {"op": "tasks", "calls": {"$each": [[7, 8], {"task": "t", "arg": {"$var": "it"}}]}, "var": "g"},
            {"op": "drain"},
            {"op": "ret", "value": [{"$var": "c"}, {"$var": "d"}, {"$var": "e"}, {"$var": "f"}, {"$var": "g"}]},
        ]);
        let (returned, seen) = run(ops, env());
        let value = json!([{"i": 1}, 4, {"error": "Net"}, {"ok": 4}, [7, 8]]);
        assert_eq!(
            returned,
            Ok(Return::Result {
                value: value.clone(),
                save: value
            })
        );
        let expected = [
            json!({"ask": "q"}),
            json!({"ask": "r1"}),
            json!({"sleep": 3}),
            json!({"custom": "r2"}),
            json!({"call": "g"}),
            json!({"tasks": [["t", 4]]}),
            json!({"tasks": [["bad", 4]]}),
            json!({"tasks": [["t", 4]]}),
            json!({"tasks": [["t", 7], ["t", 8]]}),
            json!("drain"),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn failures() {
        let shared = env();
        let counted = || {
            let ops = json!([{"op": "raise", "kind": "BadValue", "times": 2, "counter": "c"}]);
            run(ops, shared.clone()).0
        };
        let done = Ok(Return::Command(Command::default()));
        assert_eq!(
            [counted(), counted(), counted()],
            [Err("BadValue".to_owned()), Err("BadValue".to_owned()), done,]
        );
        assert_eq!(
            result(json!([{"op": "raise", "kind": "Boom"}])),
            Err("Boom".to_owned())
        );
        let cases = [
            json!([{"op": "set", "key": "a", "value": {"$add": [1, "a"]}}]),
            json!([{"op": "goto", "to": [5]}]),
            json!([{"op": "parent", "update": 5, "goto": null}]),
            json!([{"op": "raise", "kind": "Boom", "times": 1}]),
        ];
        for ops in cases {
            assert_eq!(result(ops.clone()), Err("TypeError".to_owned()), "{ops}");
        }
        let ops = json!([{"op": "task", "task": "bad", "arg": 1, "var": "v"}]);
        assert_eq!(result(ops), Err("Net".to_owned()));
    }
}
