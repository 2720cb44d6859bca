//! The `descriptor` resource of `wasi:filesystem`: operations of a guest on open files and folders.

use std::sync::Arc;

use rustix::fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::{Descriptor, Dir, File};
use wasmtime_wasi::p2::bindings::filesystem::types::{
    Advice, DescriptorFlags, DescriptorStat, DescriptorType, ErrorCode, Filesize, HostDescriptor, MetadataHashValue,
    NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsResult, ReaddirIterator};
use wasmtime_wasi::{FsPerms, OpenMode};

use super::call::Open;
use super::entries::as_iterator;
use super::ledger::Position;
use super::listing::Listing;
use super::names::{self, Unchanged};
use super::resolve::{self, Opening};
use super::stream::{self, FromFile, ToFile};
use super::view::{FilesView, Use, gone, join};

/// Validated flags of `open-at`.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    opening: Opening,
    create: bool,
    exclusive: bool,
    truncate: bool,
}

impl Wanted {
    fn parse(path: PathFlags, open: OpenFlags, flags: DescriptorFlags) -> Result<Self, ErrorCode> {
        let syncing = DescriptorFlags::FILE_INTEGRITY_SYNC
            | DescriptorFlags::DATA_INTEGRITY_SYNC
            | DescriptorFlags::REQUESTED_WRITE_SYNC;
        if flags.intersects(syncing) {
            return Err(ErrorCode::Unsupported);
        }
        let (create, truncate) = (open.contains(OpenFlags::CREATE), open.contains(OpenFlags::TRUNCATE));
        let exclusive = open.contains(OpenFlags::EXCLUSIVE);
        let directory = open.contains(OpenFlags::DIRECTORY);
        if directory && (create || exclusive || truncate) {
            return Err(ErrorCode::Invalid);
        }
        let opening = Opening {
            follow: path.contains(PathFlags::SYMLINK_FOLLOW),
            read: flags.contains(DescriptorFlags::READ) || !flags.contains(DescriptorFlags::WRITE),
            write: flags.contains(DescriptorFlags::WRITE) || create || truncate,
            directory,
        };
        Ok(Self { opening, create, exclusive, truncate })
    }

    fn mode(self) -> OpenMode {
        let mut mode = OpenMode::empty();
        mode.set(OpenMode::READ, self.opening.read);
        mode.set(OpenMode::WRITE, self.opening.write);
        mode
    }

    fn verb(self) -> &'static str {
        match (self.create, self.opening.write) {
            (true, _) => "create",
            (false, true) => "open to write",
            (false, false) => "open",
        }
    }
}

impl FilesView<'_> {
    fn keep(&mut self, opened: resolve::Opened, wanted: Wanted, mut open: Open) -> FsResult<Resource<Descriptor>> {
        let perms = if open.folder.ledger.is_some() { FsPerms::ReadWrite } else { FsPerms::ReadOnly };
        open.is_dir = opened.is_dir;
        let descriptor = if opened.is_dir {
            let dir = Dir::new(opened.file, perms, wanted.mode(), false);
            open.file = Arc::clone(&dir.dir);
            Descriptor::Dir(dir)
        } else {
            let file = File::new(opened.file, perms, wanted.mode(), false);
            open.file = Arc::clone(&file.file);
            Descriptor::File(file)
        };
        let handle = self.table.push(descriptor)?;
        self.files()?.insert(handle.rep(), open);
        Ok(handle)
    }

    fn output(&mut self, handle: &Resource<Descriptor>, position: Position) -> FsResult<Resource<DynOutputStream>> {
        let Use { open, attempt, pool } = self.with_file(handle, "write to")?.writable()?;
        let slot = self.files()?.stream_slot(&attempt)?;
        let stream: DynOutputStream = Box::new(ToFile::new(open, position, &pool, attempt, slot));
        Ok(self.table.push(stream)?)
    }
}

