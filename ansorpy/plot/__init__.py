"""Pictures of a task's trials: figures of matplotlib, and the card of a notebook.

`subject` holds the data, `canvas` is the door to matplotlib, `draw` chooses; every kind of picture
has a module. They are imported when they are drawn.
"""
