"""Catalogs of PyIceberg that need more than it gives them: properties come in, safer or more patient clients go out."""
