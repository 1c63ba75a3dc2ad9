"""Whether current versions of other tools write what we read, and take what we write.

Each tool gets an environment of its own under .venv/interop, writes files by its own code
(`benchmarks/writers`), and `tests/battles/test_interop.py` reads them; the validator of
every_eval_ever checks our export. `--keep` renews the copies in tests/cases/interop.

    python benchmarks/interop.py [--keep]
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WRITERS = ROOT / "benchmarks" / "writers"
COPIES = ROOT / "tests" / "cases" / "interop"
#: What each environment needs. lm_eval and AutoArena run here without torch, and AutoArena without
#: the SDKs of its judges, so that no dependency of theirs is taken that the writer does not use.
TOOLS = {
    "inspect_ai": [["inspect_ai"]],
    "lm_eval": [["lm_eval"]],
    "autoarena": [
        ["--no-deps", "--pre", "autoarena"],
        ["fastapi<1", "loguru<1", "pandas<3", "pyarrow", "python-multipart", "pytimeparse",
         "tenacity<10", "uvicorn<1"],
    ],
    "evalica": [["evalica", "pandas"]],
}  # fmt: skip
_OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
_VOTES = "model_a,model_b,winner\nx,y,model_a\nx,y,model_b\nx,y,model_a\ny,z,tie\nx,z,model_a\n"


def environment(name: str, installs: list[list[str]], python: str = sys.executable) -> Path:
    """The interpreter of a tool's environment, which is made where it is missing."""
    folder = ROOT / ".venv" / "interop" / name
    own = folder / "bin" / "python"
    if not own.exists():
        subprocess.run([python, "-m", "venv", folder], check=True)
    pip = [own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade"]
    for words in installs:
        subprocess.run([*pip, *words], check=True)
    return own


def newer_python() -> str | None:
    """A Python of 3.12 or later, which every_eval_ever needs."""
    names = ("python3.14", "python3.13", "python3.12")
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    some = [sys.executable, *filter(None, map(shutil.which, names))]
    for each in [*some, *map(str, sorted(pyenv.glob("3.*/bin/python")))]:
        recent = "import sys; sys.exit(sys.version_info < (3, 12))"
        if subprocess.run([each, "-c", recent], capture_output=True, check=False).returncode == 0:
            return each
    return None


def write_all(folder: Path) -> None:
    """Let every tool write its files."""
    for name, installs in TOOLS.items():
        print(f"{name}: installing and writing", flush=True)
        own, out = environment(name, installs), folder / name
        out.mkdir()
        writer = [own, WRITERS / f"write_{name}.py", out]
        subprocess.run(writer, cwd=out, env=os.environ | _OFFLINE, check=True)
        for file in out.glob(f"{name}-*"):
            file.rename(folder / file.name)


def validate_export(folder: Path) -> int:
    """The exit code of every_eval_ever's validator on our export: 0 is merge-ready."""
    if (python := newer_python()) is None:
        print("every_eval_ever: not checked, it needs Python 3.12 or later")
        return 1
    own = environment("every_eval_ever", [["every_eval_ever"]], python)
    (folder / "votes.csv").write_text(_VOTES)
    words = ["runs", "export", "votes.csv", "--to", "every-eval-ever", "--out", "data"]
    words += ["--organization", "Lab", "--relationship", "third_party", "--developer", "acme"]
    subprocess.run([sys.executable, "-m", "arena_kit", *words], cwd=folder, check=True)
    validator = [own.with_name("every_eval_ever"), "validate", "data/*/*/*/*.json"]
    return subprocess.run(validator, cwd=folder, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="renew the copies of CI")
    keep = parser.parse_args().keep
    with tempfile.TemporaryDirectory(prefix="arena-kit-interop-") as name:
        folder = Path(name)
        write_all(folder)
        test = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            ROOT / "tests" / "battles" / "test_interop.py",
        ]
        fresh = os.environ | {"ARENA_KIT_INTEROP": name}
        failed = subprocess.run(test, cwd=ROOT, env=fresh, check=False).returncode
        failed = validate_export(folder) or failed
        if keep and not failed:
            shutil.rmtree(COPIES, ignore_errors=True)
            COPIES.mkdir(parents=True)
            for file in folder.glob("*-*"):
                shutil.copy(file, COPIES / file.name)
    return failed


if __name__ == "__main__":
    sys.exit(main())
