"""What everything leans on and nothing here is about: files, random streams, processes, figures."""
