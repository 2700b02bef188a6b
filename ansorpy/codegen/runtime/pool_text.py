"""A pool of POSIX threads as LLVM IR: its helpers run tasks beside the thread that calls a kernel.

    void pool_start(ansorpy_pool *memory, int32_t threads)    POOL_BYTES bytes, 64-byte aligned
    void pool_stop(ansorpy_pool *pool)                        ends and joins the helpers

`pool->run` publishes one job: a task function, its context, and a range of tasks per thread, equal
shares in the order of the tasks. So a thread finds in its own cache the rows that it wrote in the
job before, if both jobs run over the same rows. A thread takes tasks from the front of its range;
if that is empty, it moves the upper half of another thread's range into its own (work stealing).
A helper *enters* a job through the gate, one atomic word of {generation, open, entrants}; the
caller closes the gate when it finds all ranges empty, and waits for the helpers that entered. So a
helper that wakes late, was never created, or is gone (after a fork) costs time only: the caller
runs the tasks itself.

A helper without a job spins for a while, then sleeps; a caller likewise waits for entrants. After
FIRM pauses either lets other threads have its processor now and then: if the two share one, because
other programs hold the rest, a thread that spins would keep the other from its tasks. If two
threads call at once, one job has the pool, and the other caller runs its tasks on its own thread;
so a task may call a kernel on the same pool.
"""

from typing import Final

MOST_THREADS: Final = 256
SPINS: Final = 20_000  # pauses before a thread sleeps: 0.3 to 1 ms at 45 to 140 cycles, 3 GHz
FIRM: Final = 2_048  # pauses before other threads may have the processor: 30 to 100 us
YIELD_EVERY: Final = 64  # from then on, after as many pauses each; a power of two
OPEN: Final = 1 << 16  # bit of the gate; below it the number of entrants, above it the generation
ENTRANTS: Final = OPEN - 1
GENERATION: Final = OPEN << 1
END: Final = 32  # bit of a range: below it the first task, from it on the task after the last

# Offsets in bytes; words that different threads write lie in different cache lines. The first
# word is the public interface.
RUN_AT: Final = 0
HELPERS_AT: Final = 8
GATE_AT: Final = 64
BORN_AT: Final = 128  # number of helpers that have begun
FUNCTION_AT: Final = 192
CONTEXT_AT: Final = 200
BUSY_AT: Final = 256
SLEEPERS_AT: Final = 320
STOP_AT: Final = 328
WAITING_AT: Final = 336  # 1 while the caller sleeps until the last entrant leaves
MUTEX_AT: Final = 384  # pthread_mutex_t and pthread_cond_t take at most 48 bytes on Linux
JOBS_AT: Final = 448  # condition: a job was published, or the pool stops
LEFT_AT: Final = 512  # condition: the last entrant left
HANDLES_AT: Final = 576
RANGES_AT: Final = HANDLES_AT + 8 * MOST_THREADS  # the caller's range, then the helpers' ranges
RANGE_BYTES: Final = 64
POOL_BYTES: Final = RANGES_AT + RANGE_BYTES * MOST_THREADS


def pool_text(triple: str) -> str:
    """Return the IR for processors of an LLVM triple."""
    return "\n".join([_DECLARED, _pause(triple), _TASKS, _ENTER, _WAIT, _RUN, _START_STOP])


def _pause(triple: str) -> str:
    """Return `pause()`, which leaves the core to its other hardware thread for a moment."""
    if triple.startswith("x86_64"):
        declared, call = "declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"
    elif triple.startswith("aarch64"):
        declared = "declare void @llvm.aarch64.hint(i32)"
        call = "call void @llvm.aarch64.hint(i32 1)"
    else:
        declared, call = "", ""
    return f"""{declared}
declare i32 @sched_yield()

define internal void @pool_pause(i64 %spins) nounwind {{
  {call}
  %part = and i64 %spins, {YIELD_EVERY - 1}
  %due = icmp eq i64 %part, {YIELD_EVERY - 1}
  %late = icmp uge i64 %spins, {FIRM}
  %yields = and i1 %due, %late
  br i1 %yields, label %yield, label %out
yield:
  %a = call i32 @sched_yield()
  br label %out
out:
  ret void
}}"""


def _at(name: str, offset_bytes: int) -> str:
    return f"%{name} = getelementptr i8, ptr %pool, i64 {offset_bytes}"


_DECLARED: Final = """\
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_destroy(ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_destroy(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)"""

