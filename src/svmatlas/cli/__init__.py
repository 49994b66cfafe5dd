"""The command line, and the files of data that it reads."""
