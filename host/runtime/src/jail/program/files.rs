//! The files that a program finds in its jail: those of the system, its own, and those that it was granted.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use fumehood_platform::files::is_executable;

use super::ProgramJail;

/// What a program may do with a file, or with a folder and everything below it. Larger rights include smaller ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rights {
    /// It exists, but can be neither read nor listed.
    Empty,
    Read,
    /// Read and run it.
    Run,
    /// Read and write a device.
    Device,
    /// Read, change and run it.
    Write,
}

/// The files of the system that language runtimes read, each with the reason. A path that does not exist is left out.
const SYSTEM: &[(&str, Rights, &str)] = &[
    ("/usr", Rights::Run, "programs, libraries, certificates and time zones"),
    ("/bin", Rights::Run, "the shell and `env`, which scripts name"),
    ("/sbin", Rights::Run, "programs, where it is not a link to /usr"),
    ("/lib", Rights::Run, "libraries and the loader"),
    ("/lib32", Rights::Run, "libraries and the loader"),
    ("/lib64", Rights::Run, "libraries and the loader"),
    ("/nix/store", Rights::Run, "programs of Nix"),
    ("/gnu/store", Rights::Run, "programs of Guix"),
    ("/etc/alternatives", Rights::Run, "links to programs (Debian)"),
    ("/etc/ld.so.cache", Rights::Read, "places of libraries"),
    ("/etc/ld.so.conf", Rights::Read, "places of libraries"),
    ("/etc/ld.so.conf.d", Rights::Read, "places of libraries"),
    ("/etc/ld.so.preload", Rights::Read, "places of libraries"),
    ("/etc/ssl/certs", Rights::Read, "trusted certificates"),
    ("/etc/ssl/cert.pem", Rights::Read, "trusted certificates"),
    ("/etc/ssl/openssl.cnf", Rights::Read, "settings of OpenSSL"),
    ("/etc/ca-certificates", Rights::Read, "trusted certificates"),
    ("/etc/pki/tls", Rights::Read, "trusted certificates (Fedora)"),
    ("/etc/pki/ca-trust", Rights::Read, "trusted certificates (Fedora)"),
    ("/etc/crypto-policies", Rights::Read, "settings of OpenSSL (Fedora)"),
    ("/etc/localtime", Rights::Read, "the time zone"),
    ("/etc/timezone", Rights::Read, "the time zone"),
    ("/etc/locale.alias", Rights::Read, "languages"),
    ("/etc/nsswitch.conf", Rights::Read, "where names are looked up"),
    ("/etc/host.conf", Rights::Read, "where names are looked up"),
    ("/etc/hosts", Rights::Read, "`localhost`"),
    ("/etc/passwd", Rights::Read, "names of users, for `getpwuid`"),
    ("/etc/group", Rights::Read, "names of groups, for `getgrgid`"),
    ("/etc/mime.types", Rights::Read, "types of files"),
    ("/etc/os-release", Rights::Read, "the distribution, for native packages"),
    ("/dev/null", Rights::Device, "discarded output"),
    ("/dev/zero", Rights::Device, "memory"),
    ("/dev/full", Rights::Device, "tests"),
    ("/dev/random", Rights::Device, "random numbers"),
    ("/dev/urandom", Rights::Device, "random numbers"),
    ("/proc", Rights::Read, "its own processes, processors and memory; Landlock hides what is private of others"),
];

/// Folders of programs. The folder around one of them is the home of the programs in it.
const PROGRAM_FOLDERS: [&str; 3] = ["bin", "shims", "Scripts"];
/// Folders of packages, of which one package may use all others.
const PACKAGE_FOLDERS: [&str; 3] = ["node_modules", "site-packages", "dist-packages"];
/// Files in the main folder of a package.
const PACKAGE_FILES: [&str; 2] = ["package.json", "pyproject.toml"];
/// Programs whose first argument that is no option is a script.
const INTERPRETERS: [&str; 12] =
    ["node", "nodejs", "bun", "deno", "python", "sh", "bash", "dash", "zsh", "ruby", "perl", "php"];
