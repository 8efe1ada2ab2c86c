//! A text file line by line, in bounded memory.

use std::io::{self, BufRead, Read};

/// Reads lines that end with LF; a CR before it belongs to the end of the line.
/// The last line may lack its end. Lines are counted as they are finished.
#[derive(Debug)]
pub(super) struct Lines<R> {
    reader: R,
    finished: u64,
}

/// How much of a line was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// All that was left of it.
    End,
    /// As much as was asked for; there is more.
    Part,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(reader: R) -> Self {
        Self {
            reader,
            finished: 0,
        }
    }

    /// How many lines were read to their end.
    pub(super) fn finished(&self) -> u64 {
        self.finished
    }

    /// Puts up to `max` bytes of the current line in `text`, without the line's end;
    /// `None` at the end of the file.
    pub(super) fn piece(&mut self, max: usize, text: &mut Vec<u8>) -> io::Result<Option<Piece>> {
        text.clear();
        if self.at_end()? {
            return Ok(None);
        }
        self.reader
            .by_ref()
            .take(max as u64)
            .read_until(b'\n', text)?;
        let ended = text.pop_if(|last| *last == b'\n').is_some() || self.skip_lf()?;
        if ended {
            text.pop_if(|last| *last == b'\r');
        } else if !self.at_end()? {
            return Ok(Some(Piece::Part));
        }
        self.finished += 1;
        Ok(Some(Piece::End))
    }

    /// Passes over the rest of the current line; false at the end of the file.
    pub(super) fn skip_line(&mut self) -> io::Result<bool> {
        let any = self.reader.skip_until(b'\n')? > 0;
        self.finished += u64::from(any);
        Ok(any)
    }

    /// Passes over everything left, and gives the number of all lines.
    pub(super) fn count_rest(&mut self) -> io::Result<u64> {
        let mut open = false;
        loop {
            let chunk = self.reader.fill_buf()?;
            let Some(last) = chunk.last() else { break };
            open = *last != b'\n';
            self.finished += chunk.iter().filter(|byte| **byte == b'\n').count() as u64;
            let length = chunk.len();
            self.reader.consume(length);
        }
        self.finished += u64::from(open);
        Ok(self.finished)
    }

    /// Takes the line's end, if it is all that is left of the line.
    fn skip_lf(&mut self) -> io::Result<bool> {
        let next = self.reader.fill_buf()?.first() == Some(&b'\n');
        self.reader.consume(usize::from(next));
        Ok(next)
    }

    fn at_end(&mut self) -> io::Result<bool> {
        Ok(self.reader.fill_buf()?.is_empty())
    }
}

/// The largest length up to that of `bytes` at which a character is not cut in two.
pub(super) fn whole_chars(bytes: &[u8]) -> usize {
    for (back, byte) in (1..).zip(bytes.iter().rev().take(3)) {
        let width = match byte {
            0x80..=0xBF => continue,
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF7 => 4,
            _ => 1,
        };
        return if width > back {
            bytes.len() - back
        } else {
            bytes.len()
        };
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof!["\n", "\r\n", "\r", "[a-zé∀🦀]{0,5}"].prop_map(String::into_bytes);
        let piece = prop_oneof![4 => piece, 1 => prop::collection::vec(any::<u8>(), 0..4)];
        prop::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
    }

    fn model(bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut lines: Vec<_> = bytes
            .split(|byte| *byte == b'\n')
            .map(<[u8]>::to_vec)
            .collect();
        if lines.last().is_some_and(Vec::is_empty) {
            lines.pop();
        }
        let ends = bytes.iter().filter(|byte| **byte == b'\n').count();
        for line in lines.iter_mut().take(ends) {
            line.pop_if(|last| *last == b'\r');
        }
        lines
    }

    proptest! {
        #[test]
        fn whole_lines_are_those_of_a_split(bytes in bytes(), buffer in 1usize..9) {
            let mut lines = Lines::new(io::BufReader::with_capacity(buffer, &bytes[..]));
            let (mut all, mut text) = (Vec::new(), Vec::new());
            while let Some(piece) = lines.piece(1000, &mut text).unwrap() {
                prop_assert_eq!(piece, Piece::End);
                all.push(text.clone());
            }
            prop_assert_eq!(&all, &model(&bytes));
            prop_assert_eq!(lines.finished(), all.len() as u64);
        }

        #[test]
        fn every_way_of_passing_counts_the_same(bytes in bytes(), buffer in 1usize..9, skip in 0u64..9, max in 1usize..5) {
            let expected = model(&bytes).len() as u64;
            let mut lines = Lines::new(io::BufReader::with_capacity(buffer, &bytes[..]));
            let mut text = Vec::new();
            while lines.finished() < skip && lines.skip_line().unwrap() {}
            prop_assert_eq!(lines.finished(), skip.min(expected));
            lines.piece(max, &mut text).unwrap();
            prop_assert_eq!(lines.count_rest().unwrap(), expected);
        }

        #[test]
        fn a_cut_between_characters_changes_no_text(bytes in bytes(), at in 0usize..50) {
            let (head, tail) = bytes.split_at(at.min(bytes.len()));
            let (head, rest) = head.split_at(whole_chars(head));
            let tail = [rest, tail].concat();
            let joined = String::from_utf8_lossy(head).into_owned() + &String::from_utf8_lossy(&tail);
            prop_assert_eq!(joined, String::from_utf8_lossy(&bytes));
        }
    }
}
