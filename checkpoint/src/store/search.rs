//! Finding entries and namespaces.

use serde_json::Value;

use super::similar::score;
use super::{Entry, Filter, Namespace, Row, Segment, Store, StoreError};

/// How many rows are looked at at a time.
const PAGE: usize = 512;

/// What is searched for.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// Only in namespaces that begin with these segments; without any everywhere.
    pub prefix: Namespace,
    /// Only documents like this.
    pub filter: Filter,
    /// The most similar to this text first, and only what is indexed.
    pub query: Option<String>,
    /// At most so many; without a number all.
    pub limit: Option<usize>,
    /// After so many.
    pub offset: usize,
    /// Whether the time to live of what is found begins anew.
    pub refresh: bool,
}

impl Search {
    /// Everything in namespaces that begin with these segments, in the order of namespace and key.
    pub fn under(prefix: impl Into<Namespace>) -> Self {
        Search {
            prefix: prefix.into(),
            ..Search::default()
        }
    }

    /// Only documents like this.
    #[must_use]
    pub fn filter(self, filter: Filter) -> Self {
        Search { filter, ..self }
    }

    /// Only documents where a field equals a value.
    #[must_use]
    pub fn is(self, field: impl Into<String>, value: impl Into<Value>) -> Self {
        let filter = self.filter.clone().is(field, value);
        self.filter(filter)
    }

    /// Only documents where a field has at least a value.
    #[must_use]
    pub fn at_least(self, field: impl Into<String>, value: impl Into<Value>) -> Self {
        let filter = self.filter.clone().at_least(field, value);
        self.filter(filter)
    }

    /// The most similar to a text first, and only what is indexed.
    #[must_use]
    pub fn similar_to(self, text: impl Into<String>) -> Self {
        Search {
            query: Some(text.into()),
            ..self
        }
    }

    /// At most so many.
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        Search {
            limit: Some(limit),
            ..self
        }
    }

    /// After so many.
    #[must_use]
    pub fn offset(self, offset: usize) -> Self {
        Search { offset, ..self }
    }

    /// The time to live of what is found begins anew.
    #[must_use]
    pub fn refreshing(self) -> Self {
        Search {
            refresh: true,
            ..self
        }
    }

    fn takes(&self, row: &Row, now: u64) -> bool {
        row.lives_at(now) && self.filter.matches(&row.value)
    }
}

/// An entry that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The entry.
    pub entry: Entry,
    /// How similar it is, from -1 to 1, if that was asked.
    pub score: Option<f32>,
}

/// Which namespaces are listed: those that match all that is given, in order, each once.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// They begin so.
    pub prefix: Vec<Segment>,
    /// They end so.
    pub suffix: Vec<Segment>,
    /// Of deeper ones only so many segments.
    pub depth: Option<usize>,
    /// At most so many; without a number all.
    pub limit: Option<usize>,
    /// After so many.
    pub offset: usize,
}

impl Listing {
    /// All namespaces.
    pub fn all() -> Self {
        Self::default()
    }

    /// Those that begin so; `*` stands for any segment.
    #[must_use]
    pub fn under<S: Into<Segment>>(self, prefix: impl IntoIterator<Item = S>) -> Self {
        Listing {
            prefix: prefix.into_iter().map(Into::into).collect(),
            ..self
        }
    }

    /// Those that end so; `*` stands for any segment.
    #[must_use]
    pub fn ending<S: Into<Segment>>(self, suffix: impl IntoIterator<Item = S>) -> Self {
        Listing {
            suffix: suffix.into_iter().map(Into::into).collect(),
            ..self
        }
    }

    /// Of deeper ones only so many segments.
    #[must_use]
    pub fn depth(self, depth: usize) -> Self {
        Listing {
            depth: Some(depth),
            ..self
        }
    }