/// Maximum length of the first line of a script, in bytes.
const MAX_INTERPRETER_BYTES: u64 = 256;
/// Maximum number of links and interpreters that lead from one program to the next.
const MAX_STEPS: usize = 16;

/// A path that a program finds in its jail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Surrounding {
    pub(crate) path: PathBuf,
    pub(crate) rights: Rights,
}

/// Returns everything that a program finds, in the order of paths.
///
/// # Errors
/// If a path that was granted does not exist.
pub(super) fn surroundings(
    jail: &ProgramJail,
    program: &OsStr,
    arguments: &[OsString],
) -> Result<Vec<Surrounding>, String> {
    let mut all: Vec<_> = SYSTEM.iter().map(|(path, rights, _)| (PathBuf::from(path), *rights)).collect();
    all.extend(env::current_dir().ok().map(|here| (here, Rights::Empty)));
    let own = own_files(program, arguments, jail.user_home.as_deref());
    all.extend(own.into_iter().map(|path| (path, Rights::Run)));
    let write = jail.write.iter().chain(&jail.temporary).map(|path| (path, Rights::Write));
    for (path, rights) in jail.read.iter().map(|path| (path, Rights::Run)).chain(write) {
        let absolute = path.canonicalize().map_err(|error| format!("cannot grant {}: {error}", path.display()))?;
        all.extend([(path.clone(), rights), (absolute, rights)]);
    }
    let mut found = BTreeMap::new();
    for (path, rights) in all.into_iter().filter(|(path, _)| path.exists()) {
        let entry = found.entry(path).or_insert(rights);
        *entry = rights.max(*entry);
    }
    Ok(found.into_iter().map(|(path, rights)| Surrounding { path, rights }).collect())
}

/// Returns the files of the program that a command line names: the program with its package, its interpreter, and its
/// script with its package.
fn own_files(program: &OsStr, arguments: &[OsString], home: Option<&Path>) -> Vec<PathBuf> {
    let mut own = Vec::new();
    let Some(program) = find_program(program) else { return own };
    add_program(&program, home, &mut own, 0);
    let is_script = |argument: &&OsString| !argument.as_encoded_bytes().starts_with(b"-");
    if is_interpreter(&program)
        && let Some(script) = arguments.iter().find(is_script)
        && let Ok(script) = std::path::absolute(script)
        && script.is_file()
    {
        add_program(&script, home, &mut own, 0);
    }
    own
}

/// Adds a program, the programs that its links and its first line lead to, and their packages.
fn add_program(program: &Path, home: Option<&Path>, own: &mut Vec<PathBuf>, steps: usize) {
    if steps == MAX_STEPS {
        return;
    }
    own.push(program.to_owned());
    own.extend(package_of(program).filter(|package| is_narrow(package, home)));
    if let Ok(target) = program.read_link() {
        let target = program.parent().map_or(target.clone(), |folder| folder.join(&target));
        return add_program(&without_dots(&target), home, own, steps + 1);
    }
    if let Ok(real) = program.canonicalize()
        && real != program
    {
        return add_program(&real, home, own, steps + 1);
    }
    for interpreter in interpreters(program) {
        add_program(&interpreter, home, own, steps + 1);
    }
}

/// Removes `.` and `..` from the path of a link's target, as far as the text shows.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

/// Returns the programs that the first line of a script names.
fn interpreters(script: &Path) -> Vec<PathBuf> {
    let mut start = Vec::new();
    let Ok(file) = File::open(script) else { return Vec::new() };
    if file.take(MAX_INTERPRETER_BYTES).read_to_end(&mut start).is_err() {
        return Vec::new();
    }
    let Some(line) = start.strip_prefix(b"#!").and_then(|rest| rest.split(|byte| *byte == b'\n').next()) else {
        return Vec::new();
    };
    let line = String::from_utf8_lossy(line);
    let words = line.split_whitespace().filter(|word| !word.starts_with('-') && !word.contains('='));
    // The second word is the program that `env` finds, or an argument.
    words.take(2).filter_map(|word| find_program(OsStr::new(word))).collect()
}

