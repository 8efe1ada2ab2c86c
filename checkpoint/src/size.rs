//! How much is stored.

/// How much a thread stores, by namespace and kind. Bytes are payload: keys and indexes of the store come on top.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// The shares that are not empty, in the order of their fields.
    pub shares: Vec<Share>,
}

/// One part of what a thread stores.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share {
    /// The namespace.
    pub namespace: String,
    /// What it is.
    pub kind: Kind,
    /// Whose values or logs they are; empty for headers and tasks.
    pub channel: String,
    /// How many there are.
    pub count: u64,
    /// How long they are together.
    pub bytes: u64,
}

/// Kinds of what is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Headers of checkpoints.
    Header,
    /// Values of channels; those of delta channels are snapshots.
    Value,
    /// What was written to delta channels.
    Log,
    /// Records of tasks.
    Task,
}

impl Size {
    /// All bytes.
    pub fn bytes(&self) -> u64 {
        self.shares.iter().map(|share| share.bytes).sum()
    }

    /// The bytes of one kind.
    pub fn bytes_of(&self, kind: Kind) -> u64 {
        self.of(kind).map(|share| share.bytes).sum()
    }

    /// How many there are of one kind.
    pub fn count_of(&self, kind: Kind) -> u64 {
        self.of(kind).map(|share| share.count).sum()
    }

    /// How many checkpoints there are.
    pub fn checkpoints(&self) -> u64 {
        self.count_of(Kind::Header)
    }

    /// How many namespaces hold a checkpoint.
    pub fn namespaces(&self) -> usize {
        self.of(Kind::Header).count()
    }

    fn of(&self, kind: Kind) -> impl Iterator<Item = &Share> {
        self.shares.iter().filter(move |share| share.kind == kind)
    }
}
