"""Logs as inspect_ai writes them: one with answers, one in which samples ended in an error."""

import sys
from pathlib import Path

from inspect_ai import Task, __version__, eval  # noqa: A004 (Inspect's own name)
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog, write_eval_log
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import match
from inspect_ai.solver import Generate, Solver, TaskState, solver

OUT = Path(sys.argv[1])


@solver
def adds(fails: list[int]) -> Solver:
    """Answer without a model, which would ask the network for a tokenizer."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001
        if state.sample_id in fails:
            raise RuntimeError("no answer today")
        state.output = ModelOutput.from_content("mockllm/model", str(2 * int(state.sample_id)))
        return state

    return solve


def run(fails: list[int]) -> EvalLog:
    data = [Sample(id=n, input=f"What is {n} + {n}?", target=str(2 * n)) for n in (1, 2)]
    task = Task(name="sums", dataset=data, solver=adds(fails), scorer=match())
    folder = str(OUT / "logs")
    (log,) = eval(task, "mockllm/model", log_dir=folder, fail_on_error=False, display="none")
    for sample in log.samples or []:
        sample.events = []  # which are most of a log
        if sample.error:  # whose traceback names this machine's folders
            sample.error.traceback = sample.error.traceback_ansi = ""
    return log


for fails, name in (([], ".eval"), ([2], "-errors.json"), ([1, 2], "-only-errors.json")):
    write_eval_log(run(fails), str(OUT / f"inspect_ai-{__version__}{name}"))
