//! The behaviour that every key-value store has, as one suite: the store in memory, SQLite, and stores of servers run it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use fumehood_core::key_value::{
    Key, KeyValueStore, MAX_VALUE_BYTES, Page, Prefix, Query, StoreError, check_quota, entry_bytes,
};
use fumehood_core::tool::name::Namespace;

/// Timeout of every operation, far above what any of them takes.
const PATIENCE: Duration = Duration::from_secs(30);
/// A quota that nothing here reaches.
const AMPLE: u64 = 1 << 30;

/// A store of which several handles can be opened.
///
/// `open` returns a handle of one and the same store each time, as another host or process would have it; for a store that
/// cannot be opened twice, the same handle again. The store is empty at first.
pub type OpenStore<'a> = &'a (dyn Fn() -> Result<Arc<dyn KeyValueStore>> + Sync);

/// One part of the suite.
type Part = fn(OpenStore<'_>) -> Result<()>;

/// Runs the whole suite on an empty store. Each part has owners of its own.
///
/// # Errors
/// If the store behaves otherwise; the message says in which part, and how.
pub fn check_store(open: OpenStore<'_>) -> Result<()> {
    let parts: [(&str, Part); 12] = [
        ("values", check_values),
        ("keys", check_keys),
        ("owners", check_owners),
        ("quotas", check_quotas),
        ("a lowered quota", check_lowered_quota),
        ("prefixes and cursors", check_prefixes),
        ("pages", check_pages),
        ("handles", check_handles),
        ("writers at once", check_writers),
        ("one key at once", check_contended_key),
        ("compare and set", check_compare_and_set),
        ("increments at once", check_increments),
    ];
    parts.into_iter().try_for_each(|(name, part)| part(open).with_context(|| format!("key-value store: {name}")))
}

fn owner(name: &str) -> Result<Namespace> {
    Ok(Namespace::parse(name)?)
}

fn key(text: &str) -> Result<Key> {
    Ok(Key::parse(text)?)
}

/// Returns all keys of an owner, in order.
fn all_keys(store: &dyn KeyValueStore, owner: &Namespace) -> Result<Vec<String>> {
    let mut found = Vec::new();
    loop {
        let after = found.last().map(|last: &String| key(last)).transpose()?;
        let page = store.list(owner, &Query { prefix: Prefix::default(), after, limit: 1000 }, PATIENCE)?;
        found.extend(page.keys.into_iter().map(String::from));
        if !page.more {
            return Ok(found);
        }
    }
}

/// A value is returned as it was set, until it is set again or deleted.
fn check_values(open: OpenStore<'_>) -> Result<()> {
    let store = open()?;
    let owner = owner("values")?;
    let key = key("k")?;
    ensure!(store.get(&owner, &key, PATIENCE)?.is_none(), "an owner without entries has a value");
    ensure!(!store.delete(&owner, &key, PATIENCE)?, "an entry that was never set was deleted");
    ensure!(
        store.list(&owner, &Query { prefix: Prefix::default(), after: None, limit: 1 }, PATIENCE)? == Page::default()
    );
    let long = (0..=u8::MAX).cycle().take(MAX_VALUE_BYTES).collect::<Vec<u8>>();
    for value in [b"first".as_slice(), b"", b"\0", b"\xff\xfe not UTF-8", &long, b"last"] {
        store.set(&owner, &key, value, AMPLE, PATIENCE)?;
        let found = store.get(&owner, &key, PATIENCE)?;
        ensure!(
            found.as_deref() == Some(value),
            "{} bytes came back as {:?}",
            value.len(),
            found.map(|found| found.len())
        );
    }
    ensure!(store.delete(&owner, &key, PATIENCE)?, "an entry was there and not deleted");
    ensure!(store.get(&owner, &key, PATIENCE)?.is_none(), "a deleted value is there");
    ensure!(!store.delete(&owner, &key, PATIENCE)?, "an entry was deleted twice");
    ensure!(all_keys(store.as_ref(), &owner)?.is_empty(), "a deleted key is listed");
    store.set(&owner, &key, b"again", AMPLE, PATIENCE)?;
    ensure!(store.get(&owner, &key, PATIENCE)?.as_deref() == Some(b"again".as_slice()));
    Ok(())
}

/// Every valid key is a key of its own, whatever it means elsewhere.
fn check_keys(open: OpenStore<'_>) -> Result<()> {
    let store = open()?;
    let owner = owner("keys")?;
    let long = "k".repeat(Key::MAX_BYTES);
    let long_wide = "ä".repeat(Key::MAX_BYTES / 2);
    let mut words = vec![
        "a", "A", "a ", " ", ".", "..", "a.b", "a/b", "a//b", "a%", "a_", "*", ">", "$x", "=", "%41", "é", "e\u{301}",
    ];
    words.extend([long.as_str(), long_wide.as_str(), "\u{ffff}", "\u{10ffff}", "'; DROP TABLE entries; --", "\\x41"]);
    for word in &words {
        store.set(&owner, &key(word)?, word.as_bytes(), AMPLE, PATIENCE).with_context(|| format!("{word:?}"))?;
    }
    for word in &words {
        let found = store.get(&owner, &key(word)?, PATIENCE)?;
        ensure!(found.as_deref() == Some(word.as_bytes()), "{word:?} has {found:?}");
    }
    let sorted: BTreeSet<&str> = words.iter().copied().collect();
    ensure!(
        all_keys(store.as_ref(), &owner)?.iter().eq(sorted.iter()),
        "the keys are not listed in the order of their bytes"
    );
    for word in &words {
        ensure!(store.delete(&owner, &key(word)?, PATIENCE)?, "{word:?} was not deleted");
    }
    ensure!(all_keys(store.as_ref(), &owner)?.is_empty());
    Ok(())
}

/// No owner sees or changes the entries of another, also of one whose name begins in the same way.
fn check_owners(open: OpenStore<'_>) -> Result<()> {
    let store = open()?;
    let names = ["one", "one-more", "two"];
    for name in names {
        store.set(&owner(name)?, &key("k")?, name.as_bytes(), AMPLE, PATIENCE)?;
        store.set(&owner(name)?, &key(name)?, b"", AMPLE, PATIENCE)?;
    }
    ensure!(!store.delete(&owner("two")?, &key("one")?, PATIENCE)?, "an entry of another owner was deleted");
    for name in names {
        let owner = owner(name)?;
        ensure!(
            store.get(&owner, &key("k")?, PATIENCE)?.as_deref() == Some(name.as_bytes()),
            "{name} sees another's value"
        );
        let expected: BTreeSet<&str> = ["k", name].into();
        ensure!(all_keys(store.as_ref(), &owner)?.iter().eq(expected.iter()), "{name} sees another's keys");
    }
    store.delete(&owner("one")?, &key("k")?, PATIENCE)?;
    ensure!(
        store.get(&owner("one-more")?, &key("k")?, PATIENCE)?.is_some(),
        "deleting took another owner's entry along"
    );
    Ok(())
}

/// A value that would exceed the quota is refused with the sizes, and changes nothing.
fn check_quotas(open: OpenStore<'_>) -> Result<()> {
    let store = open()?;
    let owner = owner("quotas")?;
    let first = key("k")?;
    let second = key("other")?;
    let quota = entry_bytes(&first, 100);
    let set = |key: &Key, bytes: usize| store.set(&owner, key, &vec![7; bytes], quota, PATIENCE);
    ensure!(set(&first, 101) == Err(StoreError::Full { found: quota + 1, quota }), "one byte too many was kept");
    ensure!(store.get(&owner, &first, PATIENCE)?.is_none(), "a refused value is there");
    set(&first, 100)?;
    let refused = set(&second, 0);
    let found = quota + entry_bytes(&second, 0);
    ensure!(refused == Err(StoreError::Full { found, quota }), "an empty value is free: {refused:?}");
    ensure!(store.get(&owner, &second, PATIENCE)?.is_none(), "a refused value is there");
    ensure!(set(&first, 101).is_err(), "a longer value was kept");
    ensure!(
        store.get(&owner, &first, PATIENCE)?.is_some_and(|value| value.len() == 100),
        "a refused value replaced one"
    );
    set(&first, 100)?;
    set(&first, 3)?;
    ensure!(set(&second, 100).is_err(), "the quota is that of the owner, and not of a key");
    set(&second, 0)?;
    ensure!(store.delete(&owner, &first, PATIENCE)?, "the entry was not there");
    // What is deleted no longer counts.
    set(&second, usize::try_from(quota - entry_bytes(&second, 0))?)?;
    Ok(())
}

/// An owner above its quota may still shrink.
fn check_lowered_quota(open: OpenStore<'_>) -> Result<()> {
    let store = open()?;
    let owner = owner("lowered")?;
    let other = key("o")?;
    let key = key("k")?;
    store.set(&owner, &key, &[1; 500], AMPLE, PATIENCE)?;
    let current = entry_bytes(&key, 500);
    for (bytes, old) in [(501, 500), (500, 500), (400, 500), (401, 400)] {
        let before = current - 500 + old;
        let expected = check_quota(before, &key, Some(old), bytes, 10).map(|_| ());
        let found = store.set(&owner, &key, &vec![2; usize::try_from(bytes)?], 10, PATIENCE);
        ensure!(found == expected, "{bytes} bytes instead of {old}: {found:?} instead of {expected:?}");
    }
    ensure!(store.set(&owner, &other, b"", 10, PATIENCE).is_err(), "another key was added above the quota");
    ensure!(store.get(&owner, &key, PATIENCE)?.is_some_and(|value| value.len() == 400));
    Ok(())
}

/// Keys are listed in the order of their bytes, from a prefix on and after a key.
fn check_prefixes(open: OpenStore<'_>) -> Result<()> {
    let store = open()?;
    let owner = owner("prefixes")?;
    let words = ["a", "aa", "ab", "a%", "a_", "a.b", "A", "b", "ß", "\u{ffff}", "\u{10000}"];
    for word in words {
        store.set(&owner, &key(word)?, b"", AMPLE, PATIENCE)?;
    }
    let sorted: BTreeSet<&str> = words.into_iter().collect();
    for prefix in words.into_iter().chain(["", "zz"]) {
        for after in words.into_iter().map(Some).chain([None, Some("aab"), Some("\u{10ffff}")]) {
            let is_wanted = |word: &&&str| word.starts_with(prefix) && after.is_none_or(|after| **word > after);
            let expected: Vec<&str> = sorted.iter().filter(is_wanted).copied().collect();
            for limit in [1, 3, 1000] {
                let after = after.map(key).transpose()?;
                let query = Query { prefix: Prefix::parse(prefix)?, after, limit };
                let page = store.list(&owner, &query, PATIENCE)?;
                let found: Vec<&str> = page.keys.iter().map(Key::as_str).collect();
                let is_right = found.iter().eq(expected.iter().take(limit)) && page.more == (expected.len() > limit);
                ensure!(is_right, "{query:?}: {found:?}, more: {}; expected of {expected:?}", page.more);
            }
        }
    }
    Ok(())
}

/// Every key of many is listed once, a page at a time.
fn check_pages(open: OpenStore<'_>) -> Result<()> {
    let store = open()?;
    let owner = owner("pages")?;
    let keys: Vec<String> = (0..1050).map(|number| format!("a/{number:04}")).collect();
    for name in keys.iter().map(String::as_str).chain(["a", "a0", "b"]) {
        store.set(&owner, &key(name)?, b"", AMPLE, PATIENCE)?;
    }
    for limit in [1000, 300] {
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let page = store.list(&owner, &Query { prefix: Prefix::parse("a/")?, after, limit }, PATIENCE)?;
            ensure!(page.keys.len() <= limit, "a page has {} keys instead of {limit}", page.keys.len());
            after = page.keys.last().cloned();
            found.extend(page.keys.into_iter().map(String::from));
            if !page.more {
                break;
            }
        }
        ensure!(found == keys, "pages of {limit} have {} keys instead of {}", found.len(), keys.len());
    }
    Ok(())
}

