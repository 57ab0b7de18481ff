"""Whole trees of files: folders come in; their files go out page by page, in one form of path to compare by, or as
copies elsewhere. Nothing is deleted here."""
