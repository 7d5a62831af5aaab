#!/bin/sh
# tests/newer_python.sh VERSION FOLDER PATCHELF: CPython VERSION (3.14) of Debian's testing, with a C library of its own, into a
# folder below FOLDER that has its full version for a name. Nothing of this system is changed, and apt's own lists are not used.
set -eu
python=python$1
mkdir -p "$2"
cd "$2"
made=$PWD
mirror=$(apt-get indextargets --format '$(SITE)' | grep -m 1 '/debian/*$') # the one that this system uses
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/etc" "$work/root"
touch "$work/status"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror forky main" >"$work/sources.list"
cat >"$work/apt.conf" <<END
Dir::State "$work";
Dir::State::lists "$work/lists";
Dir::State::status "$work/status";
Dir::Cache "$work/cache";
Dir::Etc::sourcelist "$work/sources.list";
Dir::Etc::sourceparts "-";
Acquire::Languages "none";
Acquire::http::Timeout "20";
Acquire::Retries "1";
APT::Sandbox::User "";
END
export APT_CONFIG="$work/apt.conf"
apt-get update -qq
cd "$work"
apt-get download -qq "$python-minimal" "lib$python-minimal" "lib$python-stdlib" libc6 libexpat1 zlib1g libssl3t64 libffi8
for package in *.deb; do dpkg-deb -x "$package" root; done

# An interpreter is told where its C library and the others lie: they are newer than the system's.
version=$(dpkg-deb -f "$python-minimal"_*.deb Version | sed 's/[^0-9.].*//')
rm -rf "${made:?}/$version"
mv root "$made/$version"
usr="$made/$version/usr"
libraries=$(dirname "$(find "$usr/lib" -name libc.so.6)")
"$3" --set-interpreter "$(find "$libraries" -name 'ld-linux*.so.*')" --force-rpath --set-rpath "$libraries" "$usr/bin/$python"
ln -s "$python" "$usr/bin/python3"
"$usr/bin/python3" -c 'import ctypes, ssl, sys; print("CPython", sys.version.split()[0])'
