//! Asks a person. The run stops here until there is an answer.

use serde::Deserialize;
use serde_json::{Map, Value as JsonValue};
use superstep::channels::Json;
use superstep::document::BoxError;
use superstep::{Context, Handler};

use super::put;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    question: String,
    /// The channels that are shown with it.
    #[serde(default)]
    show: Vec<String>,
    answer: Form,
    /// The channel for the answer.
    into: String,
}

/// What counts as an answer. Any other is refused, and the question stays open.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Form {
    YesOrNo,
    Text,
    Number,
}

pub(super) fn make(with: Ask) -> Result<impl Handler<Json>, BoxError> {
    Ok(move |Json(state): Json, cx: Context| {
        let with = with.clone();
        async move {
            let shown = with.show.iter();
            let shown = shown.map(|channel| (channel.clone(), state[channel].clone()));
            let mut question = Map::from_iter([("question".to_owned(), with.question.into())]);
            question.extend(shown);
            let answer: JsonValue = match with.answer {
                Form::YesOrNo => cx.interrupt::<bool>(&question).await.into(),
                Form::Text => cx.interrupt::<String>(&question).await.into(),
                Form::Number => cx.interrupt::<f64>(&question).await.into(),
            };
            Ok(put(&with.into, answer))
        }
    })
}
