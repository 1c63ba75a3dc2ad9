"""Bradley–Terry on battles that stay on disk."""