/// Calls wasmtime's own implementation of a method, on threads for file work.
macro_rules! delegated {
    ($self:ident, $method:ident($($argument:expr),*)) => {{
        let (mut own, pool) = $self.delegate()?;
        pool.within(HostDescriptor::$method(&mut own, $($argument),*)).await
    }};
}

impl HostDescriptor for FilesView<'_> {
    async fn open_at(
        &mut self,
        handle: Resource<Descriptor>,
        path_flags: PathFlags,
        path: String,
        open_flags: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Resource<Descriptor>> {
        let wanted = Wanted::parse(path_flags, open_flags, flags)?;
        let mut found = self.with_path(&handle, wanted.verb(), &path)?;
        if wanted.opening.write {
            found = found.writable()?;
        }
        let Use { open, attempt, pool } = found;
        let mut slot = self.files()?.slot(&open.folder, &attempt)?;
        let shown = Arc::from(join(&open.path, &path));
        let (file, folder) = (Arc::clone(&open.file), Arc::clone(&open.folder));
        let work = move || {
            let ledger = folder.ledger.as_ref();
            let protected = &folder.protected;
            let opened = match ledger {
                Some(ledger) if wanted.create => {
                    names::open_or_create(&*file, (ledger, protected), &path, wanted.opening, wanted.exclusive)?
                }
                _ => protected.open(&*file, &path, wanted.opening)?,
            };
            match ledger {
                Some(ledger) if wanted.truncate && !opened.is_dir => ledger.set_size(&opened.file, 0)?,
                _ => {}
            }
            if opened.is_dir {
                slot.holds_a_folder();
            }
            Ok::<_, Unchanged>((opened, slot))
        };
        let (opened, slot) = pool.run(work).await.map_err(gone)?.map_err(|unchanged| attempt.unchanged(unchanged))?;
        self.keep(opened, wanted, Open { path: shown, slot: Some(Arc::new(slot)), ..open })
    }

    fn drop(&mut self, handle: Resource<Descriptor>) -> wasmtime::Result<()> {
        let number = handle.rep();
        self.table.delete(handle)?;
        // After the file itself, which counts as open until it is closed.
        if let Some(files) = self.files.as_deref_mut() {
            files.remove(number);
        }
        Ok(())
    }

    async fn write(&mut self, handle: Resource<Descriptor>, bytes: Vec<u8>, offset: Filesize) -> FsResult<Filesize> {
        let Use { open, attempt, pool } = self.with_file(&handle, "write to")?.writable()?;
        let written = pool.run(move || stream::write(&open, &bytes, Position::At(offset))).await.map_err(gone)?;
        Ok(written.map_err(|unwritten| attempt.unwritten(unwritten))? as Filesize)
    }

    async fn set_size(&mut self, handle: Resource<Descriptor>, size: Filesize) -> FsResult<()> {
        let found = self.with_file(&handle, "change the size of")?;
        found.change(move |file, (ledger, _)| Ok(ledger.set_size(file, size)?)).await
    }

    fn read_via_stream(
        &mut self,
        handle: Resource<Descriptor>,
        offset: Filesize,
    ) -> FsResult<Resource<DynInputStream>> {
        let Use { open, attempt, pool } = self.with(&handle, "read")?;
        let slot = self.files()?.stream_slot(&attempt)?;
        let (mut own, _) = self.delegate()?;
        let stream = HostDescriptor::read_via_stream(&mut own, handle, offset)?;
        let inner = self.table.delete(stream)?;
        let stream: DynInputStream = Box::new(FromFile::new(inner, &pool, &open, slot));
        Ok(self.table.push(stream)?)
    }

    fn write_via_stream(
        &mut self,
        handle: Resource<Descriptor>,
        offset: Filesize,
    ) -> FsResult<Resource<DynOutputStream>> {
        self.output(&handle, Position::At(offset))
    }

    fn append_via_stream(&mut self, handle: Resource<Descriptor>) -> FsResult<Resource<DynOutputStream>> {
        self.output(&handle, Position::End)
    }

    async fn read_directory(&mut self, handle: Resource<Descriptor>) -> FsResult<Resource<ReaddirIterator>> {
        let Use { open, attempt, pool } = self.with_path(&handle, "list", ".")?;
        let mut slot = self.files()?.slot(&open.folder, &attempt)?;
        slot.holds_a_folder();
        let opened = pool.run(move || rustix::fs::Dir::read_from(&*open.file)).await.map_err(gone)?;
        let dir = opened.map_err(std::io::Error::from)?;
        let listing = self.table.push(Listing::new(dir, slot, attempt))?;
        Ok(as_iterator(&listing))
    }

    async fn create_directory_at(&mut self, handle: Resource<Descriptor>, path: String) -> FsResult<()> {
        let found = self.with_path(&handle, "create the folder", &path)?;
        found.change(move |folder, ledger| names::create_folder(folder, ledger, &path)).await
    }

    async fn remove_directory_at(&mut self, handle: Resource<Descriptor>, path: String) -> FsResult<()> {
        let found = self.with_path(&handle, "remove the folder", &path)?;
        found.change(move |folder, ledger| names::remove_folder(folder, ledger, &path)).await
    }

    async fn unlink_file_at(&mut self, handle: Resource<Descriptor>, path: String) -> FsResult<()> {
        let found = self.with_path(&handle, "remove", &path)?;
        found.change(move |folder, ledger| names::remove_file(folder, ledger, &path)).await
    }

    async fn rename_at(
        &mut self,
        handle: Resource<Descriptor>,
        path: String,
        new_handle: Resource<Descriptor>,
        new_path: String,
    ) -> FsResult<()> {
        let found = self.with_path(&handle, "move", &path)?.writable()?;
        let new = self.with_path(&new_handle, "move something to", &new_path)?.writable()?;
        within_one_folder(&found, &new)?;
        let to = new.open.file;
        found.change(move |from, ledger| names::rename(from, &path, &*to, &new_path, ledger)).await
    }

    async fn link_at(
        &mut self,
        handle: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
        new_handle: Resource<Descriptor>,
        new_path: String,
    ) -> FsResult<()> {
        let found = self.with_path(&handle, "link to", &path)?.writable()?;
        let new = self.with_path(&new_handle, "create the link", &new_path)?.writable()?;
        if flags.contains(PathFlags::SYMLINK_FOLLOW) {
            return Err(ErrorCode::Invalid.into());
        }
        within_one_folder(&found, &new)?;
        let to = new.open.file;
        found.change(move |from, ledger| names::link(from, &path, &*to, &new_path, ledger)).await
    }

    async fn symlink_at(&mut self, handle: Resource<Descriptor>, target: String, path: String) -> FsResult<()> {
        let found = self.with_path(&handle, "create the link", &path)?;
        found.change(move |folder, ledger| names::symlink(folder, &target, ledger, &path)).await
    }

    async fn set_times(
        &mut self,
        handle: Resource<Descriptor>,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        let found = self.with(&handle, "change the times of")?;
        found.change(|file, (_, protected)| protected.check_identity(file)).await?;
        delegated!(self, set_times(handle, accessed, modified))
    }

    async fn set_times_at(
        &mut self,
        handle: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        let found = self.with_path(&handle, "change the times of", &path)?.writable()?;
        within_length(&path)?;
        let attempt = found.attempt.clone();
        let follow = flags.contains(PathFlags::SYMLINK_FOLLOW);
        let times = Timestamps { last_access: timespec(accessed)?, last_modification: timespec(modified)? };
        let at = path.clone();
        let changed = found.change(move |folder, (_, protected)| protected.set_times(folder, &at, follow, &times));
        if changed.await? {
            return Ok(());
        }
        delegated!(self, set_times_at(handle, flags, path, accessed, modified))
            .map_err(|error| attempt.delegated(error))
    }

    async fn stat_at(
        &mut self,
        handle: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
    ) -> FsResult<DescriptorStat> {
        let attempt = self.with_path(&handle, "look at", &path)?.attempt;
        within_length(&path)?;
        delegated!(self, stat_at(handle, flags, path)).map_err(|error| attempt.delegated(error))
    }

    async fn readlink_at(&mut self, handle: Resource<Descriptor>, path: String) -> FsResult<String> {
        let attempt = self.with_path(&handle, "read the link", &path)?.attempt;
        within_length(&path)?;
        delegated!(self, readlink_at(handle, path)).map_err(|error| attempt.delegated(error))
    }

    async fn metadata_hash_at(
        &mut self,
        handle: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
    ) -> FsResult<MetadataHashValue> {
        let attempt = self.with_path(&handle, "look at", &path)?.attempt;
        within_length(&path)?;
        delegated!(self, metadata_hash_at(handle, flags, path)).map_err(|error| attempt.delegated(error))
    }

    async fn read(
        &mut self,
        handle: Resource<Descriptor>,
        length: Filesize,
        offset: Filesize,
    ) -> FsResult<(Vec<u8>, bool)> {
        delegated!(self, read(handle, length, offset))
    }

    async fn advise(
        &mut self,
        handle: Resource<Descriptor>,
        offset: Filesize,
        length: Filesize,
        advice: Advice,
    ) -> FsResult<()> {
        delegated!(self, advise(handle, offset, length, advice))
    }

    async fn sync_data(&mut self, handle: Resource<Descriptor>) -> FsResult<()> {
        delegated!(self, sync_data(handle))
    }

    async fn sync(&mut self, handle: Resource<Descriptor>) -> FsResult<()> {
        delegated!(self, sync(handle))
    }

    async fn get_flags(&mut self, handle: Resource<Descriptor>) -> FsResult<DescriptorFlags> {
        delegated!(self, get_flags(handle))
    }

    async fn get_type(&mut self, handle: Resource<Descriptor>) -> FsResult<DescriptorType> {
        delegated!(self, get_type(handle))
    }

    async fn stat(&mut self, handle: Resource<Descriptor>) -> FsResult<DescriptorStat> {
        delegated!(self, stat(handle))
    }

    async fn metadata_hash(&mut self, handle: Resource<Descriptor>) -> FsResult<MetadataHashValue> {
        delegated!(self, metadata_hash(handle))
    }

    async fn is_same_object(
        &mut self,
        one: Resource<Descriptor>,
        other: Resource<Descriptor>,
    ) -> wasmtime::Result<bool> {
        let Ok((mut own, pool)) = self.delegate() else {
            return Ok(false);
        };
        pool.within(HostDescriptor::is_same_object(&mut own, one, other)).await
    }
}

