//! The small expression language of the recorded cases.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};

/// An expression: JSON in which an object with exactly one key starting with `$` is an operator.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// The value as it stands.
    Literal(Value),
    /// A list whose items are expressions.
    List(Vec<Expr>),
    /// An object whose values are expressions.
    Object(Vec<(String, Expr)>),
    /// A key of the state; null if it is absent.
    Get(String),
    /// Whether the state has a key.
    Has(String),
    /// A variable; null if it was never set.
    Var(String),
    /// The counter of this name.
    Count(String),
    /// A fact about the run of the node.
    Fact(Fact),
    /// An operator of one operand.
    Unary(Unary, Box<Expr>),
    /// An operator of two operands.
    Binary(Binary, Box<[Expr; 2]>),
    /// Whether all hold.
    And(Vec<Expr>),
    /// Whether any holds.
    Or(Vec<Expr>),
    /// `[condition, then, else]`.
    If(Box<[Expr; 3]>),
    /// The second, once per item of the first, with the item as variable `it`.
    Map(Box<[Expr; 2]>),
    /// A message to a node.
    Send(Box<SendExpr>),
}

/// What a `$send` is made of.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SendExpr {
    /// The node it goes to.
    pub node: Expr,
    /// The node's input.
    pub arg: Expr,
    /// A time limit of this one run.
    pub timeout_ms: Option<u64>,
}

/// What an expression can ask about the run it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// The whole input.
    Input,
    /// Which attempt of the node this is, from 1.
    Attempt,
    /// What the previous run of the entry saved.
    Previous,
    /// The failure that a handler was called for.
    Error,
}

/// An operator of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    /// Truth, turned round.
    Not,
    /// How many items, keys or characters; null has none.
    Len,
    /// The sum of a list of integers; null is empty.
    Sum,
    /// A string as it is, anything else as compact JSON with sorted keys.
    Str,
    /// The integers from 0 up to the operand.
    Range,
    /// The operand, to be written past the reducer.
    Overwrite,
}

/// An operator of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// Integers, lists or strings; null is the neutral value.
    Add,
    /// Difference of integers.
    Sub,
    /// Product of integers.
    Mul,
    /// Remainder with the sign of the divisor.
    Mod,
    /// Less than, for integers.
    Lt,
    /// Equality, without regard to the order of keys.
    Eq,
    /// `[list or object, index or key]`; null if missing, negative indexes count from the end.
    Item,
}

/// What an expression gives.
#[derive(Clone, Debug, PartialEq)]
pub enum Val {
    /// Plain data.
    Json(Value),
    /// A list with a marker somewhere in it.
    List(Vec<Val>),
    /// An object with a marker somewhere in it.
    Object(Vec<(String, Val)>),
    /// A message to a node.
    Send(SendTo),
    /// A value that is to be written past the reducer.
    Overwrite(Value),
}

/// A message to a node: the node runs with `arg` as its input.
#[derive(Clone, Debug, PartialEq)]
pub struct SendTo {
    /// The node.
    pub node: String,
    /// Its input.
    pub arg: Value,
    /// A time limit of this one run.
    pub timeout_ms: Option<u64>,
}

/// Counters by name, shared by all runs of one case.
#[derive(Clone, Debug, Default)]
pub struct Counters(Arc<Mutex<BTreeMap<String, u64>>>);

impl Counters {
    /// Adds one and gives the new count.
    pub fn bump(&self, name: &str) -> u64 {
        let mut counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let counter = counters.entry(name.to_owned()).or_default();
        *counter += 1;
        *counter
    }

    /// The count so far.
    pub fn get(&self, name: &str) -> u64 {
        let counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counters.get(name).copied().unwrap_or_default()
    }
}

/// What the names in an expression mean.
#[derive(Clone, Debug)]
pub struct Env {
    /// The node's input; `$get` and `$has` look into it when it is an object.
    pub input: Value,
    /// The variables.
    pub vars: BTreeMap<String, Value>,
    /// The counters of the case.
    pub counters: Counters,
    /// Which attempt this is, from 1.
    pub attempt: u64,
    /// What the previous run of the entry saved.
    pub previous: Value,
    /// The failure that a handler was called for.
    pub error: Value,
}

