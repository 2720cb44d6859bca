# Settings that make a build independent of the folder, the user and the day. Sourced by release/build and release/verify,
# from the root of the checkout.

LC_ALL=C
TZ=UTC
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
CARGO_INCREMENTAL=0
CARGO_TERM_COLOR=never
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target/release-build}
export LC_ALL TZ SOURCE_DATE_EPOCH CARGO_INCREMENTAL CARGO_TERM_COLOR CARGO_TARGET_DIR
umask 022

# Settings of the user that change what is built.
unset RUSTFLAGS CARGO_BUILD_RUSTFLAGS CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER
unset CARGO_BUILD_TARGET CPPFLAGS CXXFLAGS LDFLAGS HOST_CFLAGS TARGET_CFLAGS
for variable in $(env | sed -n 's/^\(CARGO_PROFILE_[A-Z0-9_]*\)=.*/\1/p'); do
    unset "$variable"
done

# The root, as the kernel names it: compilers resolve links before they write a path down.
ROOT=$(pwd -P)
cargo_home=$(CDPATH='' cd -- "${CARGO_HOME:-$HOME/.cargo}" && pwd -P)
mkdir -p "$CARGO_TARGET_DIR"
target_dir=$(CDPATH='' cd -- "$CARGO_TARGET_DIR" && pwd -P)
sysroot=$(rustc --print sysroot)
rust_commit=$(rustc -vV | sed -n 's/^commit-hash: //p')

# The last prefix that fits wins. The separator is the one that lets paths have spaces.
separator=$(printf '\037')
CARGO_ENCODED_RUSTFLAGS=--remap-path-prefix=$ROOT=/fumehood
CARGO_ENCODED_RUSTFLAGS=$CARGO_ENCODED_RUSTFLAGS$separator--remap-path-prefix=$target_dir=/fumehood/target
CARGO_ENCODED_RUSTFLAGS=$CARGO_ENCODED_RUSTFLAGS$separator--remap-path-prefix=$cargo_home=/cargo
CARGO_ENCODED_RUSTFLAGS=$CARGO_ENCODED_RUSTFLAGS$separator--remap-path-prefix=$sysroot/lib/rustlib/src/rust=/rustc/$rust_commit
# The linker's build id is a digest of the program with its debug information, which differs from folder to folder although all that
# is shipped is the same.
CARGO_ENCODED_RUSTFLAGS=$CARGO_ENCODED_RUSTFLAGS$separator-Clink-arg=-Wl,--build-id=none
export CARGO_ENCODED_RUSTFLAGS

# SQLite, ring, blake3 and a few lines of wasmtime are C or assembly. `CFLAGS` is split at spaces.
case $ROOT$target_dir$cargo_home in
*' '*)
    echo "the path of the checkout, of cargo's home or of the target folder has a space; build in another folder" >&2
    exit 2
    ;;
esac
CFLAGS="-ffile-prefix-map=$ROOT=/fumehood -ffile-prefix-map=$target_dir=/fumehood/target -ffile-prefix-map=$cargo_home=/cargo"
export CFLAGS

# Runs cargo where no repository is found: a build script of Cranelift would write the commit of one around cargo's home into
# the program.
reproducible_cargo() {
    GIT_DIR=/dev/null cargo "$@"
}