/// A completed operation is seen by every handle, and counts for it.
fn check_handles(open: OpenStore<'_>) -> Result<()> {
    let one = open()?;
    let two = open()?;
    let owner = owner("handles")?;
    let key = key("k")?;
    let quota = entry_bytes(&key, 10);
    for round in 0..20_u8 {
        let (writer, reader) = if round % 2 == 0 { (&one, &two) } else { (&two, &one) };
        writer.set(&owner, &key, &[round; 10], quota, PATIENCE)?;
        ensure!(reader.get(&owner, &key, PATIENCE)?.as_deref() == Some([round; 10].as_slice()), "an old value is seen");
        ensure!(reader.set(&owner, &key, &[round; 11], quota, PATIENCE).is_err(), "the other's bytes do not count");
    }
    ensure!(one.delete(&owner, &key, PATIENCE)?);
    ensure!(two.get(&owner, &key, PATIENCE)?.is_none(), "a deleted value is seen");
    ensure!(!two.delete(&owner, &key, PATIENCE)?);
    Ok(())
}

/// Writers at once lose nothing, and the sum of what they keep is exact.
fn check_writers(open: OpenStore<'_>) -> Result<()> {
    const WRITERS: usize = 4;
    const KEYS: usize = 25;
    let owner = owner("writers")?;
    thread::scope(|threads| {
        let write = |writer: usize| -> Result<()> {
            let store = open()?;
            for number in 0..KEYS {
                store.set(&owner, &key(&format!("{writer}-{number:02}"))?, b"12345", AMPLE, PATIENCE)?;
            }
            Ok(())
        };
        let writers: Vec<_> = (0..WRITERS).map(|writer| threads.spawn(move || write(writer))).collect();
        writers.into_iter().try_for_each(|writer| writer.join().map_err(|_| anyhow::anyhow!("a writer panicked"))?)
    })?;
    let store = open()?;
    ensure!(all_keys(store.as_ref(), &owner)?.len() == WRITERS * KEYS, "keys were lost");
    check_exact_usage(store.as_ref(), &owner, (WRITERS * KEYS) as u64 * entry_bytes(&key("0-00")?, 5))
}

