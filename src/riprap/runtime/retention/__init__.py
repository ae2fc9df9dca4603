"""What happens to items that a consumer may need again: one file for each kind of retention."""
