//! When a device computed and when it copied, without growing for ever.

use std::time::Duration;

/// Intervals that are kept one by one.
const KEPT: usize = 8192;
/// How long an interval is kept: those of proofs that run now may still overlap it.
const WINDOW: Duration = Duration::from_secs(60);

type Interval = (Duration, Duration);

/// How long a device computed, copied, and did both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) computing: Duration,
    pub(super) copying: Duration,
    pub(super) both: Duration,
}

/// The intervals of a device. Once there are many, what is older than a minute is folded into sums; if all are younger, the older
/// half.
#[derive(Default)]
pub(super) struct Intervals {
    computing: Vec<Interval>,
    copying: Vec<Interval>,
    folded: Totals,
}

impl Intervals {
    pub(super) fn add(&mut self, copy: bool, begin: Duration, end: Duration) {
        if end <= begin {
            return;
        }
        let list = if copy { &mut self.copying } else { &mut self.computing };
        list.push((begin, end));
        if self.computing.len() + self.copying.len() > KEPT {
            merge(&mut self.computing);
            merge(&mut self.copying);
            let mut ends: Vec<Duration> =
                self.computing.iter().chain(&self.copying).map(|interval| interval.1).collect();
            ends.sort_unstable();
            let latest = ends.last().copied().unwrap_or_default();
            let median = ends.get(ends.len() / 2).copied().unwrap_or_default();
            // At least half goes, so that sorting is worth its time.
            let until = latest.saturating_sub(WINDOW);
            self.fold(if self.computing.len() + self.copying.len() > KEPT / 2 {
                until.max(median)
            } else {
                until
            });
        }
    }

    pub(super) fn totals(&mut self) -> Totals {
        merge(&mut self.computing);
        merge(&mut self.copying);
        self.folded.plus(&self.computing, &self.copying)
    }

    /// Sums up what was before `until`. Both lists are merged.
    fn fold(&mut self, until: Duration) {
        let computing = cut(&mut self.computing, until);
        let copying = cut(&mut self.copying, until);
        self.folded = self.folded.plus(&computing, &copying);
    }
}

impl Totals {
    /// With two lists of disjoint, sorted intervals.
    fn plus(self, computing: &[Interval], copying: &[Interval]) -> Self {
        let length = |list: &[Interval]| list.iter().map(|(begin, end)| *end - *begin).sum::<Duration>();
        Self {
            computing: self.computing + length(computing),
            copying: self.copying + length(copying),
            both: self.both + common(computing, copying),
        }
    }
}

/// Makes them disjoint and sorted.
fn merge(list: &mut Vec<Interval>) {
    list.sort_unstable();
    let mut merged: Vec<Interval> = Vec::with_capacity(list.len());
    for &(begin, end) in &*list {
        match merged.last_mut() {
            Some(last) if begin <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((begin, end)),
        }
    }
    *list = merged;
}

/// Takes away what was before `until`.
fn cut(list: &mut Vec<Interval>, until: Duration) -> Vec<Interval> {
    let before = |&(begin, end): &Interval| (begin < until).then(|| (begin, end.min(until)));
    let taken = list.iter().filter_map(before).collect();
    list.retain(|(_, end)| *end > until);
    for interval in list {
        interval.0 = interval.0.max(until);
    }
    taken
}

/// What two lists have in common.
fn common(left: &[Interval], right: &[Interval]) -> Duration {
    let (mut l, mut r, mut sum) = (0, 0, Duration::ZERO);
    while l < left.len() && r < right.len() {
        let (begin, end) = (left[l].0.max(right[r].0), left[l].1.min(right[r].1));
        sum += end.saturating_sub(begin);
        if left[l].1 < right[r].1 {
            l += 1;
        } else {
            r += 1;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folding_changes_no_total() {
        let ms = Duration::from_millis;
        let mut whole = Intervals::default();
        let mut folded = Intervals::default();
        for i in 0..500_u64 {
            for (copy, begin, length) in [(false, i * 10, 7), (true, i * 10 + 5, 4), (false, i * 10 + 3, 2)] {
                whole.add(copy, ms(begin), ms(begin + length));
                folded.add(copy, ms(begin), ms(begin + length));
            }
            if i % 50 == 49 {
                merge(&mut folded.computing);
                merge(&mut folded.copying);
                // In the middle of intervals.
                folded.fold(ms(i * 10 - 94));
                assert!(folded.computing.len() < 12);
            }
        }
        let expected = Totals { computing: ms(3500), copying: ms(2000), both: ms(1000) };
        assert_eq!(whole.totals(), expected);
        assert_eq!(folded.totals(), expected);
    }

    #[test]
    fn many_intervals_take_little_memory() {
        let mut intervals = Intervals::default();
        let second = Duration::from_secs(1);
        for i in 0..100_000_u32 {
            intervals.add(i % 2 == 1, second * i, second * i + second / 2);
        }
        assert!(intervals.computing.len() + intervals.copying.len() <= KEPT);
        let totals = intervals.totals();
        assert_eq!((totals.computing, totals.copying), (second * 25_000, second * 25_000));

        // Thousands a second: none is older than a minute.
        let mut intervals = Intervals::default();
        let step = Duration::from_micros(100);
        let start = std::time::Instant::now();
        for i in 0..200_000_u32 {
            intervals.add(i % 2 == 1, step * i, step * i + step / 2);
            assert!(intervals.computing.len() + intervals.copying.len() <= KEPT + 1);
        }
        assert_eq!(intervals.totals().computing, step / 2 * 100_000);
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    }
}
