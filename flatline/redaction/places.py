"""Secrets given away by their place: in a URL, after ``Bearer``, in ``.netrc``, in the options of well-known tools."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from .lazy import LazyPattern
from .marks import is_mark
from .spans import Span
from .values import has_letters_and_digits, is_number, is_placeholder, looks_secret

_USERINFO = re.compile(r"""://(?P<user>[^\s\x00:/?#@"'`<>\\|]{0,300})(?::(?P<password>[^\s\x00/"'`<>\\|]{1,400}))?@""")

_USERINFO_WITH_SLASH = re.compile(
    r"""://(?P<user>[^\s\x00:/?#@"'`<>\\|\[\]]{0,100}):(?![0-9]{1,5}[/?\#])(?P<password>[^\s\x00@"'`<>\\|]{1,200})@"""
    r"""(?=[\w.-]{1,253}(?::[0-9]{1,5})?(?:[/\s"'?,;)]|$))"""
)
"""A password that should have been quoted; what stands after the colon is no port."""


def find_userinfo(text: str) -> Iterator[Span]:
    """``https://user:password@host``, and a lone token in the place of the user."""
    at = text.find("://")
    while at >= 0:
        found = _USERINFO.match(text, at)
        found = found or _USERINFO_WITH_SLASH.match(text, at)
        if found:
            yield from _of_userinfo(found)
        at = text.find("://", found.end() if found else at + 3)


def _of_userinfo(found: re.Match[str]) -> Iterator[Span]:
    user, password = found["user"], found["password"]
    if password and not is_placeholder(password):
        yield Span(found.start("password"), found.end("password"), "password", password)
    if len(user) >= 16 and looks_secret(user) and not is_mark(user):
        yield Span(found.start("user"), found.end("user"), "token", user)


_BEARER = re.compile(r"""\b(?:[Bb]earer|BEARER)(?:[ \t]|%20|\+){1,4}(?P<token>[A-Za-z0-9._~+/%=-]{8,4000})""")
_BASIC = re.compile(r"""\b(?:[Bb]asic|BASIC)[ \t]{1,4}(?P<pair>[A-Za-z0-9+/_-]{8,1000}={0,2})(?![A-Za-z0-9+/=])""")


def find_schemes(text: str) -> Iterator[Span]:
    """``Bearer TOKEN`` and ``Basic BASE64`` wherever they stand."""
    if "earer" in text or "BEARER" in text:
        for found in _BEARER.finditer(text):
            token = found["token"].rstrip(".")
            if looks_secret(token) and has_letters_and_digits(token):
                yield Span(found.start("token"), found.start("token") + len(token), "token", token)
    if "asic" in text or "BASIC" in text:
        for found in _BASIC.finditer(text):
            if _is_user_and_password(found["pair"]):
                yield Span(found.start("pair"), found.end("pair"), "basic-auth", found["pair"])


def _is_user_and_password(encoded: str) -> bool:
    """Whether this is base64 of printable text with a colon (RFC 7617)."""
    try:
        plain = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=None, validate=False)
    except (binascii.Error, ValueError):
        return False
    return b":" in plain and all(32 <= byte < 127 or byte >= 160 for byte in plain)


_NETRC = re.compile(
    r"\b(?:machine[ \t]+\S{1,200}|default)\s{1,20}(?:login\s{1,20}\S{1,200}\s{1,20})?"
    r"(?:account\s{1,20}\S{1,200}\s{1,20})?"
    r"password\s{1,20}(?P<password>[^\s\\\"']{1,400})(?:\s{1,20}account\s{1,20}(?P<account>[^\s\\\"']{1,400}))?"
)


def find_netrc(text: str) -> Iterator[Span]:
    """``machine HOST login USER password PASSWORD`` (netrc(5))."""
    if "password" not in text or ("machine" not in text and "default" not in text):
        return
    for found in _NETRC.finditer(text):
        if not is_placeholder(found["password"]) and not is_mark(found["password"]):
            yield Span(found.start("password"), found.end("password"), "password", found["password"])
        if found["account"] and not is_placeholder(found["account"]) and not is_mark(found["account"]):
            yield Span(found.start("account"), found.end("account"), "password", found["account"])


