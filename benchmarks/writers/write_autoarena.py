"""A project with people's votes as AutoArena writes it, and its dump as SQL."""

import re
import sqlite3
import sys
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from unittest.mock import MagicMock

import pandas as pd

#: SDKs of judges, which AutoArena imports and this does not use; they would bring torch along.
_SDKS = ("anthropic", "boto3", "botocore", "cohere", "google", "google.generativeai", "httpx",
         "ollama", "openai", "together", "torch", "transformers")  # fmt: skip
sys.modules.update({name: MagicMock() for name in _SDKS})
from autoarena.api import api  # noqa: E402
from autoarena.service.head_to_head import HeadToHeadService  # noqa: E402
from autoarena.service.judge import JudgeService  # noqa: E402
from autoarena.service.model import ModelService  # noqa: E402
from autoarena.service.project import ProjectService  # noqa: E402
from autoarena.store.database import DataDirectoryProvider  # noqa: E402

OUT = Path(sys.argv[1])
DataDirectoryProvider.set(OUT / "data")
project = ProjectService.create_idempotent(api.CreateProjectRequest(name="project"))
for model in ("x", "y"):
    answers = pd.DataFrame({"prompt": ["Why?", "How?"], "response": [f"{model} 1", f"{model} 2"]})
    ModelService.upload_responses(project.slug, model, answers)
JudgeService.create_human_judge(project.slug, "people")
judge = next(each for each in JudgeService.get_all(project.slug) if each.name == "people")
votes = {"response_a_id": [1, 2], "response_b_id": [3, 4], "winner": ["A", "-"]}
HeadToHeadService.upload_head_to_heads(project.slug, pd.DataFrame(votes).assign(judge_id=judge.id))
with closing(sqlite3.connect(project.filepath)) as database:
    dump = "\n".join(line for line in database.iterdump() if "sqlite_sequence" not in line)
plain = re.sub(r" *--.*", "", dump)
(OUT / f"autoarena-{version('autoarena')}.sql").write_text(plain + "\n")
