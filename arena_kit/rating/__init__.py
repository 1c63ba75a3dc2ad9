"""Rating methods: pure functions of a `BattleLog`; a method is a frozen spec that you call."""
