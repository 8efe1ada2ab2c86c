//! Writes a report on a directory.

fn main() {}