_QUOTED_AFTER = re.compile(
    r"""(?i:\bpassword|\bidentified\s{1,9}(?:with\s{1,9}\S{1,60}\s{1,9})?by)[ \t]{1,9}'(?P<secret>[^'\n\x00]{1,200})'"""
)
_LOGIN_CALL = re.compile(
    r"""\blogin\([^)\n]{0,200}?(?:\b(?:key|token)[ ]?=[ ]?|(?<=login\()|,[ ]?(?=["'][\w-]{0,100}[0-9]))"""
    r"""["'](?P<secret>[\w-]{20,120})["']"""
)
_CALLED_WITH_A_STRING = re.compile(r"""login\([^)\n"']{0,200}["']""")
_FROM_LITERAL = re.compile(
    r"""--from-literal(?:=|[ \x00]|['"], ?['"])['"]?[\w.-]{1,100}=['"]?(?P<secret>[^\s'"\x00\\]{4,400})"""
)


def find_statements(text: str) -> Iterator[Span]:
    """SQL's ``PASSWORD '…'`` and ``IDENTIFIED BY '…'``, ``wandb.login(key='…')``, kubectl's ``--from-literal``."""
    patterns = [_LOGIN_CALL] if _CALLED_WITH_A_STRING.search(text) else []
    if "--from-literal" in text:
        patterns.append(_FROM_LITERAL)
    if any(f"{word} '" in text for word in ("PASSWORD", "Password", "password", "BY", "By", "by")):
        patterns.append(_QUOTED_AFTER)
    for pattern in patterns:
        for found in pattern.finditer(text):
            value = found["secret"]
            if not is_placeholder(value) and not is_mark(value) and not (is_number(value) and len(value) < 6):
                yield Span(found.start("secret"), found.end("secret"), "password", value)


_COMMAND = re.compile(r"[^\n;|&]{0,500}")
"""From the tool's name on: what may hold its option, in a script or within one argv."""

_CHAR = r"""(?:[^\s'"\x00\\]|\\(?!["'nrtux0\\]))"""
_VALUE = rf"""['"]?(?P<secret>{_CHAR}{{4,200}})"""
_AFTER_USER = rf"""['"]?[^\s:'"\\\x00]{{0,100}}:(?P<secret>{_CHAR}{{1,200}})"""
_GLUED = rf"""['"]?(?P<secret>{_CHAR}{{4,200}})"""
_NEXT = r"""(?:[ =\x00]|['"], ?['"])"""
_LOGIN = rf"\blogin\b.{{0,200}}?{_NEXT}(?:-p|--password){_NEXT}{_VALUE}"


def _option(tool: str, option: str) -> tuple[str, LazyPattern]:
    return tool, LazyPattern(option, re.S)


