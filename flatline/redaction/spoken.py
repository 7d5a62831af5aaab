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
    (("uth(", "uth=(", "uth: ("), LazyPattern(
        r"""(?:\bauth|basic_auth|(?:Basic|Digest|Proxy)Auth)[ ]?[=:]?[ ]?\(\s{0,9}"""
        r"""(?:\w{1,20}=)?["'][^"'\n]{1,100}["'][ ]?,[ ]?"""
        r"""(?:\w{1,20}=)?["'](?P<secret>[^"'\n]{1,200})["']""")),
    (("Fernet(",), LazyPattern(r"""\bFernet\([bu]?["'](?P<secret>[\w=+/-]{32,200})["']""")),
    (("jwt.",), LazyPattern(r"""\bjwt\.(?:en|de)code\([^,\n]{1,200},[ ]?b?["'](?P<secret>[^"'\n]{6,400})["']""")),
    (("word for ", "hrase for "), LazyPattern(
        r"""(?i:password|passphrase)[ ]for[ ](?:'[^'\n]{1,200}'|[^\s:]{1,100}):[ ](?P<secret>[^\s'"]{4,200})""")),
    (("-stdin", "with-token"), LazyPattern(
        r"""\becho[ ](?:-n[ ])?["']?(?P<secret>[^\s"'|$`]{6,400})["']?[ ]?\|[^\n|]{1,200}?(?:-stdin|--with-token)""")),
    (("sudo -", "sudo  -"), LazyPattern(
        r"""\b(?:echo|printf)[ ](?:-\w{1,3}[ ])?["']?(?P<secret>[^\s"'|$`\\]{4,400})(?:\\n)?["']?[ ]?"""
        r"""\|[ ]?sudo[ ]+(?:-[A-Za-z]{1,9}[ ]+){0,4}(?:-[A-Za-z]{0,9}S|--stdin)\b""")),
    (("fs.azure.", "fs.s3a."), LazyPattern(
        r"""\bfs\.(?:azure\.(?:account\.(?:key|oauth2\.client\.secret)|sas)|s3a\.(?:bucket\.[\w.-]{1,60}\.)?secret\.key)"""
        r"""(?:\.[\w-]{1,80}){0,9}["']?(?:</name>\s{0,80}<value>|[ ]?[=:,][ ]?|[ ])["']?"""
        r"""(?P<secret>[\w+/=%.-]{16,400})""")),
    (("my pass", "My pass", "my pwd", "My pwd"), LazyPattern(
        r"""\b[Mm]y[ ](?:passw(?:or)?d|passphrase|pwd)[ ]is[ ]["'`]?"""
        r"""(?P<secret>(?!(?:not?|now|the|wrong|right|correct|being|too|set|same|still|safe|very|also|invalid|weak|strong)\b"""
        r"""|\w{1,20}ed\b)[^\s"'`]{4,200}?)["'`]?(?=[.,;!?)]{0,2}(?:\s*$|\n|[.,;!?)][ ]))""", re.M)),
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
    (("oken '", 'oken "', "oken `", "ecret '", 'ecret "', "ecret `", 'oken \\"'), LazyPattern(
        r"""\b(?:[Tt]oken|[Ss]ecret)[ ](?P<quote>\\{0,3}["'`])(?P<secret>[\w+/=.~-]{16,400})(?P=quote)""")),
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


_KAGGLE_KEY = r"""\\{0,8}"key\\{0,8}"\s{0,9}:\s{0,9}\\{0,8}"(?P<secret>[0-9a-f]{32})\\{0,8}\""""
_KAGGLE_USER = r"""\\{0,8}"username\\{0,8}"\s{0,9}:\s{0,9}\\{0,8}"[^"\\\n]{1,100}\\{0,8}\""""
KAGGLE_KEY = re.compile(_KAGGLE_KEY)
_BETWEEN = r"\s{0,9},\s{0,200}"
_KAGGLE = LazyPattern(
    f"{_KAGGLE_USER}{_BETWEEN}{_KAGGLE_KEY}|{_KAGGLE_KEY.replace('secret', 'first')}{_BETWEEN}{_KAGGLE_USER}"
)


def find_kaggle_key(text: str) -> Iterator[Span]:
    """``{"username": "bob", "key": "…"}``, as kaggle.json has it: beside no user, a key of 32 digits is a hash."""
    if "username" not in text or ('"key' not in text and 'key\\"' not in text):
        return
    for found in _KAGGLE.finditer(text):
        group = "secret" if found["secret"] else "first"
        yield Span(*found.span(group), "api-key", found[group])


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
