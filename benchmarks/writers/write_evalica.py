"""Comparisons as evalica reads them, and what it makes of them."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

name = f"evalica-{version('evalica')}"
battles, scores = (Path(sys.argv[1]) / f"{name}{suffix}" for suffix in (".csv", "-scores.csv"))
outcomes = {
    ("x", "y"): "left left left right tie",
    ("y", "z"): "left left right",
    ("x", "z"): "tie left",
}
rows = [f"{a},{b},{winner}" for (a, b), each in outcomes.items() for winner in each.split()]
battles.write_text("\n".join(["left,right,winner", *rows]) + "\n")
command = ["-m", "evalica", "-i", str(battles), "-o", str(scores), "pairwise", "bradley-terry"]
subprocess.run([sys.executable, *command], check=True)
