"""Screens of housekeeping. In: plans and outcomes. Out: tables and sentences."""
