"""Decides which snapshots a table keeps. Facts and wishes come in, a choice with reasons goes out."""
