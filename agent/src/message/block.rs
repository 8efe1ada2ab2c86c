//! What a message is made of.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use superstep_channels::Json;

/// A piece of a message's content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    /// Text to read.
    Text(String),
    /// What the model thought before it answered.
    Reasoning {
        /// The thought; empty where the provider keeps it to itself.
        text: String,
        /// What the provider wants back with the thought, to recognise it.
        signature: Option<String>,
    },
    /// A picture.
    Image(Image),
    /// Anything else, in the form of the provider that understands it.
    Other(Json),
}

/// A picture, carried along or pointed at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Image {
    /// The picture itself.
    Data {
        /// Its media type, `image/png` for example.
        mime: String,
        /// Its bytes in base64, the form every provider takes.
        base64: String,
    },
    /// Where the provider finds the picture.
    Url(String),
}

impl From<&str> for Block {
    fn from(text: &str) -> Self {
        Block::Text(text.to_owned())
    }
}

impl From<String> for Block {
    fn from(text: String) -> Self {
        Block::Text(text)
    }
}

/// The text blocks joined without a separator; copied only when there are several.
pub fn join_text(content: &[Block]) -> Cow<'_, str> {
    let mut texts = content.iter().filter_map(|block| match block {
        Block::Text(text) => Some(text.as_str()),
        _ => None,
    });
    let first = Cow::Borrowed(texts.next().unwrap_or_default());
    texts.fold(first, |joined, text| joined + text)
}
