"""Spine of whole models: passes, partition, tuning, bundle, verification, race.

compile.py      the spine: a graph becomes a verified bundle; request.py: the request,
                compilation.py: its state so far, mend.py: slow tasks are timed in pieces
tasks.py        groups with equal Dags are one task; assemble.py: libraries become a bundle's plan
verify.py       a bundle against an oracle: oracles.py chooses one, answers.py runs it,
                check_inputs.py draws its inputs, check_bounds.py tells how far a result may be off
entry.py        `ansorpy.tune`, for models and for all other kinds
api.py          progress and a bundle for people; options.py, events.py, progress.py, explain.py
torch_compile.py  `ansorpy.compile`: a module of PyTorch; torch_module.py: the callable
torch_backend.py  the backend of `torch.compile`; torch_split.py: parts around refused calls
race.py         a bundle against other runtimes, in turns; contestant.py: one of them
"""
