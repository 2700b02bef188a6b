"""What a measuring process cannot do: a ladder of rungs, each of which holds by itself.

    limits    always: rlimits, no_new_privs, no capabilities, a process group that dies as one
    landlock  Linux 5.13: reads the system and Python, writes its own folder, no TCP
    seccomp   x86-64, arm64: no sockets, no other programs, no signals to other processes
    bwrap     if installed: own namespaces of network and processes, a read-only file system

Candidates are made from data by our own generator, so this is the second wall, not the first. The
first three are put up in the child itself, after the fork; bubblewrap is put around the daemon.
"""