impl Env {
    /// The environment of a first attempt: no variables, nothing saved, no failure.
    pub fn new(input: Value, counters: Counters) -> Self {
        Env {
            input,
            vars: BTreeMap::new(),
            counters,
            attempt: 1,
            previous: Value::Null,
            error: Value::Null,
        }
    }
}

/// An operand that an operator cannot work with.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{operator} cannot take {operand}")]
pub struct EvalError {
    operator: &'static str,
    operand: String,
}

impl EvalError {
    pub(crate) fn new(operator: &'static str, operand: impl ToString) -> Self {
        EvalError {
            operator,
            operand: operand.to_string(),
        }
    }
}

impl Expr {
    /// The value in an environment.
    pub fn eval(&self, env: &Env) -> Result<Val, EvalError> {
        Ok(match self {
            Expr::Send(send) => Val::Send(SendTo {
                node: string("$send", send.node.json(env)?)?,
                arg: send.arg.json(env)?,
                timeout_ms: send.timeout_ms,
            }),
            Expr::Unary(Unary::Overwrite, value) => Val::Overwrite(value.json(env)?),
            Expr::If(parts) => {
                let [condition, then, otherwise] = &**parts;
                let chosen = if condition.holds(env)? {
                    then
                } else {
                    otherwise
                };
                chosen.eval(env)?
            }
            Expr::List(items) => items
                .iter()
                .map(|item| item.eval(env))
                .collect::<Result<_, _>>()?,
            Expr::Map(parts) => {
                let [items, body] = &**parts;
                each("$map", items.json(env)?, env, |env| body.eval(env))?
                    .into_iter()
                    .collect()
            }
            Expr::Object(entries) => entries
                .iter()
                .map(|(key, value)| Ok((key.clone(), value.eval(env)?)))
                .collect::<Result<_, EvalError>>()?,
            plain => Val::Json(plain.plain(env)?),
        })
    }

    /// The value, where only plain data will do.
    pub fn json(&self, env: &Env) -> Result<Value, EvalError> {
        match self.eval(env)? {
            Val::Json(value) => Ok(value),
            marker => Err(EvalError::new(
                "a place for plain data",
                format!("{marker:?}"),
            )),
        }
    }

    /// Whether the value counts as true: null, false, 0, `""`, `[]` and `{}` do not.
    pub fn holds(&self, env: &Env) -> Result<bool, EvalError> {
        Ok(match self.eval(env)? {
            Val::Json(value) => truth(&value),
            _ => true,
        })
    }

    fn plain(&self, env: &Env) -> Result<Value, EvalError> {
        Ok(match self {
            Expr::Literal(value) => value.clone(),
            Expr::Get(key) => env.input.get(key).cloned().unwrap_or_default(),
            Expr::Has(key) => env.input.get(key).is_some().into(),
            Expr::Var(name) => env.vars.get(name).cloned().unwrap_or_default(),
            Expr::Count(name) => env.counters.get(name).into(),
            Expr::Fact(Fact::Input) => env.input.clone(),
            Expr::Fact(Fact::Attempt) => env.attempt.into(),
            Expr::Fact(Fact::Previous) => env.previous.clone(),
            Expr::Fact(Fact::Error) => env.error.clone(),
            Expr::Unary(Unary::Not, value) => (!value.holds(env)?).into(),
            Expr::Unary(operator, value) => unary(*operator, value.json(env)?)?,
            Expr::Binary(operator, operands) => {
                let [left, right] = &**operands;
                binary(*operator, left.json(env)?, right.json(env)?)?
            }
            Expr::And(items) => holding(items, env, true)?.into(),
            Expr::Or(items) => holding(items, env, false)?.into(),
            Expr::Send(_) | Expr::If(_) | Expr::List(_) | Expr::Object(_) | Expr::Map(_) => {
                self.json(env)?
            }
        })
    }
}

