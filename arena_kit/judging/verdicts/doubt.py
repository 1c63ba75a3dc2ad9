"""What makes a statement in a judge's text no verdict: quoted, denied, asked or only supposed."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field

_SENTENCE_END = re.compile(r"[.!?](?=[\s\"'”’)*]|$)|[。？！\n]")
_CLAUSE_END = re.compile(
    r"[,;，；—–(]|\s-\s|\b(?:but|so|therefore|thus|hence|however|because|since|yet|as|then)\b",
    re.IGNORECASE,
)
_FENCE = re.compile(
    r"^[ \t]*```[^\n`]*\n?(?P<inside>.*?)(?:^[ \t]*```|```|\Z)", re.DOTALL | re.MULTILINE
)
_QUOTED = re.compile(
    r"\"[^\"\n]*\"|“[^”\n]*”|«[^»\n]*»|「[^」\n]*」|`[^`\n]*`|^[ \t]*>[^\n]*"
    r"|(?<!\w)['‘][^'‘’\n]*['’](?!\w)",
    re.MULTILINE,
)
_SHORT_FENCE = 40
_INTRODUCTION = 300
_OPENING = ('"', "'", "`", "“", "‘", "«", "「", ">")
_GOES_ON = re.compile(r"[\"'`”’»」]|\s+(?!because\b|since\b|as\b)[a-z]")
#: Words that introduce an object as another's, and those that introduce the writer's own.
_SHOWN = re.compile(
    r"\b(?:contain(?:s|ed|ing)|include[sd]?|including|end(?:s|ed|ing) (?:with|in|by)"
    r"|output(?:s|ted)|append(?:s|ed)|add(?:s|ed)|embed(?:s|ded)|inject(?:s|ed)|there (?:is|was)"
    r"|says|said|claims|claimed|prints|printed|writes|wrote|written|insists|states|quotes|told"
    r"|reads|appears?|such as|the (?:form|format|template|text|prompt) (?:is|was|has|had)"
    r"|(?:response|assistant|answer|candidate|option)\s+(?:[ab12]|one|two)\s*[:：])",
    re.IGNORECASE,
)
_OWN = re.compile(
    r"\bmy\b|\b(?:here|this|below) (?:is|are)\b"
    r"|\b(?:verdict|judge?ment|evaluation|assessment|decision)\b(?: is)?\W*$",
    re.IGNORECASE,
)

#: Words before a statement, in its clause, that take it back or leave it open.
_DENIED = re.compile(
    r"\b(?:not|never|cannot|neither|nor|no|nobody|none|without|unable|hardly|barely|scarcely"
    r"|wrong|mistake|mistaken|incorrect|error|false|falsely|untrue|absurd|unfair|foolish|misleading"
    r"|refuse[sd]?|hesitate[sd]?|hard|difficult|impossible|reluctant|decline[sd]?|avoid|disagree"
    r"|deny|denies|doubt|doubts|tempting|tempted|almost|nearly|wanted|whether|instead|rather than"
    r"|might|may|could|or rather|or maybe|or perhaps|until|lest|before i|used to|at first|initially"
    r"|nicht|kein|не|ne|jamais|nunca)\b|n['’]t\b|[不没]\s*$",
    re.IGNORECASE,
)
#: Words that put what follows into another's mouth, across a colon, too.
_ATTRIBUTED = re.compile(
    r"\b(?:some|others|people|someone|somebody|many|users?|readers?|critics?|anyone|everyone"
    r"|says|said|claim(?:s|ed|ing)?|state[sd]|stating|argue[sd]|insist(?:s|ed)|thinks|believes"
    r"|writes|wrote|written|asks|asked|asking|assert(?:s|ed)|tells|told|telling|declare[sd]"
    r"|announce[sd]|instruct(?:s|ed|ing)|print(?:s|ed)|quote[sd]?|example|e\.g|supposed|allegedly"
    r"|seemingly|pretend\w*|reach(?:es|ed)?|arrives?|gives|gave)\b",
    re.IGNORECASE,
)
_OTHERS = re.compile(
    r"(?:\b(?:its|their|whose|his|her|your|correct|right|expected|reference)|['’]s)"
    r"(?:\s+\w+)?\s+$",
    re.IGNORECASE,
)
_EMPHASIS = re.compile(
    r"\b(?:no (?:doubt|question)|without (?:a |any )?(?:doubt|question)|not only)\b", re.IGNORECASE
)
_COMPLEMENT = re.compile(r"\bthat\s+$", re.IGNORECASE)
_SUPPOSED = re.compile(
    r"\b(?:if|unless|assuming|suppose|supposing|imagine|were it not|had it)\b"
    r"(?!\s+(?:i|we|one)\s+(?:had|have|must|were)\s+(?:to|forced)\b|\s+i\s+must\b|\s+any)",
    re.IGNORECASE,
)
_AFTER = re.compile(
    r"^[\"'”’*)\]]*\s*,?\s*(?:which|that|this|it)?\s*(?:would\s+be|would\s+have\s+been|is|was|are"
    r"|were|isn['’]t|wasn['’]t)\s+(?:\w+\s+)?"
    r"(?:wrong|false|untrue|incorrect|mistaken|mistake|lie|absurd|misleading|not|nonsense)\b"
    r"|\b(?:no,? wait|wait,|scratch that|correction|just kidding|on second thought|or rather"
    r"|or maybe|or perhaps|i disagree|i take that back)\b",
    re.IGNORECASE,
)
_TAKEN_BACK = re.compile(
    r"\W*(?:no(?=\s*[,.!;:—]|\s+(?:it|that|wait|way)\b)|not(?=\s*[.!]|\s+(?:really|at all)\b)"
    r"|nope\b|wrong\b|false\b|never\b|hardly\b|wait\b|i disagree\b|just kidding\b"
    r"|scratch that\b|(?:that|this|which)\s+(?:is|was|would be)\s+(?:\w+\s+)?"
    r"(?:wrong|false|incorrect|untrue|mistaken|nonsense)\b)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Doubts:
    """A text and where its sentences and quotations lie, so that statements can be doubted."""

    text: str
    _ends: list[int] = field(repr=False)
    _quoted: list[tuple[int, int]] = field(repr=False)

    @classmethod
    def about(cls, text: str) -> Doubts:
        """Doubts about what is stated in this text."""
        ends = [match.end() for match in _SENTENCE_END.finditer(text)]
        return cls(text, ends, [match.span() for match in _QUOTED.finditer(text)])

    def sentence(self, place: int) -> tuple[int, int]:
        """Where the sentence around a place begins and ends."""
        after = bisect_right(self._ends, place)
        start = self._ends[after - 1] if after else 0
        return start, self._ends[after] if after < len(self._ends) else len(self.text)

    def stated(self, start: int, core: tuple[int, int], end: int) -> bool:
        """Whether the statement between two places is the writer's own, and meant; `core` is
        the part that, inside a quotation, makes it another's.
        """
        sentence, _ = self.sentence(start)
        _, stop = self.sentence(core[1] - 1)
        before, after = _EMPHASIS.sub("", self.text[sentence:start]), self.text[end:stop]
        clause = _CLAUSE_END.split(before)[-1]
        denial = before if _COMPLEMENT.search(clause) else re.split("[:：]", clause)[-1]
        return not (
            any(first <= core[0] and core[1] <= last for first, last in self._quoted)
            or _DENIED.search(denial)
            or _ATTRIBUTED.search(clause)
            or _OTHERS.search(clause)
            or _SUPPOSED.search(before)
            or _SUPPOSED.search(after)
            or _AFTER.search(after)
            or after.rstrip("\n\"'”’*) ").endswith(("?", "？"))
            or _TAKEN_BACK.match(self.text[stop : stop + 60])
        )


def without_fences(text: str) -> str:
    """The text with blanks for fenced blocks, which show something; one around the whole text,
    or around one short line, only sets it apart.
    """
    whole = _FENCE.fullmatch(text.strip())
    if whole and "```" not in whole["inside"]:
        return whole["inside"]

    def blank(match: re.Match[str]) -> str:
        inside = match["inside"].strip()
        shown = len(inside) > _SHORT_FENCE or "\n" in inside
        return re.sub(r"[^\n]", " ", match[0]) if shown else match[0].replace("`", " ")

    return _FENCE.sub(blank, text)


def own_object(text: str, start: int, end: int) -> bool:
    """Whether a JSON object in a text is the writer's own verdict, not shown as another's."""
    for fence in _FENCE.finditer(text):
        if fence.start() < start < fence.end():
            if fence["inside"].strip() != text[start:end]:
                return False
            start, end = fence.span()
            break
    before = text[max(0, start - _INTRODUCTION) : start].rstrip(" \t")
    after = text[end : end + _INTRODUCTION].split("\n", 1)[0]
    if before.endswith(_OPENING) or _GOES_ON.match(after):
        return False
    if before.endswith("\n") and not before.rstrip().endswith((":", "：")):
        return True  # a line of its own that nothing introduces
    sentence = re.split(r"[.!?}](?=\s|$)|[。？！]|\n", before.rstrip())[-1]
    clause = _CLAUSE_END.split(sentence)[-1]
    doubted = _DENIED.search(clause) or _ATTRIBUTED.search(clause)
    return not (_SHOWN.search(clause) or (doubted and not _OWN.search(sentence)))
