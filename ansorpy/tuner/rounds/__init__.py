"""Set-up and rounds of a tuning: scheduler, state of the search, preflight.

object         exists from            owns
`Setup`        the request on         rules, tasks, sources, store and journal; none is replaced
`Task`         the set-up on          space, history and queue of a workload (`tasks.task`)
`Context`      opened pools on        cost model, pools, time budget and deliveries
`Deliveries`   the context on         first answers, races and written kernels (`delivery`)
`SearchState`  the first round on     scheduler, random numbers, stop criteria: a checkpoint
`SearchView`   one proposal           nothing: a strategy reads the task through it
"""
