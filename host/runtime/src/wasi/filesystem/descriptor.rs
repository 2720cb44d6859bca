//! The `descriptor` resource of `wasi:filesystem`: operations of a guest on open files and folders.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use cap_fs_ext::SystemTimeSpec;
use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::{Descriptor, Dir, File};
use wasmtime_wasi::p2::bindings::filesystem::types::{
    Advice, DescriptorFlags, DescriptorStat, DescriptorType, ErrorCode, Filesize, HostDescriptor, MetadataHashValue,
    NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsResult, ReaddirIterator};
use wasmtime_wasi::{FsPerms, OpenMode};

use super::call_files::OpenFile;
use super::ledger::Position;
use super::listing::{Listing, as_iterator};
use super::names::{self, ChangeError};
use super::resolve::{OpenOptions, OpenedFile, check_length};
use super::resolver::as_dir;
use super::stream::{self, FileInputStream, FileOutputStream};
use super::view::{FilesView, Operation, display_path, shut_down_error};

/// Validated flags of `open-at`.
#[derive(Debug, Clone, Copy)]
struct OpenRequest {
    options: OpenOptions,
    create: bool,
    exclusive: bool,
    truncate: bool,
}

impl OpenRequest {
    fn parse(path: PathFlags, open: OpenFlags, flags: DescriptorFlags) -> Result<Self, ErrorCode> {
        let syncing = DescriptorFlags::FILE_INTEGRITY_SYNC
            | DescriptorFlags::DATA_INTEGRITY_SYNC
            | DescriptorFlags::REQUESTED_WRITE_SYNC;
        if flags.intersects(syncing) {
            return Err(ErrorCode::Unsupported);
        }
        let create = open.contains(OpenFlags::CREATE);
        let truncate = open.contains(OpenFlags::TRUNCATE);
        let exclusive = open.contains(OpenFlags::EXCLUSIVE);
        let directory = open.contains(OpenFlags::DIRECTORY);
        if directory && (create || exclusive || truncate) {
            return Err(ErrorCode::Invalid);
        }
        let options = OpenOptions {
            follow: path.contains(PathFlags::SYMLINK_FOLLOW),
            read: flags.contains(DescriptorFlags::READ) || !flags.contains(DescriptorFlags::WRITE),
            write: flags.contains(DescriptorFlags::WRITE) || create || truncate,
            directory,
        };
        Ok(Self { options, create, exclusive, truncate })
    }

    fn mode(self) -> OpenMode {
        let mut mode = OpenMode::empty();
        mode.set(OpenMode::READ, self.options.read);
        mode.set(OpenMode::WRITE, self.options.write);
        mode
    }

    fn verb(self) -> &'static str {
        match (self.create, self.options.write) {
            (true, _) => "create",
            (false, true) => "open to write",
            (false, false) => "open",
        }
    }
}