# Run tasks of the present job until all ranges are empty. `me` is the number of the thread, and of
# its range; the caller has 0. A thread that steals holds the tasks in no range for a moment:
# another thread that finds nothing then leaves the job early, which costs time only. No word of a
# range recurs within a job, as no task runs twice: an exchange that succeeds has seen the present
# range.
_TASKS: Final = f"""\
define internal void @pool_tasks(ptr %pool, i64 %me) nounwind {{
entry:
  {_at("p0", FUNCTION_AT)}
  %function = load ptr, ptr %p0, align 8
  {_at("p1", CONTEXT_AT)}
  %context = load ptr, ptr %p1, align 8
  {_at("p2", HELPERS_AT)}
  %helpers = load i64, ptr %p2, align 8
  %threads = add i64 %helpers, 1
  {_at("ranges", RANGES_AT)}
  %own = getelementptr [{RANGE_BYTES} x i8], ptr %ranges, i64 %me
  br label %front
front:
  %fresh = load atomic i64, ptr %own monotonic, align 8
  br label %range
range:
  %word = phi i64 [ %fresh, %front ], [ %changed, %take ]
  %task = and i64 %word, {(1 << END) - 1}
  %end = lshr i64 %word, {END}
  %some = icmp ult i64 %task, %end
  br i1 %some, label %take, label %others
take:
  %after = add i64 %word, 1
  %swap = cmpxchg ptr %own, i64 %word, i64 %after monotonic monotonic, align 8
  %changed = extractvalue {{ i64, i1 }} %swap, 0
  %taken = extractvalue {{ i64, i1 }} %swap, 1
  br i1 %taken, label %do, label %range
do:
  call void %function(ptr %context, i64 %task)
  br label %front
others:
  %away = phi i64 [ 1, %range ], [ %away, %steal ], [ %farther, %victim ]
  %more = icmp ult i64 %away, %threads
  br i1 %more, label %victim, label %done
victim:
  %sum = add i64 %me, %away
  %number = urem i64 %sum, %threads
  %place = getelementptr [{RANGE_BYTES} x i8], ptr %ranges, i64 %number
  %theirs = load atomic i64, ptr %place monotonic, align 8
  %their_task = and i64 %theirs, {(1 << END) - 1}
  %their_end = lshr i64 %theirs, {END}
  %left = icmp ult i64 %their_task, %their_end
  %farther = add i64 %away, 1
  br i1 %left, label %steal, label %others
steal:
  %rest = sub i64 %their_end, %their_task
  %lower = lshr i64 %rest, 1
  %middle = add i64 %their_task, %lower
  %shifted = shl i64 %middle, {END}
  %kept = or i64 %shifted, %their_task
  %moved = cmpxchg ptr %place, i64 %theirs, i64 %kept monotonic monotonic, align 8
  %got = extractvalue {{ i64, i1 }} %moved, 1
  br i1 %got, label %adopt, label %others
adopt:
  %upper = shl i64 %their_end, {END}
  %mine = or i64 %upper, %middle
  store atomic i64 %mine, ptr %own monotonic, align 8
  br label %front
done:
  ret void
}}

define internal void @pool_wake(ptr %pool, ptr %condition) nounwind {{
  {_at("mutex", MUTEX_AT)}
  %a = call i32 @pthread_mutex_lock(ptr %mutex)
  %b = call i32 @pthread_cond_broadcast(ptr %condition)
  %c = call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}}"""

