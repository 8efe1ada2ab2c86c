// What the derive cannot make channels of.
use superstep::prelude::*;

#[derive(State)]
struct Tuple(u32);

#[derive(State)]
enum Choice {
    _A,
}

#[derive(State)]
struct Generic<T> {
    value: T,
}

#[derive(State)]
struct TwoRules {
    #[topic]
    #[ephemeral]
    value: Vec<u32>,
}

#[derive(State)]
struct NoFold {
    #[reduce]
    value: Vec<u32>,
}

#[derive(State)]
struct Misspelt {
    #[reduce(append, updates = u32)]
    value: Vec<u32>,
}

fn main() {}
