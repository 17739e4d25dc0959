use super::*;

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

fn capacity(cache: &Cache, kind: Kind) -> u64 {
    cache.division().capacity(kind)
}

#[test]
fn without_a_budget_nothing_is_kept() {
    let cache = Arc::new(Cache::new(DEFAULT_BUDGET));
    let _claims = [Kind::Pages, Kind::Frames].map(|kind| CacheUse::new(&cache, kind));
    let file = FileId::unique();
    let fill = || {
        for number in 1..100 {
            cache.put_page(page(file, number), &[0; 4096], &mut Spare::default());
            cache.put_frame(frame(file, number as u32), Arc::new(vec![0; 4096]));
        }
    };
    fill();
    assert!(cache.has_page(&page(file, 50)) && cache.has_frame(&frame(file, 50)));
    cache.set_budget(0);
    fill();
    assert_eq!(cache.bytes(), 0);
    cache.set_budget(DEFAULT_BUDGET);
    assert!((1..100).all(|number| !cache.has_page(&page(file, number))));
    fill();
    assert!(cache.has_page(&page(file, 50)) && cache.has_frame(&frame(file, 50)));
}

#[test]
fn what_is_reserved_is_given_back() {
    let cache = Arc::new(Cache::new(64 << 20));
    let _claim = CacheUse::new(&cache, Kind::Pages);
    let reserve = || CacheReservation::new(&cache, 24 << 20);
    let reserved = (reserve(), reserve());
    assert_eq!(capacity(&cache, Kind::Pages), 32 << 20);
    drop(reserved.0);
    assert_eq!(capacity(&cache, Kind::Pages), 40 << 20);
    cache.set_budget(80 << 20);
    assert_eq!(capacity(&cache, Kind::Pages), 56 << 20);
    drop(reserved.1);
    assert_eq!(capacity(&cache, Kind::Pages), 80 << 20);
    assert_eq!(cache.budget(), 80 << 20);
}

#[test]
fn what_is_pushed_out_is_memory_for_what_comes_unless_someone_has_it() {
    let cache = Arc::new(Cache::new(1 << 20));
    let _claim = CacheUse::new(&cache, Kind::Pages);
    let file = FileId::unique();
    let mut spare = Spare::default();
    let mut held = Vec::new();
    let mut reused = 0;
    for number in 1..4000_u64 {
        let bytes = [number as u8; 4096];
        let former = spare.0.as_ref().filter(|page| Arc::strong_count(page) == 1);
        let former = former.map(|page| page.as_ptr());
        cache.put_page(page(file, number), &bytes, &mut spare);
        let kept = cache.peek_page(&page(file, number)).expect("just put");
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

/// Puts frames of 64 KiB there, as many as would fill the whole budget three times.
fn scan(cache: &Cache, file: FileId) {
    for number in 0..3 * (cache.budget() >> 16) as u32 {
        cache.put_frame(frame(file, number), Arc::new(vec![0; 64 << 10]));
    }
}

fn fill_pages(cache: &Cache, file: FileId, count: u64) {
    for number in 0..count {
        cache.put_page(page(file, number), &[0; 4096], &mut Spare::default());
    }
}

#[test]
fn a_kind_alone_has_all_two_have_half_each_and_nothing_goes_beyond_the_budget() {
    const BUDGET: u64 = 16 << 20;
    let cache = Arc::new(Cache::new(BUDGET));
    let file = FileId::unique();
    let pages = CacheUse::new(&cache, Kind::Pages);
    fill_pages(&cache, file, 8000);
    assert!(cache.bytes() > BUDGET / 8 * 7 && cache.bytes() <= BUDGET);
    let _frames = CacheUse::new(&cache, Kind::Frames);
    scan(&cache, file);
    fill_pages(&cache, file, 8000);
    scan(&cache, file);
    assert!(cache.bytes() <= BUDGET);
    for kind in [Kind::Pages, Kind::Frames] {
        let part = cache.part(kind).weight();
        assert!(
            part > BUDGET / 8 * 3 && part < BUDGET / 8 * 5,
            "{kind:?} has {part}"
        );
    }
    // Nobody uses pages any more.
    drop(pages);
    scan(&cache, file);
    assert!(cache.part(Kind::Frames).weight() > BUDGET / 8 * 7);
    assert!(cache.bytes() <= BUDGET);
    let _again = CacheUse::new(&cache, Kind::Pages);
    fill_pages(&cache, file, 8000);
    assert!(cache.part(Kind::Pages).weight() > BUDGET / 8 * 3);
    assert!(cache.bytes() <= BUDGET);
}

#[test]
fn what_one_kind_does_not_fill_another_has() {
    const BUDGET: u64 = 16 << 20;
    let cache = Arc::new(Cache::new(BUDGET));
    let file = FileId::unique();
    let _claims = [Kind::Pages, Kind::Frames, Kind::Blocks].map(|kind| CacheUse::new(&cache, kind));
    fill_pages(&cache, file, 100);
    scan(&cache, file);
    assert!(cache.part(Kind::Frames).weight() > BUDGET / 4 * 3);
    assert!((0..100).all(|number| cache.has_page(&page(file, number))));
    // Until it does.
    fill_pages(&cache, file, 8000);
    assert!(cache.part(Kind::Pages).weight() > BUDGET / 4);
    assert!(cache.bytes() <= BUDGET);
}

#[test]
fn a_frame_as_large_as_half_a_share_is_kept() {
    let cache = Arc::new(Cache::new(32 << 20));
    let file = FileId::unique();
    let _claims = [Kind::Pages, Kind::Frames].map(|kind| CacheUse::new(&cache, kind));
    fill_pages(&cache, file, 16_000);
    for number in 0..4 {
        let bytes = vec![0; (cache.share() / 2) as usize - 1000];
        cache.put_frame(frame(file, number), Arc::new(bytes));
        assert!(cache.has_frame(&frame(file, number)), "frame {number}");
    }
}
