//! The ratio of two ways to compress the same units, and how sure it is.

/// The sizes of units before and after another way of compressing them, with their squares.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gain {
    count: f64,
    pub(super) before: f64,
    after: f64,
    before_squares: f64,
    after_squares: f64,
    products: f64,
}

impl Gain {
    pub(super) fn add(&mut self, before: f64, after: f64) {
        self.count += 1.0;
        self.before += before;
        self.after += after;
        self.before_squares += before * before;
        self.after_squares += after * after;
        self.products += before * after;
    }

    pub(super) fn with(mut self, other: Gain) -> Gain {
        self.count += other.count;
        self.before += other.before;
        self.after += other.after;
        self
    }

    pub(super) fn ratio(self) -> f64 {
        if self.before > 0.0 {
            self.after / self.before
        } else {
            1.0
        }
    }

    /// The variance of what a total becomes.
    pub(super) fn variance(self, total: f64) -> f64 {
        if self.count < 2.0 || self.before == 0.0 {
            return 0.0;
        }
        let ratio = self.ratio();
        let squares =
            self.after_squares - 2.0 * ratio * self.products + ratio * ratio * self.before_squares;
        let spread = squares.max(0.0) / (self.count - 1.0);
        let mean = self.before / self.count;
        total * total * spread / (self.count * mean * mean)
    }
}
