//! The sizes of a packed file and of its tables and indexes.

use std::path::Path;
use std::sync::Arc;

use litepack_btree::TreeKind;
use litepack_cipher::Key;
use litepack_codec::Codec;
use litepack_database::bytes::header;
use litepack_database::bytes::reader;
use litepack_database::bytes::unlocked::{self, Unlocked};
use litepack_database::error::{Context, cannot_read};
use litepack_database::files::not_applied;
use litepack_database::files::source::{Source, open_file};
use litepack_engine::FileKind;
use litepack_engine::content::{Content, Other, Share};
use litepack_engine::report::info_json;
use litepack_store::WithoutKey;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::{Job, Result, register};

/// A report is repeated this often if another program commits meanwhile.
const RETRIES: usize = 5;

/// A report on a packed file. docs/reference/json.md lists its fields when serialised.
#[derive(Debug)]
pub struct Info {
    /// Where the bytes of the file go.
    pub file: litepack_store::Info,
    /// The bytes of tables and indexes.
    pub content: Content,
}

/// Reports the sizes of a packed file and of its tables and indexes.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let packed = place.path().join("packed.db");
/// # litepack::open(&packed)?.execute_batch("create table t(x); insert into t values (1)")?;
/// let info = litepack::info(&packed, &litepack::Job::default())?;
/// println!("{} bytes hold {}", info.file.file_bytes, info.file.logical_bytes);
/// for (tree, share) in &info.content.trees {
///     println!("{}: {} bytes of the file", tree.name, share.stored);
/// }
/// # Ok(()) }
/// ```
///
/// # Errors
/// If the file is not a packed file or cannot be read, or the job is stopped. Damage within it is part of the answer.
pub fn info(file: impl AsRef<Path>, job: &Job<'_>) -> Result<Info> {
    let file = file.as_ref();
    register()?;
    let mut source = Source::open(file, false)?;
    source.expect_packed()?;
    source.unlock(job.key())?;
    source.hold_for_report(job)?;
    not_applied::tell(source.opened(), job);
    let report = job.listening(|| report(&source, job));
    job.check()?;
    report.with_context(|| cannot_read(file))
}

/// Whether a file is an encrypted packed file.
///
/// # Errors
/// If it cannot be read, or is neither a file nor a link to one.
pub fn is_encrypted(file: impl AsRef<Path>) -> Result<bool> {
    let shown = file.as_ref();
    let (file, _) = open_file(shown, false)?;
    let kind = header::kind(&file).with_context(|| cannot_read(shown))?;
    // If the header is damaged, reading it is the error.
    Ok(unlocked::is_encrypted(&file, kind).unwrap_or(false))
}

/// Tries a key on a packed file, or one that is still empty.
///
/// # Errors
/// [`crate::Error::WrongKey`], [`crate::Error::NotEncrypted`], or if the file cannot be read.
pub fn try_key(file: impl AsRef<Path>, key: &Arc<Key>) -> Result<()> {
    let shown = file.as_ref();
    let (file, _) = open_file(shown, false)?;
    match header::kind(&file).with_context(|| cannot_read(shown))? {
        FileKind::Empty => Ok(()),
        kind => Unlocked::of(&file, kind, Some(key), shown).map(|_| ()),
    }
}

/// What an encrypted file shows without its key. Nothing vouches for any of it.
///
/// # Errors
/// If the file is not an encrypted packed file, or cannot be read.
pub fn without_key(file: impl AsRef<Path>) -> Result<WithoutKey> {
    let shown = file.as_ref();
    let (file, _) = open_file(shown, false)?;
    let found = litepack_store::without_key(&*file);
    found.with_context(|| cannot_read(shown))
}

/// The kind of a file, by its first bytes.
///
/// # Errors
/// If it cannot be read, or is neither a file nor a link to one.
pub fn file_kind(file: impl AsRef<Path>) -> Result<FileKind> {
    let shown = file.as_ref();
    let (file, _) = open_file(shown, false)?;
    header::kind(&file).with_context(|| cannot_read(shown))
}

fn report(source: &Source, job: &Job<'_>) -> litepack_store::Result<Info> {
    let mut store = reader::open(source.file(), &reader::options(source.unlocked()))?;
    let mut retries = RETRIES;
    loop {
        let info = store.info()?;
        let step = job.bytes("reading", info.logical_bytes);
        let content = Content::of(&mut store, &info, &mut |bytes| {
            step.add(bytes);
            job.go_on()
        })?;
        if store.seq() == info.seq || retries == 0 {
            return Ok(Info {
                file: info,
                content,
            });
        }
        retries -= 1;
    }
}

impl Serialize for Info {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        as_json(self).serialize(serializer)
    }
}

/// The fields of `litepack_info()`, and the tables and indexes.
fn as_json(info: &Info) -> Value {
    let mut all = info_json(&info.file);
    let content = &info.content;
    let trees = content.trees.iter().map(|(tree, share)| {
        let mut fields = share_json(share);
        fields["type"] = kind(tree.kind).into();
        fields["name"] = tree.name.clone().into();
        fields["table"] = tree.table.clone().into();
        fields
    });
    all["trees"] = trees.collect();
    let others = Other::ALL.iter().zip(&content.others);
    all["other_pages"] = others
        .map(|(other, share)| (other.name().replace([' ', '-'], "_"), share_json(share)))
        .collect::<Map<_, _>>()
        .into();
    let damage = content.damage.iter();
    all["page_damage"] = damage
        .map(|d| json!({"page": d.page.get(), "whose": d.whose, "why": d.why}))
        .collect();
    all["page_damage_total"] = content.damaged.into();
    all
}

fn share_json(share: &Share) -> Value {
    let codecs: Map<String, Value> = Codec::ALL
        .iter()
        .zip(share.codecs)
        .filter(|(_, bytes)| *bytes > 0)
        .map(|(codec, bytes)| (codec.name().into(), bytes.into()))
        .collect();
    json!({
        "pages": share.pages,
        "plain_bytes": share.plain,
        "stored_bytes": share.stored,
        "codecs": codecs,
        "dictionary_bytes": share.dictionary,
    })
}

/// The word for it in `sqlite_schema`.
fn kind(kind: TreeKind) -> &'static str {
    match kind {
        TreeKind::Table => "table",
        TreeKind::Index => "index",
    }
}