/// Refuses to move or link between two granted folders, each of which has its own account. A guest copies instead.
fn within_one_folder(one: &Use, other: &Use) -> Result<(), ErrorCode> {
    if Arc::ptr_eq(&one.open.folder, &other.open.folder) { Ok(()) } else { Err(ErrorCode::CrossDevice) }
}

/// Converts a time for `utimensat(2)`.
fn timespec(time: NewTimestamp) -> Result<Timespec, ErrorCode> {
    let (tv_sec, tv_nsec) = match time {
        NewTimestamp::NoChange => (0, UTIME_OMIT),
        NewTimestamp::Now => (0, UTIME_NOW),
        NewTimestamp::Timestamp(time) if time.nanoseconds < 1_000_000_000 => {
            (i64::try_from(time.seconds).map_err(|_| ErrorCode::Overflow)?, time.nanoseconds.into())
        }
        NewTimestamp::Timestamp(_) => return Err(ErrorCode::Invalid),
    };
    Ok(Timespec { tv_sec, tv_nsec })
}

/// Checks the length of a path for wasmtime's own functions, which split it before the kernel can refuse it.
fn within_length(path: &str) -> Result<(), ErrorCode> {
    if path.len() > resolve::MAX_PATH_BYTES { Err(ErrorCode::NameTooLong) } else { Ok(()) }
}
