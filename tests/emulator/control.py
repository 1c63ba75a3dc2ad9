"""Control over HTTP, for tests that live in another process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from tests.emulator.app import App
from tests.emulator.faults import Fault
from tests.emulator.records import Batch


class Control:
    """What can be read and set under /_emulator/; needs no credential."""

    def __init__(self, app: App, log: Callable[[], list[Any]], reset: Callable[[], None]) -> None:
        self._app = app
        self._log = log
        self._reset = reset

    def read(self, name: str) -> object:
        """What GET /_emulator/{name} shows."""
        match name:
            case "billing":
                return [row.as_dict() for row in self._app.billing.rows]
            case "accepted":
                return [row._asdict() for row in self._app.billing.accepted]
            case "log":
                return [asdict(row) for row in self._log()]
            case "batches":
                return snapshots(self._app)
            case "concurrency":
                return {"max_seen_concurrency": self._app.max_seen_concurrency}
            case _:
                raise ValueError(f"nothing to read at {name!r}")

    def write(self, name: str, body: Any) -> object:
        """What POST /_emulator/{name} does."""
        match name:
            case "faults":
                faults = [Fault(**f) for f in (body if isinstance(body, list) else [body])]
                self._app.faults.add(*faults)
                return {"added": len(faults)}
            case "clock":
                self._app.clock.advance(**(body or {}))
                return {"now": self._app.clock.now().isoformat()}
            case "settings":
                self._app.settings.update(body)
                if "speed" in body:
                    self._app.clock.speed = body["speed"]
                return {"changed": sorted(body)}
            case "reset":
                self._reset()
                return {"reset": True}
            case _:
                raise ValueError(f"nothing to set at {name!r}")


def snapshots(app: App) -> list[dict[str, object]]:
    """Every batch with its custom_ids, as the service knows it; looking ends none."""
    with app.lock:
        return [_snapshot(app, batch) for batch in app.batches.all()]


def _snapshot(app: App, batch: Batch) -> dict[str, object]:
    ids = [item.custom_id for item in batch.items]
    return app.batches.describe(batch, "") | {"custom_ids": ids}
