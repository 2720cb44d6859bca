#!/bin/sh
# setup-debian-rust.sh [SUITE]
#
# Unpacks Debian's Rust compiler and its standard libraries for WebAssembly into `.guest-rust/` of this checkout, for
# machines where `rustup target add` cannot be had. The builder finds it there.
#
# Needs a Debian or Ubuntu for amd64 with apt-get, dpkg-deb and Debian's archive keyring, and a `cc` for build scripts.
# Needs no root and changes nothing outside of `.guest-rust/`. SUITE is a Debian release with a recent enough compiler:
# forky (the default) or sid.
set -eu

SUITE=${1:-forky}
PREFIX=$(cd "$(dirname "$0")/../.." && pwd)/.guest-rust
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

if [ -x "$PREFIX/rustc" ] && "$PREFIX/rustc" --version >/dev/null 2>&1; then
    echo "$PREFIX/rustc is there already: $("$PREFIX/rustc" --version)"
    exit 0
fi
if [ "$(dpkg --print-architecture)" != amd64 ]; then
    echo "this machine is not amd64, for which this script is made; use rustup instead" >&2
    exit 1
fi
if [ ! -f "$KEYRING" ]; then
    echo "$KEYRING is missing; install the package debian-archive-keyring" >&2
    exit 1
fi

# The packages come from where this machine gets its own.
SITE=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
    sed -nE 's#^(URIs:|deb( \[[^]]*\])?) *(https?://[^ ]*/debian)/?( .*)?$#\3#p' | head -n 1)
if [ -z "$SITE" ]; then
    echo "the apt sources of this machine name no Debian archive; add one, or use rustup instead" >&2
    exit 1
fi

mkdir -p "$PREFIX"
APT=$PREFIX/.apt
rm -rf "$APT"
mkdir -p "$APT/lists/partial" "$APT/cache/archives/partial" "$APT/empty"
: >"$APT/status"
echo "deb [signed-by=$KEYRING] $SITE $SUITE main" >"$APT/sources.list"

# An apt of its own: other sources, other lists, and no package counts as installed.
private_apt() {
    apt-get -qq \
        -o Dir::Etc::sourcelist="$APT/sources.list" -o Dir::Etc::sourceparts="$APT/empty" \
        -o Dir::Etc::preferencesparts="$APT/empty" -o Dir::State::lists="$APT/lists" \
        -o Dir::State::status="$APT/status" -o Dir::Cache="$APT/cache" -o Dir::Cache::pkgcache="" \
        -o APT::Sandbox::User="$(id -un)" -o APT::Architecture=amd64 -o Acquire::Languages=none \
        -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
        -o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false -o Acquire::Retries=3 "$@"
}
private_apt update
private_apt -y --download-only --no-install-recommends install libstd-rust-dev libstd-rust-dev-wasm32 >/dev/null
(cd "$APT/cache/archives" && private_apt download rustc)
for package in "$APT"/cache/archives/*.deb; do
    dpkg-deb -x "$package" "$PREFIX"
done
rm -rf "$APT" "$PREFIX/usr/share" "$PREFIX/etc" "$PREFIX/var"

# The compiler runs with the libraries that were unpacked beside it, not with this machine's.
cat >"$PREFIX/rustc" <<'WRAPPER'
#!/bin/sh
prefix=$(cd "$(dirname "$0")" && pwd)
exec "$prefix/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" \
    --library-path "$prefix/usr/lib/x86_64-linux-gnu:$prefix/lib/x86_64-linux-gnu" "$prefix/usr/bin/rustc" "$@"
WRAPPER
chmod +x "$PREFIX/rustc"
"$PREFIX/rustc" --version
