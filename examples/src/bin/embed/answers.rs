//! JSON that was typed: input and answers.

use serde_json::Value as JsonValue;
use superstep::{Answer, AskId};
use superstep_examples::failed::Failed;

/// The channels to begin with.
pub(crate) fn input(text: Option<&str>) -> Result<JsonValue, Failed> {
    let input = json("the input", text.unwrap_or("{}"))?;
    match input.is_object() {
        true => Ok(input),
        false => Err(Failed::new(format!(
            "the input is an object with channels, not {input}"
        ))),
    }
}

/// Answers as they were typed: JSON, or a question's id, `=` and JSON.
pub(crate) fn answers(texts: &[String]) -> Result<Vec<Answer>, Failed> {
    texts.iter().map(|text| answer(text)).collect()
}

fn answer(text: &str) -> Result<Answer, Failed> {
    let named = text.split_once('=');
    let named = named.and_then(|(id, value)| Some((id.parse::<AskId>().ok()?, value)));
    match named {
        Some((id, value)) => Ok(Answer::to(id, json("the answer", value)?)),
        None => Ok(Answer::only(json("the answer", text)?)),
    }
}

fn json(what: &str, text: &str) -> Result<JsonValue, Failed> {
    serde_json::from_str(text)
        .map_err(|error| Failed::because(format!("{what} `{text}` is no JSON"), &error))
}
