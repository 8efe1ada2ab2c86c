//! Runs recorded cases and reports which differ.

fn main() {}