/// Writers of one key leave the value of one of them, and its size alone counts.
fn check_contended_key(open: OpenStore<'_>) -> Result<()> {
    let owner = owner("contended")?;
    let contended = key("k")?;
    thread::scope(|threads| {
        let write = |writer: u8| -> Result<()> {
            let store = open()?;
            for round in 0..20 {
                let value = vec![writer; usize::from(writer) * 10 + 1];
                store.set(&owner, &contended, &value, AMPLE, PATIENCE)?;
                if round % 5 == 4 {
                    store.delete(&owner, &contended, PATIENCE)?;
                }
            }
            store.set(&owner, &contended, &vec![writer; usize::from(writer) * 10 + 1], AMPLE, PATIENCE)?;
            Ok(())
        };
        let writers: Vec<_> = (1..=4).map(|writer| threads.spawn(move || write(writer))).collect();
        writers.into_iter().try_for_each(|writer| writer.join().map_err(|_| anyhow::anyhow!("a writer panicked"))?)
    })?;
    let store = open()?;
    // The last operation of a writer sets the key; a deletion of a slower one may follow.
    let value = store.get(&owner, &contended, PATIENCE)?;
    let is_whole = value
        .as_ref()
        .is_none_or(|value| value.first().is_some_and(|writer| *value == vec![*writer; usize::from(*writer) * 10 + 1]));
    ensure!(is_whole, "the value is of two writers: {value:?}");
    let usage = value.map_or(0, |value| entry_bytes(&contended, value.len() as u64));
    check_exact_usage(store.as_ref(), &owner, usage)
}

