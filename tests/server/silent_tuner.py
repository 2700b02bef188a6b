"""A tuner process with two measuring processes that never read their pipe."""

import subprocess
import sys

DEAF = [sys.executable, "-c", "import time; time.sleep(60)"]

sys.stdin.readline()  # the settings
slots = [subprocess.Popen(DEAF, stdin=subprocess.PIPE, start_new_session=True) for _ in range(2)]
sys.stdout.write('{"is": "ready"}\n')
sys.stdout.flush()
sys.stdin.readline()
for slot in slots:
    slot.kill()
sys.exit(3)
