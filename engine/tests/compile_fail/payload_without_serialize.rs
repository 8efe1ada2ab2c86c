// A payload is stored until its task has run.
use superstep::prelude::*;

#[derive(Clone)]
struct Page(u32);

impl Payload for Page {}

fn main() {}
