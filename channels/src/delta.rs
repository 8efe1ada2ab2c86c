//! When a channel that is stored as its writes is stored whole.

/// How often a delta channel's whole value is stored, so that opening a thread need not fold all its writes.
///
/// With a constant interval a log of N writes costs O(N²/k) bytes of snapshots.
/// [`Amortised`](Snapshots::Amortised) grows the interval with the value: each snapshot of a list is three times as long as the one before,
/// so that all of them together are at most one and a half times as long as the last. At most two and a half bytes are stored for each
/// byte written, and opening folds at most twice as many bytes of writes as the snapshot has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Snapshots {
    /// When the writes since the last snapshot are twice as long as that snapshot.
    #[default]
    Amortised,
    /// After every `k` supersteps that wrote to the channel; 0 counts as 1.
    Every(u32),
    /// When the writes since the last snapshot have this many bytes.
    Bytes(u64),
    /// Never: nothing is stored twice, and opening a thread folds all its writes.
    Never,
}

/// Small values are not worth a snapshot: below this many bytes of writes `Amortised` waits.
const SMALLEST: u64 = 4096;

impl Snapshots {
    /// Whether a snapshot is due after `writes` supersteps wrote `bytes` since the last one, which had `last` bytes.
    ///
    /// ```
    /// use superstep_channels::Snapshots;
    ///
    /// assert!(!Snapshots::Amortised.due(190, 19_000, 10_000));
    /// assert!(Snapshots::Amortised.due(201, 20_001, 10_000));
    /// assert!(Snapshots::Every(3).due(3, 30, 1_000_000));
    /// assert!(!Snapshots::Bytes(100).due(3, 99, 0));
    /// assert!(!Snapshots::Never.due(1_000, 1_000_000, 0));
    /// ```
    pub fn due(self, writes: u32, bytes: u64, last: u64) -> bool {
        match self {
            Snapshots::Amortised => bytes > last.saturating_mul(2).max(SMALLEST),
            Snapshots::Every(k) => writes >= k.max(1),
            Snapshots::Bytes(n) => bytes >= n,
            Snapshots::Never => false,
        }
    }
}
