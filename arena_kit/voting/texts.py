"""What voters are shown: the prompts of a tournament and its entrants' responses to them."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from arena_kit.files import DataError
from arena_kit.judging.pairs.prompts import read_prompts, read_responses
from arena_kit.runs.record.inputs import tournament_inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class ArenaTexts:
    """Prompts and responses by id, and what is known of the models that wrote them.

    `models` are those that may be matched. `providers` says whose a model is, where that is
    known; `private` are models that are matched but published nowhere else, `withdrawn` such as
    are matched no more.
    """

    name: str
    models: tuple[str, ...]
    prompts: Mapping[str, str] = field(repr=False)
    responses: Mapping[tuple[str, str], str] = field(repr=False)
    providers: Mapping[str, str] = field(default_factory=dict)
    private: tuple[str, ...] = ()
    withdrawn: tuple[str, ...] = ()

    @classmethod
    def of_tournament(cls, path: Path, root: Path = Path()) -> Self:
        """The texts of a tournament file, or of a run's record that kept them."""
        file, files = tournament_inputs(path, root)
        bank = read_prompts(files.prompts)
        prompts = {prompt.prompt_id: prompt.text for prompt in bank}
        models = tuple(name for name in file.entrants if name not in file.arena.withdrawn)
        kept = read_responses(files.responses, models, prompts)
        return cls(
            name=file.name,
            models=models,
            prompts=prompts,
            responses={key: response.response_text for key, response in kept.items()},
            providers=file.arena.providers,
            private=tuple(file.arena.private),
            withdrawn=tuple(file.arena.withdrawn),
        )

    def __post_init__(self) -> None:
        if len(self.models) < 2:
            raise DataError(f"an arena needs two models or more, not {len(self.models)}")

    @property
    def digest(self) -> str:
        """Hash of all that can be shown: of its JSON text, which `json.dumps` would take twice as
        long to write.
        """
        quoted = json.encoder.encode_basestring_ascii
        prompts = [f"[{quoted(key)}, {quoted(self.prompts[key])}]" for key in sorted(self.prompts)]
        responses = [
            f"[[{quoted(model)}, {quoted(prompt)}], {quoted(self.responses[model, prompt])}]"
            for model, prompt in sorted(self.responses)
        ]
        text = f"[[{', '.join(prompts)}], [{', '.join(responses)}]]"
        return hashlib.sha256(text.encode()).hexdigest()

    def available(self) -> NDArray[np.bool_]:
        """Whether there is a response: a row per model and a column per prompt."""
        row = {model: n for n, model in enumerate(self.models)}
        column = {prompt: n for n, prompt in enumerate(self.prompts)}
        place = [(row.get(model, -1), column.get(prompt, -1)) for model, prompt in self.responses]
        i, j = (np.fromiter(map(itemgetter(side), place), np.intp, len(place)) for side in (0, 1))
        known = (i >= 0) & (j >= 0)
        available = np.zeros((len(row), len(column)), bool)
        available[i[known], j[known]] = True
        return available

    def shown(self, prompt: str, left: str, right: str) -> tuple[str, str, str] | None:
        """The prompt and the responses of two models, None where one of them is gone."""
        if prompt not in self.prompts or not {left, right} <= {*self.models}:
            return None
        first, second = self.responses.get((left, prompt)), self.responses.get((right, prompt))
        return None if first is None or second is None else (self.prompts[prompt], first, second)

    def digest_now(self, prompt: str, left: str, right: str) -> str | None:
        """The digest of what is shown now, None where it is gone."""
        texts = self.shown(prompt, left, right)
        return texts and hashlib.sha256(json.dumps(texts).encode()).hexdigest()