    /// At most so many.
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        Listing {
            limit: Some(limit),
            ..self
        }
    }

    /// After so many.
    #[must_use]
    pub fn offset(self, offset: usize) -> Self {
        Listing { offset, ..self }
    }

    fn matches(&self, namespace: &Namespace) -> bool {
        let segments = &namespace.0;
        let fit = |pattern: &[Segment], segments: &[String]| {
            pattern
                .iter()
                .zip(segments)
                .all(|(pattern, segment)| pattern.matches(segment))
        };
        let start = segments.len().checked_sub(self.suffix.len());
        segments.len() >= self.prefix.len()
            && fit(&self.prefix, segments)
            && start.is_some_and(|start| fit(&self.suffix, &segments[start..]))
    }

    /// The segments before the first that may be any.
    fn fixed(&self) -> Namespace {
        let fixed = self.prefix.iter().map_while(|segment| match segment {
            Segment::Is(text) => Some(text.clone()),
            Segment::Any => None,
        });
        Namespace(fixed.collect())
    }
}

impl Store {
    /// Finds entries.
    pub async fn search(&self, search: Search) -> Result<Vec<Found>, StoreError> {
        let now = self.now();
        let rows = match &search.query {
            None => self.in_order(&search, now).await?,
            Some(query) => self.by_similarity(&search, query, now).await?,
        };
        if search.refresh {
            self.refresh(rows.iter().map(|(row, _)| row), now).await?;
        }
        let refreshed = search.refresh.then_some(now);
        let found = rows.into_iter().map(|(row, score)| Found {
            entry: self.entry(row, refreshed),
            score,
        });
        Ok(found.collect())
    }

    async fn in_order(
        &self,
        search: &Search,
        now: u64,
    ) -> Result<Vec<(Row, Option<f32>)>, StoreError> {
        let limit = search.limit.unwrap_or(usize::MAX);
        let (mut found, mut skipped) = (Vec::new(), 0);
        let mut after: Option<(Namespace, String)> = None;
        while found.len() < limit {
            let from = after
                .as_ref()
                .map(|(namespace, key)| (namespace, key.as_str()));
            let page = self.backend.scan(&search.prefix, from, PAGE, false).await?;
            let Some(last) = page.last() else {
                break;
            };
            after = Some((last.namespace.clone(), last.key.clone()));
            for row in page.into_iter().filter(|row| search.takes(row, now)) {
                match skipped < search.offset {
                    true => skipped += 1,
                    false => found.push((row, None)),
                }
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    async fn by_similarity(
        &self,
        search: &Search,
        query: &str,
        now: u64,
    ) -> Result<Vec<(Row, Option<f32>)>, StoreError> {
        let index = self.index.as_ref().ok_or(StoreError::NoIndex)?;
        let query = index
            .embed(vec![query.to_owned()])
            .await?
            .pop()
            .unwrap_or_default();
        let keep = search
            .offset
            .saturating_add(search.limit.unwrap_or(usize::MAX));
        let mut best: Vec<(Row, f32)> = Vec::new();
        let mut after: Option<(Namespace, String)> = None;
        loop {
            let from = after
                .as_ref()
                .map(|(namespace, key)| (namespace, key.as_str()));
            let page = self.backend.scan(&search.prefix, from, PAGE, true).await?;
            let Some(last) = page.last() else {
                break;
            };
            after = Some((last.namespace.clone(), last.key.clone()));
            let taken = page.into_iter().filter(|row| search.takes(row, now));
            best.extend(taken.filter_map(|mut row| {
                let score = score(&query, &row.vectors)?;
                row.vectors.clear();
                Some((row, score))
            }));
            // The sort is stable: of equals the first in order comes first.
            best.sort_by(|one, other| other.1.total_cmp(&one.1));
            best.truncate(keep);
        }
        let best = best.into_iter().skip(search.offset);
        Ok(best.map(|(row, score)| (row, Some(score))).collect())
    }

    /// Lists namespaces that hold something.
    pub async fn namespaces(&self, listing: Listing) -> Result<Vec<Namespace>, StoreError> {
        let all = self
            .backend
            .namespaces(&listing.fixed(), self.now())
            .await?;
        let mut listed: Vec<Namespace> = Vec::new();
        for mut namespace in all
            .into_iter()
            .filter(|namespace| listing.matches(namespace))
        {
            namespace.0.truncate(listing.depth.unwrap_or(usize::MAX));
            // They are sorted, so those that became equal stand side by side.
            if listed.last() != Some(&namespace) {
                listed.push(namespace);
            }
        }
        let listed = listed.into_iter().skip(listing.offset);
        Ok(listed.take(listing.limit.unwrap_or(usize::MAX)).collect())
    }
}
