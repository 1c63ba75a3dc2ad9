"""A judged model placed among models that people voted on."""
