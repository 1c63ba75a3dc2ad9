"""A judge that follows a script: for tests, demonstrations and failure drills."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from arena_kit.judging.records import Answer, JudgeRequest, Status

Script = Callable[[JudgeRequest], str | Status | None]


@dataclass(slots=True)
class ScriptedJudge:
    """Answers with whatever `script` returns for a request.

    A string is the raw text of an answer, a `Status` an answer that failed that way, and
    None no answer at all. `asked` lists the ids of every request, in order.
    """

    script: Script
    model: str = "scripted/v1"
    settings: Mapping[str, object] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def answer(self, request: JudgeRequest) -> Answer | None:
        self.asked.append(request.request_id)
        reply = self.script(request)
        if reply is None:
            return None
        return Answer(
            request_id=request.request_id,
            status=reply if isinstance(reply, Status) else Status.OK,
            text="" if isinstance(reply, Status) else reply,
            served_model=self.model,
        )
