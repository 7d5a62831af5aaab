"""What a file that is no bundle probably is, so that the refusal helps."""

from __future__ import annotations

_MAGIC = (
    (b"\x1f\x8b", "gzip data (unpack it first)"),
    (b"BZh", "bzip2 data (unpack it first)"),
    (b"\xfd7zXZ", "xz data (unpack it first)"),
    (b"\x28\xb5\x2f\xfd", "zstd data (unpack it first)"),
    (b"7z\xbc\xaf", "a 7z archive (unpack it first)"),
    (b"\x7fELF", "a program or core dump (ELF)"),
    (b"%PDF", "a PDF"),
    (b"\x89PNG", "a picture"),
    (b"\x80\x04", "a Python pickle"),
    (b"\x80\x05", "a Python pickle"),
)


def what_it_looks_like(head: bytes) -> str:
    """A few words, from the first 4 KiB. Never empty."""
    for magic, words in _MAGIC:
        if head.startswith(magic):
            return words
    if head[257:262] == b"ustar":
        return "a tar archive (unpack it first)"
    if not head.strip(b"\0"):
        return "zeros: space was reserved, but the data was never written"
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start[:1] == b"<":
        return "a web page: perhaps a login page was saved in its place"
    if start[:1] in (b"{", b"["):
        return "JSON"
    if start.startswith((b"version https://git-lfs", b"-----BEGIN")):
        return "a pointer or a signature, not the file itself"
    return "binary data" if b"\0" in head else "text"
