"""What a user imports: functions that join the packages above and return results that a notebook shows."""
