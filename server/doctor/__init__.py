"""`ansorpy doctor`: what this machine has, what is missing, and how to get it."""
