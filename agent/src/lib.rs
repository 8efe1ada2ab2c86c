//! A deep-agent harness compiled onto the superstep engine.
//!
//! An agent is a graph: `before_agent → model ⇄ tools`. Every tool call is a task of its own, every subagent a nested
//! graph under its call, so a run that is killed goes on where it was, and what is finished is not done again.
//!
//! | module | what it has |
//! |---|---|
//! | [`agent`] | [`create_agent`](agent::create_agent), subagents |
//! | [`model`] | the trait of language models, a scripted model for tests, the OpenAI client (feature `openai`) |
//! | [`message`] | what a conversation consists of |
//! | [`tool`] | what a model can do |
//! | [`middleware`] | what stands around model and tools |
//! | `files` | a directory that an agent can read and write, and nothing outside it (feature `files`) |
//!
//! **This crate does not know** how supersteps are planned or stored: it uses the engine through its public items only.

pub mod agent;
#[cfg(feature = "files")]
pub mod files;
pub mod message;
pub mod middleware;
pub mod model;
pub mod tool;