/// Finds a program as `execvp` does.
fn find_program(program: &OsStr) -> Option<PathBuf> {
    if program.as_encoded_bytes().contains(&b'/') {
        return std::path::absolute(program).ok().filter(|path| path.exists());
    }
    let folders = env::var_os("PATH")?;
    let found = env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| is_executable(path))?;
    std::path::absolute(found).ok()
}

fn is_interpreter(program: &Path) -> bool {
    let name = program.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let name = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    INTERPRETERS.contains(&name)
}

/// Returns the folder that belongs to a program as a whole: its prefix, its package or the packages around it.
fn package_of(program: &Path) -> Option<PathBuf> {
    let folder = program.parent()?;
    let packages = folder.ancestors().filter(|path| is_named(path, &PACKAGE_FOLDERS)).last();
    let prefix = folder.parent().filter(|_| is_named(folder, &PROGRAM_FOLDERS));
    let has_package_file = |path: &&Path| PACKAGE_FILES.iter().any(|name| path.join(name).is_file());
    packages.or(prefix).or_else(|| folder.ancestors().find(has_package_file)).map(Path::to_owned)
}

fn is_named(path: &Path, names: &[&str]) -> bool {
    path.file_name().and_then(OsStr::to_str).is_some_and(|name| names.contains(&name))
}

/// Returns whether a folder is one of programs only, and not one in which people keep their files.
fn is_narrow(folder: &Path, home: Option<&Path>) -> bool {
    let is_shared = |shared: &Path| shared.starts_with(folder);
    let is_of_home = home.is_some_and(|home| is_shared(home) || folder == home.join(".local"));
    !is_of_home && !is_shared(&env::temp_dir()) && !is_shared(Path::new("/tmp"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    /// Makes a program with this text.
    fn put(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn finds_the_files_that_belong_to_a_program() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let home = folder.path().canonicalize().unwrap();
        let at = |name: &str| home.join(name);
        put(&at("python/bin/python3.1"), "");
        std::fs::create_dir_all(at("venv/bin")).unwrap();
        symlink(at("python/bin/python3.1"), at("venv/bin/python")).unwrap();
        put(&at("venv/bin/tool"), &format!("#!{}\n", at("venv/bin/python").display()));
        put(&at("app/node_modules/a/node_modules/b/run.js"), "");
        put(&at("work/package.json"), "{}");
        put(&at("work/src/server.js"), "");
        put(&at("alone.py"), "");
        put(&at("bin/mine"), "");
        put(&at(".local/bin/mine"), "");
        let check = |program: &str, arguments: &[&str], expected: &[&str]| {
            let arguments: Vec<_> = arguments.iter().map(|name| at(name).into_os_string()).collect();
            let mut found = own_files(at(program).as_os_str(), &arguments, Some(&home));
            found.sort();
            found.dedup();
            assert_eq!(found, expected.iter().map(|name| at(name)).collect::<Vec<_>>(), "{program} {arguments:?}");
        };

        check("venv/bin/tool", &[], &["python", "python/bin/python3.1", "venv", "venv/bin/python", "venv/bin/tool"]);
        let script = "app/node_modules/a/node_modules/b/run.js";
        check(script, &[], &["app/node_modules", script]);
        let python = ["python", "python/bin/python3.1"];
        check(python[1], &["work/src/server.js"], &[python[0], python[1], "work", "work/src/server.js"]);
        check(python[1], &["alone.py", "work/package.json"], &["alone.py", python[0], python[1]]);
        // Neither the home folder nor the one of all the user's programs belongs to one of them.
        check("bin/mine", &[], &["bin/mine"]);
        check(".local/bin/mine", &["alone.py"], &[".local/bin/mine"]);
    }
}