# A helper: enter each open job once, run its tasks, leave; after SPINS pauses sleep until a job
# is published. `sleepers` is raised before the last look at the gate, and the caller publishes
# before it reads `sleepers`, both sequentially consistent: so one of the two sees the other.
_ENTER: Final = f"""\
define internal ptr @pool_helper(ptr %pool) nounwind {{
entry:
  {_at("gate", GATE_AT)}
  {_at("sleepers", SLEEPERS_AT)}
  {_at("stop", STOP_AT)}
  {_at("waiting", WAITING_AT)}
  {_at("mutex", MUTEX_AT)}
  {_at("jobs", JOBS_AT)}
  {_at("left", LEFT_AT)}
  {_at("born", BORN_AT)}
  %older = atomicrmw add ptr %born, i64 1 monotonic
  %me = add i64 %older, 1
  br label %idle
idle:
  %seen = phi i64 [ 0, %entry ], [ %generation, %work ], [ %generation, %tell ], [ %last, %wake ]
  br label %look
look:
  %last = phi i64 [ %seen, %idle ], [ %last, %again ], [ %last, %enter ]
  %spins = phi i64 [ 0, %idle ], [ %spun, %again ], [ %spins, %enter ]
  %word = load atomic i64, ptr %gate acquire, align 8
  %bit = and i64 %word, {OPEN}
  %open = icmp ne i64 %bit, 0
  %generation = and i64 %word, {-GENERATION}
  %unseen = icmp ne i64 %generation, %last
  %fresh = and i1 %open, %unseen
  br i1 %fresh, label %enter, label %idler
enter:
  %more = add i64 %word, 1
  %swap = cmpxchg ptr %gate, i64 %word, i64 %more acq_rel monotonic, align 8
  %entered = extractvalue {{ i64, i1 }} %swap, 1
  br i1 %entered, label %work, label %look
work:
  call void @pool_tasks(ptr %pool, i64 %me)
  %before = atomicrmw sub ptr %gate, i64 1 seq_cst
  %rest = and i64 %before, {OPEN | ENTRANTS}
  %ended = icmp eq i64 %rest, 1
  %waits = load atomic i64, ptr %waiting seq_cst, align 8
  %asleep = icmp ne i64 %waits, 0
  %call = and i1 %asleep, %ended
  br i1 %call, label %tell, label %idle
tell:
  call void @pool_wake(ptr %pool, ptr %left)
  br label %idle
idler:
  %asked = load atomic i64, ptr %stop acquire, align 8
  %ends = icmp ne i64 %asked, 0
  br i1 %ends, label %exit, label %pausing
pausing:
  call void @pool_pause(i64 %spins)
  %spun = add i64 %spins, 1
  %tired = icmp sge i64 %spun, {SPINS}
  br i1 %tired, label %sleep, label %again
again:
  br label %look
sleep:
  %a = call i32 @pthread_mutex_lock(ptr %mutex)
  %b = atomicrmw add ptr %sleepers, i64 1 seq_cst
  br label %check
check:
  %now = load atomic i64, ptr %gate seq_cst, align 8
  %now_bit = and i64 %now, {OPEN}
  %now_open = icmp ne i64 %now_bit, 0
  %now_generation = and i64 %now, {-GENERATION}
  %now_unseen = icmp ne i64 %now_generation, %last
  %now_fresh = and i1 %now_open, %now_unseen
  %stopping = load atomic i64, ptr %stop seq_cst, align 8
  %stops = icmp ne i64 %stopping, 0
  %awake = or i1 %now_fresh, %stops
  br i1 %awake, label %wake, label %wait
wait:
  %c = call i32 @pthread_cond_wait(ptr %jobs, ptr %mutex)
  br label %check
wake:
  %d = atomicrmw sub ptr %sleepers, i64 1 seq_cst
  %e = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %idle
exit:
  ret ptr null
}}"""

# The caller, after its last task: wait until no entrant is left, awake for SPINS pauses.
_WAIT: Final = f"""\
define internal void @pool_wait(ptr %pool) nounwind {{
entry:
  {_at("gate", GATE_AT)}
  {_at("waiting", WAITING_AT)}
  {_at("mutex", MUTEX_AT)}
  {_at("left", LEFT_AT)}
  %closed = atomicrmw and ptr %gate, i64 {~OPEN} seq_cst
  br label %look
look:
  %spins = phi i64 [ 0, %entry ], [ %spun, %again ]
  %word = load atomic i64, ptr %gate acquire, align 8
  %entrants = and i64 %word, {ENTRANTS}
  %none = icmp eq i64 %entrants, 0
  br i1 %none, label %out, label %pausing
pausing:
  call void @pool_pause(i64 %spins)
  %spun = add i64 %spins, 1
  %tired = icmp sge i64 %spun, {SPINS}
  br i1 %tired, label %sleep, label %again
again:
  br label %look
sleep:
  %a = call i32 @pthread_mutex_lock(ptr %mutex)
  store atomic i64 1, ptr %waiting seq_cst, align 8
  br label %check
check:
  %now = load atomic i64, ptr %gate seq_cst, align 8
  %now_entrants = and i64 %now, {ENTRANTS}
  %now_none = icmp eq i64 %now_entrants, 0
  br i1 %now_none, label %wake, label %wait
wait:
  %b = call i32 @pthread_cond_wait(ptr %left, ptr %mutex)
  br label %check
wake:
  store atomic i64 0, ptr %waiting seq_cst, align 8
  %c = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %out
out:
  ret void
}}"""

