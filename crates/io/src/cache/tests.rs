use super::*;
use crate::limits::Share;
use litepack_skip::{Expected, skip};

fn page(file: FileId, offset: u64) -> PageKey {
    PageKey::Page {
        file,
        offset,
        len: 100,
        sum: 0,
    }
}

fn frame(file: FileId, number: u32) -> FrameKey {
    FrameKey {
        file,
        table: 0,
        frame: number,
        piece: None,
    }
}

fn capacity(cache: &Cache, kind: CacheKind) -> u64 {
    let division = cache.division();
    let elastic = match kind {
        CacheKind::Pages => division.elastic(),
        CacheKind::Frames | CacheKind::Blocks => 0,
    };
    division.part(kind).unwrap_or(0) + elastic
}

fn weight(cache: &Cache, kind: CacheKind) -> u64 {
    let elastic = match kind {
        CacheKind::Pages => cache.elastic.as_ref().map_or(0, Elastic::bytes),
        CacheKind::Frames | CacheKind::Blocks => 0,
    };
    cache.part(kind).weight() + elastic
}

#[test]
fn without_a_budget_nothing_is_kept() {
    let cache = Arc::new(Cache::new(DEFAULT_BUDGET));
    cache.begin_use(CacheKind::Pages);
    cache.begin_use(CacheKind::Frames);
    let file = FileId::unique();
    let fill = || {
        for number in 1..100 {
            cache.put_page(
                page(file, number),
                &[0; 4096],
                PageRole::Leaf,
                &mut Spare::default(),
            );
            cache.put_frame(frame(file, number as u32), Arc::new(vec![0; 4096]));
        }
    };
    fill();
    assert!(cache.has_page(&page(file, 50), 4096) && cache.has_frame(&frame(file, 50)));
    cache.set_budget(0);
    fill();
    assert_eq!(cache.bytes(), 0);
    cache.set_budget(DEFAULT_BUDGET);
    assert!((1..100).all(|number| !cache.has_page(&page(file, number), 4096)));
    fill();
    assert!(cache.has_page(&page(file, 50), 4096) && cache.has_frame(&frame(file, 50)));
}

#[test]
fn what_is_reserved_is_given_back() {
    let cache = Arc::new(Cache::new(64 << 20));
    cache.begin_use(CacheKind::Pages);
    let reserve = || CacheReservation::new(&cache, 24 << 20);
    let reserved = (reserve(), reserve());
    assert_eq!(capacity(&cache, CacheKind::Pages), 32 << 20);
    drop(reserved.0);
    assert_eq!(capacity(&cache, CacheKind::Pages), 40 << 20);
    cache.set_budget(80 << 20);
    assert_eq!(capacity(&cache, CacheKind::Pages), 56 << 20);
    drop(reserved.1);
    assert_eq!(capacity(&cache, CacheKind::Pages), 80 << 20);
    assert_eq!(cache.budget(), 80 << 20);
}

#[test]
fn what_is_pushed_out_is_memory_for_what_comes_unless_someone_has_it() {
    let cache = Arc::new(Cache::new(1 << 20));
    cache.begin_use(CacheKind::Pages);
    let file = FileId::unique();
    let mut spare = Spare::default();
    let mut held = Vec::new();
    let mut reused = 0;
    for number in 1..4000_u64 {
        let bytes = [number as u8; 4096];
        let former = spare.0.as_ref().filter(|page| Arc::strong_count(page) == 1);
        let former = former.map(|page| page.as_ptr());
        cache.put_page(page(file, number), &bytes, PageRole::Upper, &mut spare);
        let kept = cache
            .upper_page(&page(file, number), false)
            .expect("just put");
        assert!(*kept == bytes);
        reused += u32::from(former == Some(kept.as_ptr()));
        if number % 3 == 0 {
            held.push((number, kept));
        }
    }
    assert!(reused > 2000, "{reused}");
    for (number, page) in held {
        assert!(*page == [number as u8; 4096], "page {number}");
    }
}

