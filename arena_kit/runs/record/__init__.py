"""The run record: written, opened, compared, exported."""