OPTIONS = (
    _option("7z", rf"{_NEXT}-p{_GLUED}"),
    _option("aws", rf"{_NEXT}set{_NEXT}[\w.-]{{0,60}}(?:secret|token|key)[\w-]{{0,40}}{_NEXT}{_VALUE}"),
    _option("az", _LOGIN),
    _option("curl", rf"{_NEXT}(?:-[a-zA-Z]{{0,5}}[uU]{_NEXT}?|(?:--user|--proxy-user){_NEXT}){_AFTER_USER}"),
    _option("curl", rf"""{_NEXT}(?:-b|--cookie){_NEXT}['"]?[\w.-]{{1,60}}={_GLUED}"""),
    _option("docker", _LOGIN),
    _option("git", rf"config.{{0,80}}?(?:token|password){_NEXT}{_VALUE}"),
    _option("helm", _LOGIN),
    _option("htpasswd", rf" -[a-z]{{0,5}}b[a-z]{{0,5}} [^ ]{{1,200}} [^ ]{{1,100}} {_VALUE}"),
    _option("kaggle", rf"config{_NEXT}set.{{0,40}}?{_NEXT}-n{_NEXT}key{_NEXT}-v{_NEXT}{_VALUE}"),
    *(
        _option(tool, rf"{_NEXT}-w{_NEXT}?{_VALUE}")
        for tool in ("ldapadd", "ldapdelete", "ldapmodify", "ldappasswd", "ldapsearch", "ldapwhoami")
    ),
    _option("mariadb", rf"{_NEXT}-p{_GLUED}"),
    _option("mysql", rf"{_NEXT}-p{_GLUED}"),
    _option("mysqladmin", rf"{_NEXT}-p{_GLUED}"),
    _option("mysqldump", rf"{_NEXT}-p{_GLUED}"),
    _option("lftp", rf"""{_NEXT}-u{_NEXT}['"]?[^\s,'"\x00]{{1,100}},(?P<secret>[^\s'"\x00]{{1,200}})"""),
    _option("mosquitto_", rf"{_NEXT}(?:-P|--pw){_NEXT}{_VALUE}"),
    _option("ngrok", rf"authtoken{_NEXT}(?P<secret>\w{{20,80}})"),
    _option("openssl", rf"{_NEXT}(?:-k|-K){_NEXT}{_VALUE}"),
    _option("openssl", rf"{_NEXT}-pass(?:in|out)?{_NEXT}pass:{_VALUE}"),
    _option("podman", _LOGIN),
    _option("poetry", rf"config{_NEXT}http-basic\.[^\s\x00]{{1,60}}{_NEXT}[^\s\x00]{{1,60}}{_NEXT}{_VALUE}"),
    _option("poetry", rf"config{_NEXT}pypi-token\.[\w.-]{{1,60}}{_NEXT}{_VALUE}"),
    _option("rar", rf"{_NEXT}-h?p{_GLUED}"),
    _option("redis-cli", rf"{_NEXT}-a{_NEXT}{_VALUE}"),
    _option("smbclient", rf"""{_NEXT}-U{_NEXT}['"]?[^\s%'"]{{1,100}}%(?P<secret>[^\s'"\x00]{{1,200}})"""),
    _option(
        "sqlplus",
        rf"{_NEXT}(?:-\w{{1,9}}{_NEXT}){{0,3}}['\"]?[\w$.-]{{1,60}}/(?P<secret>[^\s'\"@/\x00]{{4,200}})(?=@|$|[\s'\"])",
    ),
    _option("sshpass", rf"{_NEXT}-p{_NEXT}?{_VALUE}"),
    _option("twine", rf"{_NEXT}-p{_NEXT}{_VALUE}"),
    _option("unrar", rf"{_NEXT}-p{_GLUED}"),
    _option(
        "vault",
        rf"{_NEXT}login(?:{_NEXT}-[\w=./-]{{1,80}}){{0,4}}{_NEXT}(?P<secret>(?=[A-Za-z_.-]{{0,40}}[0-9])[\w.-]{{8,200}})(?![\w.=-])",
    ),
    _option("wandb", rf"{_NEXT}login.{{0,120}}?{_NEXT}(?P<secret>[0-9a-f]{{40}}|[\w-]{{40,120}})(?![\w-])"),
    _option("wget", rf"{_NEXT}(?:--user|-U){_NEXT}{_AFTER_USER}"),
    _option("wpa_passphrase", rf"{_NEXT}[^\s\x00]{{1,40}}{_NEXT}{_VALUE}"),
    _option("unzip", rf"{_NEXT}-P{_NEXT}{_VALUE}"),
    _option("zip", rf"{_NEXT}(?:-P|--password){_NEXT}{_VALUE}"),
)
"""Tool -> its option that takes a password: their manual pages."""


def find_tool_options(text: str) -> Iterator[Span]:
    """``curl -u user:password``, ``mysql -pPASSWORD``, ``sshpass -p PASSWORD``, ``docker login -p …``."""
    for tool, option in OPTIONS:
        at = text.find(tool)
        while at >= 0:
            end = command_of(text, at + len(tool))
            if stands_alone(text, at):
                yield from _of_option(option, text, at + len(tool), end)
            at = text.find(tool, end)


_COLOUR_BEFORE = re.compile(r"(?:\x1b\[[0-9;]{0,12}m|\\[nrt])\Z")


def stands_alone(text: str, at: int) -> bool:
    """Whether a word begins here: also behind a colour and behind an escaped line break."""
    return not text[at - 1 : at].isalnum() or bool(_COLOUR_BEFORE.search(text, max(0, at - 16), at))


def command_of(text: str, at: int) -> int:
    """Where the command ends whose tool's name ends at `at`."""
    command = _COMMAND.match(text, at)
    return command.end() if command else at


def _of_option(option: LazyPattern, text: str, start: int, end: int) -> Iterator[Span]:
    found = option.search(text, start, end)
    if not found:
        return
    value = found["secret"]
    if is_placeholder(value) or value.startswith("-") or (is_number(value) and len(value) < 6):
        return
    yield Span(found.start("secret"), found.end("secret"), "password", value)


_AWS_SECRET = re.compile(r"(?<![A-Za-z0-9/+=])(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])")


def find_aws_secrets(text: str) -> Iterator[Span]:
    """The 40 characters close after an AWS key id, in a CSV, a tuple or on the next line."""
    for prefix in ("AKIA", "ASIA"):
        at = text.find(prefix)
        while at >= 0:
            found = _AWS_SECRET.search(text, at + 20, at + 220)
            if found and looks_secret(found["secret"]) and not re.fullmatch("[0-9a-f]{40}", found["secret"]):
                yield Span(found.start("secret"), found.end("secret"), "aws-secret", found["secret"])
            at = text.find(prefix, at + 20)
