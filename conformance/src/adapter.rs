//! The engine's side: builds a case's graph and performs its script.
//!
//! The engine leaves out some habits of the reference on purpose; what is here stands for user code
//! that has them. What the engine cannot do at all ends the case with `Lacking`.

mod body;
mod build;
mod channels;
mod entry;
mod events;
mod fault;
mod policies;
mod rules;
mod script;
mod show;
mod world;

use std::error::Error;

use tokio::runtime;

use crate::result::{Outcome, Refused};
use crate::spec::{Case, Spec};
use build::Refusal;
use script::Session;
use world::World;

type BoxError = Box<dyn Error + Send + Sync>;

/// Something that the engine has no counterpart for.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("not supported yet: {0}")]
struct Lacking(&'static str);

/// Performs a case and adds one result per action, its ids as [tokens](crate::ids::token).
pub fn perform(case: &Case, results: &mut Vec<Outcome>) -> Result<(), BoxError> {
    let world = World::new(match &case.spec {
        Spec::Graph(graph) => &graph.graphs,
        Spec::Entry(entry) => &entry.graphs,
    });
    let built = match &case.spec {
        Spec::Graph(graph) => build::root(graph, &world),
        Spec::Entry(entry) => entry::root(entry, &world),
    };
    let built = match built {
        Ok(built) => built,
        Err(Refusal::Invalid) => {
            let compile_error = "InvalidGraph".to_owned();
            results.push(Outcome::Refused(Refused { compile_error }));
            return Ok(());
        }
        Err(Refusal::Lacking(lacking)) => return Err(lacking.into()),
    };
    // With the clock paused a node that sleeps costs no time.
    let runtime = runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    runtime.block_on(Session::new(case.saver, built, world).perform(&case.script, results))
}
