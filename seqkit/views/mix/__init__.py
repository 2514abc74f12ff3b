"""`mix`, and the schedules that say which sequence each item is from."""
