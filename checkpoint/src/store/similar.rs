//! Comparing by meaning: vectors of texts, and the angle between them.

use async_trait::async_trait;
use serde_json::Value;

use super::{StoreError, Vectors};

/// Turns texts into vectors, such that texts of similar meaning have vectors in similar directions.
#[async_trait]
pub trait Embed: Send + Sync {
    /// A vector for each text, in order; all have one length, and none is without direction.
    async fn embed(
        &self,
        texts: Vec<String>,
    ) -> Result<Vec<Vec<f32>>, Box<dyn std::error::Error + Send + Sync>>;
}

pub(super) struct Index {
    pub(super) embed: Box<dyn Embed>,
    /// The fields that are compared; none stands for the whole document.
    pub(super) fields: Vec<String>,
}

impl Index {
    /// The vectors of a document; none if it has none of the fields.
    pub(super) async fn vectors_of(&self, document: &Value) -> Result<Vectors, StoreError> {
        let texts: Vec<String> = match self.fields.is_empty() {
            true => vec![text(document)],
            false => {
                let fields = self.fields.iter();
                fields
                    .filter_map(|field| document.get(field).map(text))
                    .collect()
            }
        };
        match texts.is_empty() {
            true => Ok(Vec::new()),
            false => self.embed(texts).await,
        }
    }

    pub(super) async fn embed(&self, texts: Vec<String>) -> Result<Vectors, StoreError> {
        let expected = texts.len();
        let vectors = self.embed.embed(texts).await;
        let vectors = vectors.map_err(StoreError::Embedding)?;
        if vectors.len() != expected {
            return Err(wrong(
                format!("{expected} vectors"),
                format!("{} of them", vectors.len()),
            ));
        }
        let length = vectors.first().map_or(0, Vec::len);
        for vector in &vectors {
            if vector.len() != length || vector.is_empty() {
                return Err(wrong(
                    "vectors of one length".into(),
                    "several lengths".into(),
                ));
            }
            if !vector.iter().all(|part| part.is_finite()) {
                return Err(wrong("finite numbers".into(), "others".into()));
            }
        }
        Ok(vectors)
    }
}

fn wrong(expected: String, found: String) -> StoreError {
    StoreError::Embedded { expected, found }
}

/// A text as it is, anything else as its JSON.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The cosine of the angle between the query and the nearest of an entry's vectors. Vectors of another length say nothing.
pub(super) fn score(query: &[f32], vectors: &Vectors) -> Option<f32> {
    let same = vectors.iter().filter(|vector| vector.len() == query.len());
    same.map(|vector| cosine(query, vector))
        .max_by(f32::total_cmp)
}

fn cosine(one: &[f32], other: &[f32]) -> f32 {
    let dot = |one: &[f32], other: &[f32]| -> f64 {
        let pairs = one.iter().zip(other);
        pairs
            .map(|(one, other)| f64::from(*one) * f64::from(*other))
            .sum()
    };
    let lengths = dot(one, one).sqrt() * dot(other, other).sqrt();
    match lengths > 0.0 {
        true => (dot(one, other) / lengths) as f32,
        false => 0.0,
    }
}