/// Evaluates `body` once per item of a list, with the item as variable `it`.
pub(crate) fn each<T>(
    operator: &'static str,
    items: Value,
    env: &Env,
    body: impl Fn(&Env) -> Result<T, EvalError>,
) -> Result<Vec<T>, EvalError> {
    let mut env = env.clone();
    let mut results = Vec::new();
    for item in list(operator, items)? {
        env.vars.insert("it".to_owned(), item);
        results.push(body(&env)?);
    }
    Ok(results)
}

impl Val {
    fn as_json(&self) -> Option<&Value> {
        match self {
            Val::Json(value) => Some(value),
            _ => None,
        }
    }
}

/// A list is plain data as long as all its items are.
impl FromIterator<Val> for Val {
    fn from_iter<I: IntoIterator<Item = Val>>(items: I) -> Self {
        let items: Vec<Val> = items.into_iter().collect();
        let plain: Option<Vec<Value>> = items.iter().map(|item| item.as_json().cloned()).collect();
        plain.map_or(Val::List(items), |values| Val::Json(values.into()))
    }
}

/// An object is plain data as long as all its values are.
impl FromIterator<(String, Val)> for Val {
    fn from_iter<I: IntoIterator<Item = (String, Val)>>(entries: I) -> Self {
        let entries: Vec<(String, Val)> = entries.into_iter().collect();
        let plain: Option<Map<String, Value>> = entries
            .iter()
            .map(|(key, value)| Some((key.clone(), value.as_json()?.clone())))
            .collect();
        plain.map_or(Val::Object(entries), |map| Val::Json(map.into()))
    }
}

/// Whether all items hold (`all`), or any of them; stops at the first that decides.
fn holding(items: &[Expr], env: &Env, all: bool) -> Result<bool, EvalError> {
    for item in items {
        if item.holds(env)? != all {
            return Ok(!all);
        }
    }
    Ok(all)
}

fn truth(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(yes) => *yes,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

fn unary(operator: Unary, value: Value) -> Result<Value, EvalError> {
    Ok(match operator {
        Unary::Len => match &value {
            Value::Null => 0,
            Value::Array(items) => items.len(),
            Value::Object(map) => map.len(),
            Value::String(text) => text.chars().count(),
            other => return Err(EvalError::new("$len", other)),
        }
        .into(),
        Unary::Sum => list("$sum", value)?
            .into_iter()
            .try_fold(Value::from(0), |sum, item| binary(Binary::Add, sum, item))?,
        Unary::Str => Value::String(match value {
            Value::String(text) => text,
            mut other => {
                other.sort_all_objects();
                other.to_string()
            }
        }),
        Unary::Range => (0..integer("$range", &value)?).collect(),
        // both are taken care of before the operand is reduced to plain data
        Unary::Not | Unary::Overwrite => value,
    })
}

fn binary(operator: Binary, left: Value, right: Value) -> Result<Value, EvalError> {
    match operator {
        Binary::Add => add(left, right),
        Binary::Sub => arithmetic("$sub", &left, &right, i64::checked_sub),
        Binary::Mul => arithmetic("$mul", &left, &right, i64::checked_mul),
        Binary::Mod => arithmetic("$mod", &left, &right, floor_mod),
        Binary::Lt => Ok((integer("$lt", &left)? < integer("$lt", &right)?).into()),
        Binary::Eq => Ok((left == right).into()),
        Binary::Item => item(&left, &right),
    }
}

/// `$add`: integers, lists or strings; null is the neutral value of the other side.
pub(crate) fn add(left: Value, right: Value) -> Result<Value, EvalError> {
    Ok(match (left, right) {
        (Value::Null, other) | (other, Value::Null) => other,
        (Value::Array(mut left), Value::Array(right)) => {
            left.extend(right);
            left.into()
        }
        (Value::String(left), Value::String(right)) => (left + &right).into(),
        (left, right) => arithmetic("$add", &left, &right, i64::checked_add)?,
    })
}

fn arithmetic(
    operator: &'static str,
    left: &Value,
    right: &Value,
    compute: impl Fn(i64, i64) -> Option<i64>,
) -> Result<Value, EvalError> {
    compute(integer(operator, left)?, integer(operator, right)?)
        .map(|result| Value::Number(Number::from(result)))
        .ok_or_else(|| EvalError::new(operator, format!("{left} and {right}")))
}

/// The remainder that has the sign of the divisor.
fn floor_mod(left: i64, right: i64) -> Option<i64> {
    let rest = left.checked_rem(right)?;
    let other_side = rest != 0 && (rest < 0) != (right < 0);
    Some(if other_side { rest + right } else { rest })
}

fn item(container: &Value, place: &Value) -> Result<Value, EvalError> {
    let found = match (container, place) {
        (Value::Null, _) => None,
        (Value::Array(items), place) => {
            let index = integer("$item", place)?;
            let from_end = if index < 0 { items.len() as i64 } else { 0 };
            usize::try_from(index.saturating_add(from_end))
                .ok()
                .and_then(|index| items.get(index))
        }
        (Value::Object(map), Value::String(key)) => map.get(key),
        (other, _) => return Err(EvalError::new("$item", other)),
    };
    Ok(found.cloned().unwrap_or_default())
}

fn integer(operator: &'static str, value: &Value) -> Result<i64, EvalError> {
    match value {
        Value::Null => Ok(0),
        other => other
            .as_i64()
            .ok_or_else(|| EvalError::new(operator, other)),
    }
}

fn list(operator: &'static str, value: Value) -> Result<Vec<Value>, EvalError> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => Ok(items),
        other => Err(EvalError::new(operator, other)),
    }
}

