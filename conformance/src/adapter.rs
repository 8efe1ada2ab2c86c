//! The engine's side: builds a case's graph and performs its script.

use std::error::Error;

use crate::result::Outcome;
use crate::spec::Case;

/// Performs a case and gives one result per action, its ids as [tokens](crate::ids::token).
pub fn perform(case: &Case) -> Result<Vec<Outcome>, Box<dyn Error + Send + Sync>> {
    Err(format!(
        "`{}` cannot be performed: the engine is not connected",
        case.name
    )
    .into())
}
