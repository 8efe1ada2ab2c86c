//! The engine's declarations of a case's channels.

use serde_json::Value;
use superstep::channels::{ChannelSpec, Json, Snapshots, fold_with};

use super::Lacking;
use crate::folds::FoldError;
use crate::spec::{Channel, Init};

/// The declaration of a channel; all values are JSON.
pub(super) fn spec(name: &str, channel: &Channel) -> Result<ChannelSpec, Lacking> {
    let name = name.to_owned();
    Ok(match channel {
        Channel::LastValue {} => ChannelSpec::last::<Json>(name),
        Channel::AnyValue {} => ChannelSpec::any::<Json>(name),
        Channel::Ephemeral { guard } => guarded(ChannelSpec::ephemeral::<Json>(name), *guard),
        Channel::Untracked { guard } => guarded(ChannelSpec::untracked::<Json>(name), *guard),
        Channel::Topic { accumulate: false } => {
            ChannelSpec::topic::<Json, Json>(name, fold_with(collect))
        }
        Channel::Topic { accumulate: true } => {
            ChannelSpec::reduce::<Json, Json>(name, fold_with(collect))
        }
        Channel::Reduce {
            op,
            init: Init::Zero,
        } => ChannelSpec::reduce_from(name, op.zero(), fold_with(op.function())),
        Channel::Reduce {
            op,
            init: Init::None,
        } => ChannelSpec::reduce_from_first(name, fold_with(op.function())),
        Channel::Delta {
            op,
            snapshot_frequency,
        } => ChannelSpec::reduce_from(name, op.zero(), fold_with(op.function()))
            .as_delta(Snapshots::Every(*snapshot_frequency)),
        Channel::IsLastStep {} | Channel::RemainingSteps {} => {
            return Err(Lacking("values that the engine computes, as channels"));
        }
    })
}

fn guarded(spec: ChannelSpec, guard: bool) -> ChannelSpec {
    if guard { spec } else { spec.unguarded() }
}

/// A topic takes one item or a list of them. It starts from null.
fn collect(value: &mut Json, update: Json) -> Result<(), FoldError> {
    let mut items = match value.0.take() {
        Value::Array(items) => items,
        _ => Vec::new(),
    };
    match update.0 {
        Value::Array(more) => items.extend(more),
        item => items.push(item),
    }
    value.0 = items.into();
    Ok(())
}
