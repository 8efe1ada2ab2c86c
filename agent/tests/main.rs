//! The agent crate from outside: one binary, one module per subject.

mod model_http;
mod provider;
