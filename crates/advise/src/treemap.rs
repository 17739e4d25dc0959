//! A squarified treemap (Bruls, Huizing, van Wijk: Squarified Treemaps, 2000): rectangles whose areas are in proportion
//! to sizes, and that are as square as can be. The crates for it are not kept up (the last release of `treemap` is of
//! 2019, that of `streemap` of 2020).

/// A rectangle.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rect {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

impl Rect {
    fn short_side(self) -> f64 {
        self.width.min(self.height)
    }

    /// The rectangle less a margin, and less a heading above it.
    pub(crate) fn inner(self, margin: f64, heading: f64) -> Rect {
        Rect {
            x: self.x + margin,
            y: self.y + margin + heading,
            width: (self.width - 2.0 * margin).max(0.0),
            height: (self.height - 2.0 * margin - heading).max(0.0),
        }
    }
}

/// Divides a rectangle among sizes, which are in order, the largest first.
pub(crate) fn layout(sizes: &[f64], within: Rect) -> Vec<Rect> {
    let all: f64 = sizes.iter().sum();
    let area = within.width * within.height;
    if all <= 0.0 || area <= 0.0 {
        return vec![Rect::default(); sizes.len()];
    }
    let areas: Vec<f64> = sizes.iter().map(|size| size * area / all).collect();
    let (mut left, mut placed, mut begin) = (within, Vec::with_capacity(sizes.len()), 0);
    while begin < areas.len() {
        let side = left.short_side();
        let (mut end, mut sum) = (begin + 1, areas[begin]);
        // A row takes one more as long as that makes its rectangles no longer.
        while end < areas.len() {
            let longer = worst(areas[begin], areas[end], sum + areas[end], side);
            if longer > worst(areas[begin], areas[end - 1], sum, side) {
                break;
            }
            sum += areas[end];
            end += 1;
        }
        left = row(&areas[begin..end], sum, left, &mut placed);
        begin = end;
    }
    placed
}

/// How long the longest rectangle of a row is to its width, by its largest and its smallest area.
fn worst(largest: f64, smallest: f64, sum: f64, side: f64) -> f64 {
    let (side, sum) = (side * side, sum * sum);
    (side * largest / sum).max(sum / (side * smallest.max(f64::MIN_POSITIVE)))
}

/// Places a row along the short side, and returns what is left.
fn row(areas: &[f64], sum: f64, left: Rect, placed: &mut Vec<Rect>) -> Rect {
    let tall = left.width >= left.height;
    let thick = sum / left.short_side().max(f64::MIN_POSITIVE);
    let mut along = if tall { left.y } else { left.x };
    for area in areas {
        let length = if thick > 0.0 { area / thick } else { 0.0 };
        placed.push(match tall {
            true => Rect {
                x: left.x,
                y: along,
                width: thick,
                height: length,
            },
            false => Rect {
                x: along,
                y: left.y,
                width: length,
                height: thick,
            },
        });
        along += length;
    }
    match tall {
        true => Rect {
            x: left.x + thick,
            width: (left.width - thick).max(0.0),
            ..left
        },
        false => Rect {
            y: left.y + thick,
            height: (left.height - thick).max(0.0),
            ..left
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_in_proportion_and_within() {
        let within = Rect {
            x: 10.0,
            y: 20.0,
            width: 600.0,
            height: 400.0,
        };
        let sizes = [6.0, 6.0, 4.0, 3.0, 2.0, 2.0, 1.0];
        let placed = layout(&sizes, within);
        assert_eq!(placed.len(), sizes.len());
        for (rect, size) in placed.iter().zip(sizes) {
            let area = rect.width * rect.height;
            assert!((area - size * 10_000.0).abs() < 1.0, "{rect:?}");
            assert!(rect.x >= 9.99 && rect.x + rect.width <= 610.01);
            assert!(rect.y >= 19.99 && rect.y + rect.height <= 420.01);
            assert!(
                rect.width.max(rect.height) / rect.short_side() < 4.0,
                "{rect:?}"
            );
        }
        for (at, a) in placed.iter().enumerate() {
            for b in &placed[at + 1..] {
                let apart = |a: f64, to: f64, b: f64| a + to <= b + 1e-6;
                assert!(
                    apart(a.x, a.width, b.x)
                        || apart(b.x, b.width, a.x)
                        || apart(a.y, a.height, b.y)
                        || apart(b.y, b.height, a.y)
                );
            }
        }
    }

    #[test]
    fn nothing_is_divided_into_nothing() {
        assert!(layout(&[], Rect::default()).is_empty());
        let within = Rect {
            width: 5.0,
            height: 5.0,
            ..Rect::default()
        };
        assert_eq!(layout(&[0.0, 0.0], within), [Rect::default(); 2]);
        let placed = layout(&[1.0, 0.0, 0.0], within);
        assert!(
            placed
                .iter()
                .all(|rect| rect.width.is_finite() && rect.height.is_finite())
        );
    }
}
