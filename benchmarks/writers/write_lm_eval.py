"""Samples as lm_eval writes them, of a task with two questions and a model that always says 2."""

import json
import sys
from importlib.metadata import version
from pathlib import Path

import lm_eval
from lm_eval.api.model import LM
from lm_eval.loggers import EvaluationTracker

OUT = Path(sys.argv[1])


class Two(LM):
    """A model without weights."""

    def loglikelihood(self, requests: list) -> list:
        return [(-1.0, False) for _ in requests]

    loglikelihood_rolling = loglikelihood

    def generate_until(self, requests: list) -> list[str]:
        return ["2" for _ in requests]


rows = [{"question": f"What is {n} + {n}?", "answer": str(2 * n)} for n in (1, 2)]
(OUT / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
task = {
    "task": "sums",
    "dataset_path": "json",
    "dataset_kwargs": {"data_files": {"test": str(OUT / "sums.jsonl")}},
    "test_split": "test",
    "output_type": "generate_until",
    "doc_to_text": "{{question}}",
    "doc_to_target": "{{answer}}",
    "generation_kwargs": {"until": ["\n"]},
    "metric_list": [{"metric": "exact_match"}],
}
tracker = EvaluationTracker(output_path=str(OUT / "lm"))
results = lm_eval.simple_evaluate(
    model=Two(), tasks=[task], log_samples=True, bootstrap_iters=0, evaluation_tracker=tracker
)
samples = results.pop("samples")
tracker.save_results_aggregated(results=results, samples=samples)
for name, each in samples.items():
    tracker.save_results_samples(task_name=name, samples=each)
(written,) = (OUT / "lm").rglob("samples_*.jsonl")
written.rename(OUT / f"lm_eval-{version('lm_eval')}.jsonl")
