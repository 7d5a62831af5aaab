"""Secrets that calls, prompts and commands name by their position alone, and the private numbers of JSON Web Keys."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .lazy import LazyPattern
from .marks import is_mark
from .spans import Span
from .values import has_letters_and_digits, is_placeholder, looks_secret

_SECRET_WORD = r"""(?P<secret>[^\s'"\x00\\|]{6,200})"""
_USERS = r"""--(?:user|userpass|auth|credentials?|login|basic-auth)(?:[ =\x00]|['"], ?['"])"""
_SURE = (
    (("uth(", "uth=("), LazyPattern(
        r"""(?:\bauth|basic_auth|(?:Basic|Digest|Proxy)Auth)[ ]?=?[ ]?\(\s{0,9}"""
        r"""(?:\w{1,20}=)?["'][^"'\n]{1,100}["'][ ]?,[ ]?"""
        r"""(?:\w{1,20}=)?["'](?P<secret>[^"'\n]{1,200})["']""")),
    (("Fernet(",), LazyPattern(r"""\bFernet\([bu]?["'](?P<secret>[\w=+/-]{32,200})["']""")),
    (("jwt.",), LazyPattern(r"""\bjwt\.(?:en|de)code\([^,\n]{1,200},[ ]?b?["'](?P<secret>[^"'\n]{6,400})["']""")),
    (("word for ", "hrase for "), LazyPattern(
        r"""(?i:password|passphrase)[ ]for[ ](?:'[^'\n]{1,200}'|[^\s:]{1,100}):[ ](?P<secret>[^\s'"]{4,200})""")),
    (("-stdin", "with-token"), LazyPattern(
        r"""\becho[ ](?:-n[ ])?["']?(?P<secret>[^\s"'|$`]{6,400})["']?[ ]?\|[^\n|]{1,200}?(?:-stdin|--with-token)""")),
    (("alias set ", "host add "), LazyPattern(
        rf"\b(?:alias set|host add) \S{{1,60}} \S{{1,200}} \S{{1,100}} {_SECRET_WORD}")),
    (("net use ",), LazyPattern(rf"\bnet use \S{{1,60}} \S{{1,200}} {_SECRET_WORD} /user:", re.I)),
    (("/user:",), LazyPattern(rf"\bnet use \S{{1,60}} \S{{1,200}} /user:\S{{1,100}} {_SECRET_WORD}", re.I)),
    (("http -", "https -"), LazyPattern(
        r"""\bhttps?[ ](?:-\S{1,40}[ ]){0,4}(?:-a|--auth)[ =]["']?[^\s:"']{1,100}:(?P<secret>[^\s"']{1,200})""")),
    (('send "', 'send -- "', 'send \\"'), LazyPattern(
        r"""\bsend[ ](?:--[ ])?\\?"(?P<secret>[^\s"\\]{8,200})\\{1,2}[rn]""")),
    (("chpasswd",), LazyPattern(
        r"""\becho[ ](?:-n[ ])?["']?[\w.-]{1,64}:(?P<secret>[^\s"'|$`]{4,400})["']?[ ]?\|[^\n|]{0,100}?chpasswd""")),
    (("> ~/.", "> $HOME/.", "> /root/.", "token", "secret", "netrc", "passw"), LazyPattern(
        r"""\b(?:echo|printf)[ ](?:-n[ ]|'%s(?:\\n)?'[ ])?"""
        r"""["']?(?P<secret>(?=[\w.-]{0,200}[0-9])[\w+/=.-]{12,400})["']?[ ]?>{1,2}[ ]?"""
        r"""["']?[^\s"'>]{0,200}(?:token|secret|passw|credential|netrc|api_?key)""")),
    (("<<<",), LazyPattern(
        r"""\b(?:kinit|passwd|su|sudo|login|cryptsetup|gpg|ssh-add|vault|docker)\b[^\n<]{0,100}"""
        r"""<<<[ ]?["']?(?P<secret>[^\s"'$]{6,200})""")),
    (("thin:",), LazyPattern(r"jdbc:oracle:\w{1,9}:[\w$.-]{1,60}/(?P<secret>[^\s@/]{1,200})@")),
    (("asswort", "de passe", "contrase", "Contrase", "senha", "Senha", "密码", "密碼", "口令", "パスワード", "비밀번호",
      "암호", "ароль", "ennwort", "asło", "achtwoord", "ösenord"), LazyPattern(
        r"""(?:[Pp]asswort|[Mm]ot de passe|[Cc]ontrase(?:ñ|n)a|[Ss]enha|密码|密碼|口令|パスワード|비밀번호|암호"""
        r"""|[Пп]ароль|[Kk]ennwort|[Hh]asło|[Ww]achtwoord|[Ll]ösenord)["']?[ \t\u00a0]{0,4}[:：=＝]"""
        r"""[ \t]{0,4}["']?(?P<secret>[^\s"',，。;<>]{4,200})""")),
    (("conda",), LazyPattern(r"""conda[\w.]{0,30}/t/(?P<secret>[\w+-]{12,100})(?=/)""")),
)  # fmt: skip
"""(what must stand in the text, where the secret then is)."""
_WEAK = (
    (("AUTH ", "LOGIN "), LazyPattern(
        r"""(?:^|[\s"'])(?:AUTH(?:[ ](?!PLAIN|LOGIN|XOAUTH)\w{1,40})?|LOGIN[ ]["']?[\w.@-]{1,80}["']?)[ ]"""
        r"""["']?(?P<secret>[^\s"']{8,400})["']?[ \t\r]{0,9}$""",
        re.M)),
    (("--user", "--auth", "--cred", "--login", "--basic-auth"), LazyPattern(
        rf"""{_USERS}["']?[^\s:"'\x00]{{1,64}}:(?P<secret>[^\s"'\x00]{{6,200}})""")),
    ((":*:", ":5432:", ":5433:", ":6432:"), LazyPattern(
        r"""(?<![^\s\x1b"'`>m])[\w.*-]{1,200}:(?:\*|[0-9]{4,5}):[\w*-]{1,64}:[\w*-]{1,64}:"""
        r"""(?P<secret>[^\s"'`,]{6,200})""")),
)  # fmt: skip
"""The same, where the value must look like a secret: ``--user 1000:1000`` is none."""
SPOKEN = (*_SURE, *_WEAK)
_STRICT = frozenset(pattern for literals, pattern in SPOKEN if "send" in literals[0] or (literals, pattern) in _WEAK)


def find_spoken(text: str) -> Iterator[Span]:
    """What calls, prompts and commands name by their position: ``auth=('bob', '…')``, ``echo … | docker login``."""
    for literals, pattern in SPOKEN:
        if not any(literal in text for literal in literals):
            continue
        for found in pattern.finditer(text):
            value = found["secret"]
            weak = not looks_secret(value, shortest=8) or not has_letters_and_digits(value)
            if is_placeholder(value) or is_mark(value) or (weak and pattern in _STRICT):
                continue
            yield Span(found.start("secret"), found.end("secret"), "password", value)


_JWK = re.compile(r"""\\{0,8}"(?:d|p|q|dp|dq|qi|k)\\{0,8}"\s{0,9}:\s{0,9}\\{0,8}"(?P<secret>[\w-]{20,2000})""")


def find_jwk(text: str) -> Iterator[Span]:
    """The private numbers of a JSON Web Key (RFC 7517)."""
    at = text.find('"kty')
    at = at if at >= 0 else text.find('kty\\"')
    if at < 0:
        return
    for found in _JWK.finditer(text):
        if "kty" in text[max(0, found.start() - 6000) : found.end() + 6000]:
            yield Span(found.start("secret"), found.end("secret"), "private-key", found["secret"])
