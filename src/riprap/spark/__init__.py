"""The only package that imports pyspark: the session, bounded jobs, the data source."""