fn string(operator: &'static str, value: Value) -> Result<String, EvalError> {
    match value {
        Value::String(text) => Ok(text),
        other => Err(EvalError::new(operator, other)),
    }
}

impl<'de> Deserialize<'de> for Expr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        parse(value).map_err(serde::de::Error::custom)
    }
}

fn parse(value: Value) -> Result<Expr, String> {
    match value {
        Value::Array(items) => items
            .into_iter()
            .map(parse)
            .collect::<Result<_, _>>()
            .map(Expr::List),
        Value::Object(map) => match sole_operator(&map) {
            Some(name) => {
                let operand = map.into_iter().next().map(|(_, value)| value);
                operator(&name, operand.unwrap_or_default())
                    .map_err(|problem| format!("`{name}`: {problem}"))
            }
            None => map
                .into_iter()
                .map(|(key, value)| Ok((key, parse(value)?)))
                .collect::<Result<_, String>>()
                .map(Expr::Object),
        },
        literal => Ok(Expr::Literal(literal)),
    }
}

fn sole_operator(map: &Map<String, Value>) -> Option<String> {
    let key = map.keys().next().filter(|key| key.starts_with('$'))?;
    (map.len() == 1).then(|| key.clone())
}

fn operator(name: &str, operand: Value) -> Result<Expr, String> {
    let unary = |operator, operand| Ok(Expr::Unary(operator, Box::new(parse(operand)?)));
    let binary = |operator, operand| Ok(Expr::Binary(operator, Box::new(operands(operand)?)));
    match name {
        "$lit" => Ok(Expr::Literal(operand)),
        "$get" => name_of(operand).map(Expr::Get),
        "$has" => name_of(operand).map(Expr::Has),
        "$var" => name_of(operand).map(Expr::Var),
        "$count" => name_of(operand).map(Expr::Count),
        "$input" => fact(Fact::Input, &operand),
        "$attempt" => fact(Fact::Attempt, &operand),
        "$previous" => fact(Fact::Previous, &operand),
        "$error" => fact(Fact::Error, &operand),
        "$not" => unary(Unary::Not, operand),
        "$len" => unary(Unary::Len, operand),
        "$sum" => unary(Unary::Sum, operand),
        "$str" => unary(Unary::Str, operand),
        "$range" => unary(Unary::Range, operand),
        "$overwrite" => unary(Unary::Overwrite, operand),
        "$add" => binary(Binary::Add, operand),
        "$sub" => binary(Binary::Sub, operand),
        "$mul" => binary(Binary::Mul, operand),
        "$mod" => binary(Binary::Mod, operand),
        "$lt" => binary(Binary::Lt, operand),
        "$eq" => binary(Binary::Eq, operand),
        "$item" => binary(Binary::Item, operand),
        "$and" => from_json(operand).map(Expr::And),
        "$or" => from_json(operand).map(Expr::Or),
        "$if" => Ok(Expr::If(Box::new(operands(operand)?))),
        "$map" => Ok(Expr::Map(Box::new(operands(operand)?))),
        "$send" => Ok(Expr::Send(Box::new(from_json(operand)?))),
        _ => Err("unknown operator".to_owned()),
    }
}