/// The upper pages of a file of 10 GB take more than all that is ours alone.
#[test]
fn pages_that_lead_to_others_go_to_the_rest_when_their_own_part_is_full() {
    let cache = Arc::new(Cache::new(16 << 20));
    if cache.elastic.is_none() {
        return skip(Expected::OnLinux, "no memory that the system may take back");
    }
    cache.begin_use(CacheKind::Pages);
    let own = cache.division().part(CacheKind::Pages).unwrap();
    let (file, count) = (FileId::unique(), 2000);
    assert!(own < count * 4096 / 3);
    let content = |number| [number as u8; 4096];
    let spare = &mut Spare::default();
    for number in 0..count {
        let bytes = content(number);
        cache.put_page(page(file, number), &bytes, PageRole::Upper, spare);
    }
    let mut out = [0; 4096];
    for number in 0..count {
        let key = page(file, number);
        assert!(cache.read_page(&key, &mut out, true), "page {number}");
        assert!(out == content(number));
        assert!(cache.remove_page(&key, 4096) && !cache.has_page(&key, 4096));
    }
}

/// A replaced page is not kept elsewhere: it would be found first.
#[test]
fn of_two_pages_by_the_same_key_the_later_one_is_found() {
    let cache = Arc::new(Cache::new(16 << 20));
    cache.begin_use(CacheKind::Pages);
    let (key, spare) = (page(FileId::unique(), 1), &mut Spare::default());
    let mut out = [0; 4096];
    for content in 1..5 {
        cache.put_page(key, &[content; 4096], PageRole::Upper, spare);
        assert!(cache.read_page(&key, &mut out, true) && out == [content; 4096]);
    }
}

#[test]
fn copies_of_objects_have_what_large_files_need_or_nothing() {
    let memory = Share {
        all: 16 << 30,
        part: 16 << 30,
    };
    let cache = Arc::new(Cache::divided(
        Division::new(None, Some(memory), fixed::of(u64::MAX)),
        None,
    ));
    cache.begin_use(CacheKind::Pages);
    let mut file = CachedFile::new(&cache, FileId::unique());
    let mut copies = |decoded| {
        file.tell(FileSize { stored: 0, decoded });
        cache.division().copies()
    };
    assert_eq!(copies(10 << 30), 80 << 20);
    // An eighth of all that there is.
    assert_eq!(copies(400 << 30), 2 << 30);
    assert_eq!(copies(520 << 30), 0);
    cache.set_budget(40 << 20);
    assert_eq!(cache.division().copies(), 0);
}

/// Puts frames of 64 KiB there, as many as would fill the whole budget three times.
fn scan(cache: &Cache, file: FileId) {
    for number in 0..3 * (cache.budget() >> 16) as u32 {
        cache.put_frame(frame(file, number), Arc::new(vec![0; 64 << 10]));
    }
}

fn fill_pages(cache: &Cache, file: FileId, count: u64) {
    for number in 0..count {
        cache.put_page(
            page(file, number),
            &[0; 4096],
            PageRole::Leaf,
            &mut Spare::default(),
        );
    }
}

#[test]
fn a_kind_alone_has_all_two_have_half_each_and_nothing_goes_beyond_the_budget() {
    const BUDGET: u64 = 16 << 20;
    let cache = Arc::new(Cache::new(BUDGET));
    let file = FileId::unique();
    cache.begin_use(CacheKind::Pages);
    fill_pages(&cache, file, 8000);
    assert!(cache.bytes() > BUDGET / 4 * 3 && cache.bytes() <= BUDGET);
    cache.begin_use(CacheKind::Frames);
    for _ in 0..2 {
        scan(&cache, file);
        fill_pages(&cache, file, 8000);
        assert!(cache.bytes() <= BUDGET);
        for kind in [CacheKind::Pages, CacheKind::Frames] {
            let part = weight(&cache, kind);
            assert!(part > BUDGET / 16 * 5, "{kind:?} has {part}");
        }
    }
    cache.begin_use(CacheKind::Blocks);
    assert!(cache.bytes() <= BUDGET / 3 * 2 + 1);
    assert_eq!(cache.share(), BUDGET / 3);
}

#[test]
fn the_default_is_larger_when_more_than_packed_files_are_read_unless_someone_chose() {
    let cache = Cache::divided(Division::new(None, None, fixed::of(u64::MAX)), None);
    cache.begin_use(CacheKind::Pages);
    assert_eq!(
        (cache.budget(), cache.share()),
        (DEFAULT_BUDGET, DEFAULT_BUDGET)
    );
    cache.begin_use(CacheKind::Frames);
    let (all, half) = (DEFAULT_BUDGET_OF_MANY, DEFAULT_BUDGET_OF_MANY / 2);
    assert_eq!((cache.budget(), cache.share()), (all, half));
    cache.set_budget(10 << 20);
    cache.begin_use(CacheKind::Blocks);
    assert_eq!(cache.budget(), 10 << 20);
}