_RUN: Final = f"""\
define internal void @pool_run(ptr %pool, ptr %function, ptr %context, i64 %tasks) nounwind {{
entry:
  {_at("busy", BUSY_AT)}
  %ranged = icmp ult i64 %tasks, {1 << END}
  br i1 %ranged, label %free, label %alone
free:
  %taken = cmpxchg ptr %busy, i64 0, i64 1 acquire monotonic, align 8
  %mine = extractvalue {{ i64, i1 }} %taken, 1
  br i1 %mine, label %publish, label %alone
alone:
  %task = phi i64 [ 0, %entry ], [ 0, %free ], [ %after, %do ]
  %some = icmp slt i64 %task, %tasks
  br i1 %some, label %do, label %out
do:
  call void %function(ptr %context, i64 %task)
  %after = add nuw nsw i64 %task, 1
  br label %alone
publish:
  {_at("p0", FUNCTION_AT)}
  store ptr %function, ptr %p0, align 8
  {_at("p1", CONTEXT_AT)}
  store ptr %context, ptr %p1, align 8
  {_at("p2", HELPERS_AT)}
  %helpers = load i64, ptr %p2, align 8
  %threads = add i64 %helpers, 1
  {_at("ranges", RANGES_AT)}
  br label %share
share:
  %number = phi i64 [ 0, %publish ], [ %next, %share ]
  %first = phi i64 [ 0, %publish ], [ %last, %share ]
  %next = add i64 %number, 1
  %product = mul i64 %tasks, %next
  %last = udiv i64 %product, %threads
  %upper = shl i64 %last, {END}
  %range = or i64 %upper, %first
  %place = getelementptr [{RANGE_BYTES} x i8], ptr %ranges, i64 %number
  store atomic i64 %range, ptr %place monotonic, align 8
  %more = icmp ult i64 %next, %threads
  br i1 %more, label %share, label %shared
shared:
  {_at("gate", GATE_AT)}
  %closed = load atomic i64, ptr %gate monotonic, align 8
  %opened = add i64 %closed, {GENERATION + OPEN}
  store atomic i64 %opened, ptr %gate seq_cst, align 8
  {_at("p3", SLEEPERS_AT)}
  %sleepers = load atomic i64, ptr %p3 seq_cst, align 8
  %asleep = icmp sgt i64 %sleepers, 0
  br i1 %asleep, label %wake, label %work
wake:
  {_at("jobs", JOBS_AT)}
  call void @pool_wake(ptr %pool, ptr %jobs)
  br label %work
work:
  call void @pool_tasks(ptr %pool, i64 0)
  call void @pool_wait(ptr %pool)
  store atomic i64 0, ptr %busy release, align 8
  br label %out
out:
  ret void
}}"""

_START_STOP: Final = f"""\
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal void @pool_start(ptr %pool, i32 %threads) nounwind {{
entry:
  call void @llvm.memset.p0.i64(ptr align 64 %pool, i8 0, i64 {HANDLES_AT}, i1 false)
  store ptr @pool_run, ptr %pool, align 8
  {_at("mutex", MUTEX_AT)}
  %a = call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  {_at("jobs", JOBS_AT)}
  %b = call i32 @pthread_cond_init(ptr %jobs, ptr null)
  {_at("left", LEFT_AT)}
  %c = call i32 @pthread_cond_init(ptr %left, ptr null)
  {_at("handles", HANDLES_AT)}
  %many = icmp sgt i32 %threads, {MOST_THREADS}
  %most = select i1 %many, i32 {MOST_THREADS}, i32 %threads
  %wanted = sext i32 %most to i64
  br label %create
create:
  %made = phi i64 [ 0, %entry ], [ %others, %start ]
  %others = add i64 %made, 1
  %more = icmp slt i64 %others, %wanted
  br i1 %more, label %start, label %done
start:
  %handle = getelementptr i64, ptr %handles, i64 %made
  %refused = call i32 @pthread_create(ptr %handle, ptr null, ptr @pool_helper, ptr %pool)
  %fine = icmp eq i32 %refused, 0
  br i1 %fine, label %create, label %done
done:
  {_at("helpers", HELPERS_AT)}
  store i64 %made, ptr %helpers, align 8
  ret void
}}

define internal void @pool_stop(ptr %pool) nounwind {{
entry:
  {_at("stop", STOP_AT)}
  store atomic i64 1, ptr %stop seq_cst, align 8
  {_at("jobs", JOBS_AT)}
  call void @pool_wake(ptr %pool, ptr %jobs)
  {_at("helpers", HELPERS_AT)}
  %made = load i64, ptr %helpers, align 8
  {_at("handles", HANDLES_AT)}
  br label %collect
collect:
  %joined = phi i64 [ 0, %entry ], [ %next, %join ]
  %open = icmp slt i64 %joined, %made
  br i1 %open, label %join, label %done
join:
  %place = getelementptr i64, ptr %handles, i64 %joined
  %handle = load i64, ptr %place, align 8
  %ignored = call i32 @pthread_join(i64 %handle, ptr null)
  %next = add i64 %joined, 1
  br label %collect
done:
  {_at("mutex", MUTEX_AT)}
  %a = call i32 @pthread_mutex_destroy(ptr %mutex)
  %b = call i32 @pthread_cond_destroy(ptr %jobs)
  {_at("left", LEFT_AT)}
  %c = call i32 @pthread_cond_destroy(ptr %left)
  ret void
}}"""
