"""How an assignment is written: its separators, quotes and bare values, in all the syntaxes that are known here."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .names import LONGEST, SecretName

LONGEST_ESCAPED = 20_000
NAME_CHARS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_COLOUR = r"(?:\x1b\[[0-9;]{0,12}m){0,4}"
_BLANK = "[ \\t\u00a0\u3000\u200b\u200c\u200d\u2060\ufeff]"
"""Also those that nobody sees: the no-break space, characters without a width."""
QUOTE = r"""(?:\\{0,15}["'`]|&(?:amp;)?(?:quot|apos|\#3[49]|\#x2[27]);|%(?:25)?2[27])"""
"""One as it is, escaped in JSON, in HTML, in a URL."""
_ESCAPED_COLON = r"%(?:25)?3[ADad](?:(?:\+|%(?:25)?20){1,3}(?=%(?:25)?2[27]))?"
"""Or equal sign, and the blanks between it and a quote."""
_ANNOTATION = r"(?:str|[A-Z]\w{1,20})(?:\[\w{1,20}\])?(?:[ ]\|[ ]None)?"
SEPARATOR = re.compile(
    rf"""(?P<close>{QUOTE})? (?:\*\*)? {_COLOUR} [\])]? (?:\.{{2,60}})? {_BLANK}{{0,60}} {_COLOUR}
    (?: (?: (?:provided|supplied|given|used|received|found|is|was) [ ]? (?=:[ ]) )?
        (?P<op> {_ESCAPED_COLON} | => | -> | → | [:?]= | =(?!=) | ==(?=[ ]?["']) | \??:(?![:/]) | ：| ＝ )
        (?: [ \t]{{0,4}} {_ANNOTATION} [ ]?=)?
      | (?P<table> [|│] (?=[ ]) )
      | (?P<comma> , (?=\s{{0,4}}{QUOTE}) )
      | (?P<call> \( (?=\s{{0,4}}[rbuf]?\\{{0,15}}["']) )
      | (?P<is> (?<=[ ]) (?:is|was|to) (?=[ ]) )
      | (?P<nul> \x00 | \\u0000 | \\x00 )
      | (?P<tag> > )
      | (?P<space> (?<=[ \t\u00a0]) (?:[\\^`]\r?\n)? )
    ) (?:\*\*(?=[ ]))? {_BLANK}{{0,60}} {_COLOUR} (?:(?<=:[ ])[&!][\w!./-]{{1,40}}[ ]{{1,4}})?""",
    re.X,
)
OPENING = re.compile(
    rf"""(?:\w{{0,30}}[sS]ecret(?:Str|Bytes|Value)?\(|Some\(|String::from\(|\(?ConvertTo-SecureString[ ](?:-String[ ])?
    |(?:\w{{1,20}}\.)?[fF]ield\((?:\.\.\.,[ ]?)?default[ ]?=[ ]?)?[bBrRuUfF]{{0,2}}({QUOTE})""",
    re.X,
)
_STRING = {q: re.compile(rf"(?:[^{q}\\\n\x00]|\\.)*") for q in "\"'`"}
_ESCAPE = r"""\\(?![nrtu"'\\0]|x00|x1b)|\\u(?!0000|001[bB])[0-9a-fA-F]{4}"""
BARE = re.compile(rf"""(?:[^\s"'`<>;\\\x00\x1b]|{_ESCAPE})+""")
_BARE_QUERY = re.compile(rf"""(?:[^\s"'`<>;&#\\\x00\x1b]|{_ESCAPE})+""")
TRAILING = re.compile(r",(?=\s|$|[\w.-]{1,60}[=:])|&&|&$|[)\]}.,:!?|]+$")
_JSON_BOUNDARY = re.compile(r"""(?<!\\)"\s*[,:}\]]""")
"""An apostrophe was taken for an opening quote: what follows runs beyond the JSON string it stands in."""
JSON_BETWEEN = re.compile(r"\s*[,:}\]](?:[\s,:{}\[\]0-9.+-]|true|false|null)*")
"""What stands between two JSON strings: the quote before it closed one."""
_BREAK = re.compile(r"""[\n\x00]|(?<!\\)\"""")
REST_OF_HEADER = re.compile(r"""[^\n\r\x00\x1b"']{0,8000}""")
_REST_OF_LINE = re.compile(r"[^\n\r\x00\x1b]*")


@dataclass(frozen=True)
class Name:
    """A name found in the text, and what it promises."""

    start: int
    end: int
    text: str
    promise: SecretName

    @property
    def is_option(self) -> bool:
        return self.text.startswith("-")


def end_of_string(text: str, opening: re.Match[str]) -> int | None:
    """Where the string's closing quote stands, on the same line; None: it is not closed."""
    quote = opening[1]
    if len(quote) == 1:
        body = _STRING[quote].match(text, opening.end())
        end = body.end() if body else opening.end()
        closed = text[end : end + 1] == quote
        return end if closed and (quote == '"' or not _JSON_BOUNDARY.search(text, opening.end(), end)) else None
    limit = opening.end() + LONGEST_ESCAPED
    end = text.find(quote, opening.end(), limit)
    while end > 0 and text[end - 1] == "\\":  # a deeper level's quote
        end = text.find(quote, end + len(quote), limit)
    return end if end >= 0 and not _BREAK.search(text, opening.end(), end) else None


def end_of_bare(text: str, name: Name, separator: re.Match[str], start: int) -> int:
    """Where a value without quotes ends."""
    before = text[name.start - 1] if name.start else "\n"
    if before in "\n\0" and separator["op"] == "=" and not separator["close"]:
        line = _REST_OF_LINE.match(text, start)
        if line and (before == "\0" or not re.search(r"\s", line[0])):
            return _before_backslash(text, start, line.end() - 2 * line[0].endswith(("\\n", "\\r")))
    if separator["op"] and separator["op"][0] == "%":
        piece = _BARE_ESCAPED.match(text, start)
        return piece.end() if piece else start
    if name.promise.kind == "password" and text[start : start + 1] == "<" and not separator["tag"]:
        tag = _LIKE_A_TAG.match(text, start)
        return tag.end() if tag else start
    if separator["nul"] == "\0":
        line = _REST_OF_LINE.match(text, start)
        return line.end() if line else start
    in_url = before in "?&" or (before == "#" and text[max(0, name.start - 2)] not in "#\n\t ")
    bare = (_BARE_QUERY if in_url else BARE).match(text, start)
    if not bare:
        return start
    end = _before_backslash(text, start, bare.end())
    cut = TRAILING.search(text[start:end])
    return start + cut.start() if cut else end


def _before_backslash(text: str, start: int, end: int) -> int:
    """Without the backslash that a shell takes for "goes on below"."""
    goes_on = end - start > 1 and text[end - 1] == "\\" and text[end : end + 1] in ("\n", "\r", "")
    return end - 1 if goes_on else end


_LIKE_A_TAG = re.compile(r"<\w{8,100}>(?!\S)")
_BARE_ESCAPED = re.compile(r"(?:[\w.~+/=*-]|%(?!26|0[aAdD]|2[02Cc]|3[Bb]|7[Dd])[0-9a-fA-F]{2})+", re.ASCII)


def indentation(text: str, at: int) -> int:
    """How many blanks begin the line of `at`."""
    line = text[max(text.rfind("\n", max(0, at - LONGEST), at) + 1, at - LONGEST, 0) : at]
    return len(line) - len(line.lstrip(" \t"))