#[test]
fn a_frame_as_large_as_half_a_part_is_kept() {
    let cache = Arc::new(Cache::new(32 << 20));
    let file = FileId::unique();
    cache.begin_use(CacheKind::Pages);
    cache.begin_use(CacheKind::Frames);
    fill_pages(&cache, file, 16_000);
    for number in 0..4 {
        let bytes = vec![0; (cache.share() / 2) as usize - 1000];
        cache.put_frame(frame(file, number), Arc::new(bytes));
        assert!(cache.has_frame(&frame(file, number)), "frame {number}");
    }
}

#[test]
fn opening_a_file_of_a_known_kind_drops_nothing() {
    let cache = Arc::new(Cache::new(16 << 20));
    let file = FileId::unique();
    cache.begin_use(CacheKind::Pages);
    cache.begin_use(CacheKind::Frames);
    fill_pages(&cache, file, 1000);
    let before = cache.bytes();
    cache.begin_use(CacheKind::Frames);
    cache.begin_use(CacheKind::Pages);
    assert_eq!(cache.bytes(), before);
}

/// Reads pages in a ring that fits the cache; how many are found there in the last of many rounds.
fn hits(cache: &Cache, file: FileId, pages: u64, rounds: u32) -> u64 {
    let (mut hits, mut out) = (0, [0; 4096]);
    for _ in 0..rounds {
        hits = 0;
        for number in 0..pages {
            if cache.read_page(&page(file, number), &mut out, true) {
                hits += 1;
            } else {
                cache.put_page(
                    page(file, number),
                    &[0; 4096],
                    PageRole::Leaf,
                    &mut Spare::default(),
                );
            }
        }
    }
    hits
}

/// The table remembers what it dropped, so that pages of a second file replace those of the first.
#[test]
fn a_part_that_was_small_or_empty_learns_new_pages_as_before() {
    const BUDGET: u64 = 16 << 20;
    type Change = fn(&Arc<Cache>);
    let changes: [(&str, Change); 4] = [
        ("nothing", |_| ()),
        ("no budget for a while", |cache| {
            cache.set_budget(0);
            cache.set_budget(BUDGET);
        }),
        ("a small budget for a while", |cache| {
            cache.set_budget(BUDGET / 40);
            cache.set_budget(BUDGET);
        }),
        ("reservations", |cache| {
            for _ in 0..500 {
                drop(CacheReservation::new(cache, 20 << 20));
            }
        }),
    ];
    for (what, change) in changes {
        let cache = Arc::new(Cache::new(BUDGET));
        cache.begin_use(CacheKind::Pages);
        change(&cache);
        hits(&cache, FileId::unique(), 3800, 5);
        let found = hits(&cache, FileId::unique(), 2000, 40);
        assert!(found > 1000, "after {what} {found} of 2000 pages are found");
    }
}

#[test]
fn what_is_left_beside_files_is_for_decoded_pages_unless_all_of_them_fit() {
    const MIB: u64 = 1 << 20;
    let memory = Share {
        all: 110 * MIB,
        part: 100 * MIB,
    };
    let cache = Arc::new(Cache::divided(
        Division::new(None, Some(memory), fixed::of(u64::MAX)),
        None,
    ));
    cache.begin_use(CacheKind::Pages);
    let room = || cache.division().elastic() / MIB;
    let size = |stored, decoded| FileSize {
        stored: stored * MIB,
        decoded: decoded * MIB,
    };
    let file = FileId::unique();
    let mut first = CachedFile::new(&cache, file);
    first.tell(size(37, 110));
    assert_eq!(room(), 110, "all pages fit");
    // A little more is not told.
    first.tell(size(38, 111));
    first.tell(size(40, 120));
    assert_eq!(room(), 60);
    let mut same = CachedFile::new(&cache, file);
    same.tell(size(40, 120));
    assert_eq!(room(), 60, "a file counts once");
    let mut other = CachedFile::new(&cache, FileId::unique());
    other.tell(size(30, 80));
    assert_eq!(room(), 30);
    other.tell(size(u64::MAX / MIB, u64::MAX / MIB));
    assert_eq!(room(), 25);
    drop((other, first));
    assert_eq!(room(), 60);
    drop(same);
    assert_eq!(room(), 110);
    cache.set_budget(50 * MIB);
    let asked = room();
    let mut large = CachedFile::new(&cache, FileId::unique());
    large.tell(size(400, 1200));
    assert_eq!(room(), asked, "the budget was set");
}
