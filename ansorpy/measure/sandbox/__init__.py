"""Isolation levels of measuring processes; each level holds without the others.

    limits    always: rlimits, no_new_privs, no capabilities, a process group that dies as one
    landlock  Linux 5.13: reads the system and Python, writes its own folder, no TCP
    seccomp   x86-64, arm64: no sockets, no other programs, no signals to other processes
    bwrap     if installed: own namespaces of network and processes, a read-only file system

Candidates are generated from data by our own code: the sandbox is the second wall, not the first.
A child applies the first three levels to itself after the fork; bubblewrap wraps the fork server.
"""
