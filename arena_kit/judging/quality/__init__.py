"""How good a judge is: one module per kind of measure, and `judge`, which takes them together."""
