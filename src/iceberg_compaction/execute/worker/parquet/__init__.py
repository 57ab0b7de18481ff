"""Parquet files as bytes: footers taken apart, and new files made of row groups that other files hold already."""
