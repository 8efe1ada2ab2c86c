//! The runner on the whole corpus.

mod cases;
mod identity;