fn from_json<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn operands<const N: usize>(value: Value) -> Result<[Expr; N], String> {
    let list: Vec<Expr> = from_json(value)?;
    <[Expr; N]>::try_from(list).map_err(|list| format!("takes {N} operands, not {}", list.len()))
}

fn name_of(value: Value) -> Result<String, String> {
    match value {
        Value::String(name) => Ok(name),
        other => Err(format!("takes a name, not {other}")),
    }
}

fn fact(fact: Fact, operand: &Value) -> Result<Expr, String> {
    match operand {
        Value::Bool(true) => Ok(Expr::Fact(fact)),
        other => Err(format!("takes `true`, not {other}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn env() -> Env {
        let mut env = Env::new(
            json!({"x": 2, "s": "ab", "l": [1, 2, 3], "m": {"b": 1, "a": [2]}, "n": null}),
            Counters::default(),
        );
        env.vars.insert("v".to_owned(), json!(7));
        env.counters.bump("c");
        env.attempt = 3;
        env.previous = json!("before");
        env.error = json!({"node": "a", "kind": "Boom"});
        env
    }

    fn parsed(expr: Value) -> Result<Expr, String> {
        from_json(expr)
    }

    #[test]
    fn plain_values() {
        let cases = [
            (json!({"$lit": {"$get": "x"}}), json!({"$get": "x"})),
            (json!({"a": {"$get": "x"}, "b": 1}), json!({"a": 2, "b": 1})),
            (json!([{"$get": "x"}, "y"]), json!([2, "y"])),
            (json!({"$get": "nope"}), json!(null)),
            (
                json!([{"$has": "n"}, {"$has": "nope"}]),
                json!([true, false]),
            ),
            (json!([{"$var": "v"}, {"$var": "w"}]), json!([7, null])),
            (json!([{"$count": "c"}, {"$count": "d"}]), json!([1, 0])),
            (
                json!([{"$attempt": true}, {"$previous": true}]),
                json!([3, "before"]),
            ),
            (
                json!({"$error": true}),
                json!({"node": "a", "kind": "Boom"}),
            ),
            (json!({"$add": [1, {"$get": "x"}]}), json!(3)),
            (json!({"$add": [null, "a"]}), json!("a")),
            (json!({"$add": [[1], null]}), json!([1])),
            (json!({"$add": [[1], [2]]}), json!([1, 2])),
            (json!({"$add": ["a", "b"]}), json!("ab")),
            (json!({"$add": [null, null]}), json!(null)),
            (json!({"$sub": [null, 3]}), json!(-3)),
            (json!({"$mul": [null, 3]}), json!(0)),
            (
                json!([{"$mod": [-7, 3]}, {"$mod": [7, -3]}, {"$mod": [6, 3]}]),
                json!([2, -2, 0]),
            ),
            (
                json!([{"$lt": [null, 1]}, {"$lt": [1, 1]}]),
                json!([true, false]),
            ),
            (
                json!({"$eq": [{"a": 1, "b": 2}, {"b": 2, "a": 1}]}),
                json!(true),
            ),
            (json!({"$eq": [null, 0]}), json!(false)),
            (json!({"$if": [{"$get": "nope"}, 1, 2]}), json!(2)),
            (
                json!([{"$len": null}, {"$len": "äb"}, {"$len": {"a": 1, "b": 1}}]),
                json!([0, 2, 2]),
            ),
            (
                json!([{"$sum": null}, {"$sum": {"$get": "l"}}]),
                json!([0, 6]),
            ),
            (json!({"$item": [{"$get": "l"}, -1]}), json!(3)),
            (
                json!([{"$item": [{"$get": "l"}, 3]}, {"$item": [[1], -2]}]),
                json!([null, null]),
            ),
            (
                json!([{"$item": [{"$get": "m"}, "b"]}, {"$item": [null, "b"]}]),
                json!([1, null]),
            ),
            (json!({"$str": {"$get": "m"}}), json!(r#"{"a":[2],"b":1}"#)),
            (
                json!([{"$str": "a b"}, {"$str": null}, {"$str": 1}]),
                json!(["a b", "null", "1"]),
            ),
            (json!({"$range": 3}), json!([0, 1, 2])),
            (
                json!({"$map": [{"$get": "l"}, {"$mul": [{"$var": "it"}, 2]}]}),
                json!([2, 4, 6]),
            ),
            (
                json!([{"$and": [1, "a"]}, {"$and": [1, ""]}, {"$and": []}]),
                json!([true, false, true]),
            ),
            (
                json!([{"$or": [0, [], {}]}, {"$or": [0, 1]}]),
                json!([false, true]),
            ),
            (
                json!([{"$not": false}, {"$not": {"a": 1, "b": 1}}]),
                json!([true, false]),
            ),
        ];
        for (expr, value) in cases {
            let result = parsed(expr.clone()).unwrap().eval(&env());
            assert_eq!(result, Ok(Val::Json(value)), "{expr}");
        }
    }

    #[test]
    fn the_input_need_not_be_an_object() {
        let env = Env::new(json!(5), Counters::default());
        let expr = parsed(json!([{"$get": "x"}, {"$has": "x"}, {"$input": true}])).unwrap();
        assert_eq!(expr.eval(&env), Ok(Val::Json(json!([null, false, 5]))));
    }

    #[test]
    fn markers() {
        let send = |arg| {
            Val::Send(SendTo {
                node: "w".to_owned(),
                arg,
                timeout_ms: None,
            })
        };
        let each = json!({"$map": [[1, 2], {"$send": {"node": "w", "arg": {"$var": "it"}}}]});
        assert_eq!(
            parsed(json!([each, "x"])).unwrap().eval(&env()),
            Ok(Val::List(vec![
                Val::List(vec![send(json!(1)), send(json!(2))]),
                Val::Json(json!("x")),
            ]))
        );
        assert_eq!(
            parsed(json!({"k": {"$overwrite": {"$get": "x"}}}))
                .unwrap()
                .eval(&env()),
            Ok(Val::Object(vec![(
                "k".to_owned(),
                Val::Overwrite(json!(2))
            )]))
        );
    }

    #[test]
    fn wrong_operands() {
        let cases = [
            (json!({"$add": [1, "a"]}), r#"$add cannot take "a""#),
            (json!({"$mod": [1, 0]}), "$mod cannot take 1 and 0"),
            (
                json!({"$mul": [i64::MAX, 2]}),
                "$mul cannot take 9223372036854775807 and 2",
            ),
            (json!({"$len": 5}), "$len cannot take 5"),
            (json!({"$map": [3, 1]}), "$map cannot take 3"),
        ];
        for (expr, message) in cases {
            let error = parsed(expr).unwrap().eval(&env()).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn wrong_expressions() {
        let cases = [
            (json!({"$nope": 1}), "`$nope`: unknown operator"),
            (json!([{"$add": [1]}]), "`$add`: takes 2 operands, not 1"),
            (json!({"$input": 1}), "`$input`: takes `true`, not 1"),
            (
                json!({"$get": {"$var": "x"}}),
                r#"`$get`: takes a name, not {"$var":"x"}"#,
            ),
            (
                json!({"$send": {"node": "a"}}),
                "`$send`: missing field `arg`",
            ),
        ];
        for (expr, message) in cases {
            assert_eq!(parsed(expr), Err(message.to_owned()));
        }
    }
}
