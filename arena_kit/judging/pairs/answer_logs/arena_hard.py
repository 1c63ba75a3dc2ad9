"""Answers of Arena-Hard-Auto (2.0): `model_answer/<model>.jsonl`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from arena_kit.files import DataError, read_lines
from arena_kit.judging.pairs.answer_logs.answer import (
    Answer,
    content_text,
    conversation_text,
    digest_of,
    safe_id,
)
from arena_kit.judging.pairs.answer_logs.lm_eval import first_row


class ArenaHardAnswers:
    """One model's answers to the questions of the benchmark."""

    title = "Arena-Hard answers"
    follows = "arena-hard-auto 2.0, gen_answer.py"

    def recognises(self, path: Path) -> bool:
        return path.suffix == ".jsonl" and {"uid", "model", "messages"} <= first_row(path).keys()

    def answers(self, path: Path, entrant: str, left_out: Counter[str]) -> Iterator[Answer]:
        for line, row in read_lines(path):
            place = f"{path}:{line}"
            try:
                *asked, answer = row["messages"]
                content = answer["content"]
                text = content["answer"] if isinstance(content, dict) else content_text(content)
                prompt = conversation_text(asked)
                uid, model = str(row["uid"]), str(row["model"])
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise DataError(f"{place}: not an answer of Arena-Hard ({error!r})") from None
            if not prompt or not isinstance(text, str):
                left_out["answers whose prompt or text is not text"] += 1
                continue
            yield Answer(
                task="arena-hard",
                sample=uid,
                model=entrant or safe_id(model),
                prompt=prompt,
                text=text,
                same=digest_of(prompt),
                place=place,
            )
