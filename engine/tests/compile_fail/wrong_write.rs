// What is written is what the channel takes.
use superstep::prelude::*;

const COUNT: Key<u32> = Key::last("count");

fn main() {
    let _ = Update::new().put(COUNT, "seven");
}