impl FilesView<'_> {
    fn insert(&mut self, opened: OpenedFile, mode: OpenMode, mut open: OpenFile) -> FsResult<Resource<Descriptor>> {
        let perms = if open.folder.ledger.is_some() { FsPerms::ReadWrite } else { FsPerms::ReadOnly };
        open.is_dir = opened.is_dir;
        let descriptor = if opened.is_dir {
            let dir = Dir::new(opened.file, perms, mode, false);
            open.file = Arc::clone(&dir.dir);
            Descriptor::Dir(dir)
        } else {
            let file = File::new(opened.file, perms, mode, false);
            open.file = Arc::clone(&file.file);
            Descriptor::File(file)
        };
        let handle = self.table.push(descriptor)?;
        self.files()?.insert(handle.rep(), open);
        Ok(handle)
    }

    fn open_output(
        &mut self,
        handle: &Resource<Descriptor>,
        position: Position,
    ) -> FsResult<Resource<DynOutputStream>> {
        let Operation { open, attempt, pool } = self.prepare_file(handle, "write to")?.require_writable()?;
        let slot = self.files()?.acquire_stream_slot(&attempt)?;
        let stream: DynOutputStream = Box::new(FileOutputStream::new(open, position, &pool, attempt, slot));
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
        let request = OpenRequest::parse(path_flags, open_flags, flags)?;
        let mut found = self.prepare_path(&handle, request.verb(), &path)?;
        if request.options.write {
            found = found.require_writable()?;
        }
        let Operation { open, attempt, pool } = found;
        let mut slot = self.files()?.acquire_slot(&open.folder, &attempt)?;
        let display = Arc::from(display_path(&open.path, &path));
        let from = open.clone();
        let work = move || {
            let ledger = from.folder.ledger.as_ref();
            let protected = &from.folder.protected;
            let opened = match ledger {
                Some(ledger) if request.create => {
                    names::open_or_create(from.base(), ledger, protected, &path, request.options, request.exclusive)?
                }
                _ => protected.open(from.base(), &path, request.options)?,
            };
            match ledger {
                Some(ledger) if request.truncate && !opened.is_dir => ledger.set_size(&opened.file, 0)?,
                _ => {}
            }
            if opened.is_dir {
                slot.uncount_folder();
            }
            Ok::<_, ChangeError>((opened, slot))
        };
        let (opened, slot) =
            pool.run(work).await.map_err(shut_down_error)?.map_err(|error| attempt.change_error(error))?;
        self.insert(opened, request.mode(), OpenFile { path: display, slot: Some(Arc::new(slot)), ..open })
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
        let Operation { open, attempt, pool } = self.prepare_file(&handle, "write to")?.require_writable()?;
        let written =
            pool.run(move || stream::write(&open, &bytes, Position::At(offset))).await.map_err(shut_down_error)?;
        Ok(written.map_err(|error| attempt.write_error(error))? as Filesize)
    }

    async fn set_size(&mut self, handle: Resource<Descriptor>, size: Filesize) -> FsResult<()> {
        let found = self.prepare_file(&handle, "change the size of")?;
        found.change(move |file, ledger, _| Ok(ledger.set_size(file.folder, size)?)).await
    }

    fn read_via_stream(
        &mut self,
        handle: Resource<Descriptor>,
        offset: Filesize,
    ) -> FsResult<Resource<DynInputStream>> {
        let Operation { open, attempt, pool } = self.prepare(&handle, "read")?;
        let slot = self.files()?.acquire_stream_slot(&attempt)?;
        let (mut own, _) = self.delegate()?;
        let stream = HostDescriptor::read_via_stream(&mut own, handle, offset)?;
        let inner = self.table.delete(stream)?;
        let stream: DynInputStream = Box::new(FileInputStream::new(inner, &pool, &open, slot));
        Ok(self.table.push(stream)?)
    }

    fn write_via_stream(
        &mut self,
        handle: Resource<Descriptor>,
        offset: Filesize,
    ) -> FsResult<Resource<DynOutputStream>> {
        self.open_output(&handle, Position::At(offset))
    }

    fn append_via_stream(&mut self, handle: Resource<Descriptor>) -> FsResult<Resource<DynOutputStream>> {
        self.open_output(&handle, Position::End)
    }

    async fn read_directory(&mut self, handle: Resource<Descriptor>) -> FsResult<Resource<ReaddirIterator>> {
        let Operation { open, attempt, pool } = self.prepare_path(&handle, "list", ".")?;
        let mut slot = self.files()?.acquire_slot(&open.folder, &attempt)?;
        slot.uncount_folder();
        // A listing holds two descriptors.
        let second = pool.open_slot().ok_or(ErrorCode::Busy)?;
        let entries = pool.run(move || as_dir(&open.file).entries()).await.map_err(shut_down_error)??;
        let listing = self.table.push(Listing::new(entries, (slot, second), attempt))?;
        Ok(as_iterator(&listing))
    }

    async fn create_directory_at(&mut self, handle: Resource<Descriptor>, path: String) -> FsResult<()> {
        let found = self.prepare_path(&handle, "create the folder", &path)?;
        found.change(move |folder, ledger, protected| names::create_folder(folder, ledger, protected, &path)).await
    }

    async fn remove_directory_at(&mut self, handle: Resource<Descriptor>, path: String) -> FsResult<()> {
        let found = self.prepare_path(&handle, "remove the folder", &path)?;
        found.change(move |folder, ledger, protected| names::remove_folder(folder, ledger, protected, &path)).await
    }

    async fn unlink_file_at(&mut self, handle: Resource<Descriptor>, path: String) -> FsResult<()> {
        let found = self.prepare_path(&handle, "remove", &path)?;
        found.change(move |folder, ledger, protected| names::remove_file(folder, ledger, protected, &path)).await
    }

    async fn rename_at(
        &mut self,
        handle: Resource<Descriptor>,
        path: String,
        new_handle: Resource<Descriptor>,
        new_path: String,
    ) -> FsResult<()> {
        let found = self.prepare_path(&handle, "move", &path)?.require_writable()?;
        let new = self.prepare_path(&new_handle, "move something to", &new_path)?.require_writable()?;
        check_same_folder(&found, &new)?;
        let to = new.open;
        found
            .change(move |from, ledger, protected| names::rename(from, &path, to.base(), &new_path, ledger, protected))
            .await
    }

    async fn link_at(
        &mut self,
        handle: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
        new_handle: Resource<Descriptor>,
        new_path: String,
    ) -> FsResult<()> {
        let found = self.prepare_path(&handle, "link to", &path)?.require_writable()?;
        let new = self.prepare_path(&new_handle, "create the link", &new_path)?.require_writable()?;
        if flags.contains(PathFlags::SYMLINK_FOLLOW) {
            return Err(ErrorCode::Invalid.into());
        }
        check_same_folder(&found, &new)?;
        let to = new.open;
        found
            .change(move |from, ledger, protected| names::link(from, &path, to.base(), &new_path, ledger, protected))
            .await
    }

    async fn symlink_at(&mut self, handle: Resource<Descriptor>, target: String, path: String) -> FsResult<()> {
        let found = self.prepare_path(&handle, "create the link", &path)?;
        found.change(move |folder, ledger, protected| names::symlink(folder, &target, ledger, protected, &path)).await
    }

    async fn set_times(
        &mut self,
        handle: Resource<Descriptor>,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        let found = self.prepare(&handle, "change the times of")?;
        found.change(|file, _, protected| protected.check_file(file.folder)).await?;
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
        let found = self.prepare_path(&handle, "change the times of", &path)?.require_writable()?;
        check_length(&path)?;
        let attempt = found.attempt.clone();
        let follow = flags.contains(PathFlags::SYMLINK_FOLLOW);
        let last_access = to_time(accessed)?;
        let last_change = to_time(modified)?;
        let at = path.clone();
        let changed = found
            .change(move |folder, _, protected| protected.set_times(folder, &at, follow, last_access, last_change));
        if changed.await? {
            return Ok(());
        }
        delegated!(self, set_times_at(handle, flags, path, accessed, modified))
            .map_err(|error| attempt.delegated_error(error))
    }

    async fn stat_at(
        &mut self,
        handle: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
    ) -> FsResult<DescriptorStat> {
        let attempt = self.prepare_path(&handle, "look at", &path)?.attempt;
        check_length(&path)?;
        delegated!(self, stat_at(handle, flags, path)).map_err(|error| attempt.delegated_error(error))
    }

    async fn readlink_at(&mut self, handle: Resource<Descriptor>, path: String) -> FsResult<String> {
        let attempt = self.prepare_path(&handle, "read the link", &path)?.attempt;
        check_length(&path)?;
        delegated!(self, readlink_at(handle, path)).map_err(|error| attempt.delegated_error(error))
    }

    async fn metadata_hash_at(
        &mut self,
        handle: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
    ) -> FsResult<MetadataHashValue> {
        let attempt = self.prepare_path(&handle, "look at", &path)?.attempt;
        check_length(&path)?;
        delegated!(self, metadata_hash_at(handle, flags, path)).map_err(|error| attempt.delegated_error(error))
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
fn check_same_folder(one: &Operation, other: &Operation) -> Result<(), ErrorCode> {
    if Arc::ptr_eq(&one.open.folder, &other.open.folder) { Ok(()) } else { Err(ErrorCode::CrossDevice) }
}

/// Converts a time; `None` leaves it as it is.
fn to_time(time: NewTimestamp) -> Result<Option<SystemTimeSpec>, ErrorCode> {
    match time {
        NewTimestamp::NoChange => Ok(None),
        NewTimestamp::Now => Ok(Some(SystemTimeSpec::SymbolicNow)),
        NewTimestamp::Timestamp(time) if time.nanoseconds < 1_000_000_000 => {
            let since_epoch = Duration::new(time.seconds, time.nanoseconds);
            let time = SystemTime::UNIX_EPOCH.checked_add(since_epoch).ok_or(ErrorCode::Overflow)?;
            Ok(Some(SystemTimeSpec::Absolute(cap_std::time::SystemTime::from_std(time))))
        }
        NewTimestamp::Timestamp(_) => Err(ErrorCode::Invalid),
    }
}