/// A value is set only in place of the one that is expected. A refused one changes nothing, and counts for nothing.
fn check_compare_and_set(open: OpenStore<'_>) -> Result<()> {
    let store = open()?;
    let other = open()?;
    let owner = owner("compared")?;
    let key = key("k")?;
    let quota = entry_bytes(&key, 10);
    let swap =
        |expected: Option<&[u8]>, value: &[u8]| store.compare_and_set(&owner, &key, expected, value, quota, PATIENCE);
    ensure!(!swap(Some(b""), b"1")?, "a missing key has an empty value");
    ensure!(store.get(&owner, &key, PATIENCE)?.is_none(), "a refused value is there");
    ensure!(swap(None, b"")?, "a missing key is another than a missing key");
    ensure!(!swap(None, b"1")?, "an empty value is a missing key");
    ensure!(swap(Some(b""), b"1\0\xff")? && !swap(Some(b"1"), b"2")?, "a value is compared in part");
    ensure!(other.get(&owner, &key, PATIENCE)?.as_deref() == Some(b"1\0\xff".as_slice()));
    other.set(&owner, &key, b"2", quota, PATIENCE)?;
    ensure!(!swap(Some(b"1\0\xff"), b"3")?, "a value that another handle replaced is there");
    ensure!(swap(Some(b"2"), &[7; 10])?, "the value of another handle is not seen");
    let full = Err(StoreError::Full { found: quota + 1, quota });
    ensure!(swap(Some(&[7; 10]), &[8; 11]) == full, "a value above the quota was kept");
    ensure!(!swap(Some(b"2"), &[8; 11])?, "the quota comes before the comparison");
    ensure!(store.get(&owner, &key, PATIENCE)?.as_deref() == Some([7; 10].as_slice()), "a refused value replaced one");
    other.delete(&owner, &key, PATIENCE)?;
    ensure!(!swap(Some(&[7; 10]), b"4")? && swap(None, b"4")?, "a deleted value is there");
    check_exact_usage(store.as_ref(), &owner, entry_bytes(&key, 1))
}

