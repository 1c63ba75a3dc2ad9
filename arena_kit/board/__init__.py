"""The leaderboard and the weekly validity report: pure functions of battles and a policy."""
