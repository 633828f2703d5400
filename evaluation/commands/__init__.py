"""One file for each command: arguments, one function call, output, exit code.

In: words of the command line. Out: files, lines, an exit code. Only this room prints, reads the environment and exits;
no other room imports it. ``main.py`` lists the commands and turns every error into its last line and exit code.
"""
