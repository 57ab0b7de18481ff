"""Turns results of tasks into groups. In: a plan, and results of its tasks in any order. Out: complete groups whose
proof holds, and the reasons of those that failed. It may know the door of the engine and the vocabulary."""
