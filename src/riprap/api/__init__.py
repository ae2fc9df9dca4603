"""The functions that users import. Their results display themselves in notebooks."""