/// Increments at once, by several handles, lose nothing.
fn check_increments(open: OpenStore<'_>) -> Result<()> {
    const WRITERS: u64 = 6;
    const INCREMENTS: u64 = 25;
    let owner = owner("counted")?;
    let counter = key("n")?;
    thread::scope(|threads| {
        let count = || -> Result<()> {
            let store = open()?;
            for _ in 0..INCREMENTS {
                loop {
                    let found = store.get(&owner, &counter, PATIENCE)?;
                    let text = found.as_deref().map(str::from_utf8).transpose()?;
                    let next = (text.map_or(Ok(0), str::parse::<u64>)? + 1).to_string();
                    let expected = found.as_deref();
                    if store.compare_and_set(&owner, &counter, expected, next.as_bytes(), AMPLE, PATIENCE)? {
                        break;
                    }
                }
            }
            Ok(())
        };
        let writers: Vec<_> = (0..WRITERS).map(|_| threads.spawn(count)).collect();
        writers.into_iter().try_for_each(|writer| writer.join().map_err(|_| anyhow::anyhow!("a writer panicked"))?)
    })?;
    let found = open()?.get(&owner, &counter, PATIENCE)?;
    let expected = (WRITERS * INCREMENTS).to_string();
    ensure!(found.as_deref() == Some(expected.as_bytes()), "{found:?} instead of {expected}");
    Ok(())
}

/// Checks what an owner's entries count for: a new entry fits a quota of just that much more, and not of one byte less.
fn check_exact_usage(store: &dyn KeyValueStore, owner: &Namespace, usage: u64) -> Result<()> {
    let probe = key("probe")?;
    let value = b"123";
    let quota = usage + entry_bytes(&probe, value.len() as u64);
    let refused = store.set(owner, &probe, value, quota - 1, PATIENCE);
    ensure!(refused == Err(StoreError::Full { found: quota, quota: quota - 1 }), "{usage} bytes are kept: {refused:?}");
    store.set(owner, &probe, value, quota, PATIENCE).context("the usage is too large")
}
