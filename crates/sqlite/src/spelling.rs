//! Whether a name is another one misspelt.

/// Names that programs of other people give, and that are not ones of ours misspelt.
const OF_OTHERS: [&str; 1] = ["uri"];
/// Names that are no slips, but that a user writes who remembers ours roughly.
const ROUGHLY: [(&str, &str); 3] = [
    ("retry", "retries"),
    ("bearer_token", "bearer"),
    ("lvl", "level"),
];
/// Longer names than any of ours and a slip or two are not compared.
const LEN_MAX: usize = 32;

/// The one of `known` that `name` is likely meant to be. Names that begin with `_` are by custom another library's.
pub(crate) fn meant(
    name: &str,
    mut known: impl Iterator<Item = &'static str>,
) -> Option<&'static str> {
    if name.starts_with('_') || name.len() > LEN_MAX || OF_OTHERS.contains(&name) {
        return None;
    }
    let plain = name.to_ascii_lowercase().replace('-', "_");
    if let Some((_, ours)) = ROUGHLY.iter().find(|(name, _)| *name == plain) {
        return known.find(|known| known == ours);
    }
    known
        .map(|known| (distance(plain.as_bytes(), known.as_bytes()), known))
        .filter(|(distance, known)| *distance <= if known.len() < 7 { 1 } else { 2 })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// How many slips lie between two words: a letter too many, too few, another one, or two that changed places.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut least = (rows[i][j] + usize::from(x != y))
                .min(rows[i][j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: [&str; 7] = [
        "level", "threads", "cache_mb", "url", "bearer", "timeout", "retries",
    ];

    #[test]
    fn slips_are_told_from_other_names() {
        let meant = |name: &str| meant(name, OURS.into_iter());
        for (name, ours) in [
            ("levle", "level"),
            ("lvel", "level"),
            ("Level", "level"),
            ("thread", "threads"),
            ("treads", "threads"),
            ("cachemb", "cache_mb"),
            ("cache-mb", "cache_mb"),
            ("cache_bm", "cache_mb"),
            ("URL", "url"),
            ("ulr", "url"),
            ("timout", "timeout"),
            ("beaerer", "bearer"),
            ("retry", "retries"),
            ("Bearer-Token", "bearer"),
            ("lvl", "level"),
        ] {
            assert_eq!(meant(name), Some(ours), "{name}");
        }
        for name in [
            "_journal_mode",
            "_level",
            "_levle",
            "uri",
            "key",
            "cipher",
            "cache_size",
            "busy_timeout",
            "connection_limit",
            "label",
            "x",
            "",
            "read_only",
            "time_zone",
        ] {
            assert_eq!(meant(name), None, "{name}");
        }
        assert_eq!(meant(&"level".repeat(100)), None);
    }
}
