"""Prompts, responses, and the pairs made of them."""
