"""The leaderboard, the weekly validity report and the model pages: pure functions of battles."""
